"""Steady state as BF-0045 defines it: demand is covered by bound capacity, and nothing moves any more.

docs/reference/harness.md#steady-state has the conditions.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from scaletest.judge.gates.figures import DEMAND_ALIVE, PODS_BOUND, RECLAIMS, SHORTFALLS
from scaletest.judge.gates.hop_gates import LOAD_FRACTION
from scaletest.model.counting import counted, noun

POLL_SECONDS = 10
QUIET_POLLS = 3
PLATEAU_POLLS = 12

QUERIES = {
    "active": DEMAND_ALIVE,
    "demand": "sum(bigfleet_shard_demand_machines)",
    "shortfalls": SHORTFALLS,
    "acquisitions": 'sum(bigfleet_shard_actions_total{kind=~"Bootstrap|Provision"})',
    "reclaims": f"sum({RECLAIMS})",
    "waiting": "sum(bigfleet_shard_seeded_waiting)",
    "unfilled": "sum(scaletest_loadgen_steady_state == bool 0)",
    "bound": PODS_BOUND,
}


@dataclass(frozen=True)
class Poll:
    """One look at the fleet. None: Prometheus had no such series, which is never steady."""

    clusters_ready: int
    active: float | None = None
    demand: float | None = None
    shortfalls: float | None = None
    acquisitions: float | None = None
    reclaims: float | None = None
    # Conditions of the harness, not of BF-0045: seeded machines whose node has not reported yet, and clusters whose
    # load-driver has not asked for everything or not bound what it must.
    waiting: float | None = None
    unfilled: float | None = None
    bound: float | None = None


@dataclass(frozen=True)
class Unmet:
    """A condition that does not hold: what is missing, and what to look at."""

    what: str
    look_at: str
    # Of the harness, rather than of BF-0045.
    harness: bool = False


class Steadiness:
    """Judges polls one after the other; strict: any miss starts the count anew."""

    def __init__(self, clusters: int, pods: int, *, scarce: bool = False) -> None:
        self._clusters = clusters
        self._wanted_active = int(LOAD_FRACTION * pods)
        # The profile wants a standing shortfall: it must be there, and then it is no plateau.
        self._scarce = scarce
        # The last polls; what moved among them is what keeps a fleet from resting.
        self._polls: deque[Poll] = deque(maxlen=QUIET_POLLS + 1)
        self.quiet = 0
        self.stuck = 0

    @property
    def steady(self) -> bool:
        return self.quiet >= QUIET_POLLS

    @property
    def plateaued(self) -> bool:
        """Whether a shortfall stands at full demand while the shard acquires no more machines."""
        return not self._scarce and self.stuck >= PLATEAU_POLLS

    def observe(self, poll: Poll) -> None:
        previous = self._polls[-1] if self._polls else None
        self._polls.append(poll)
        flat = previous is not None and poll.acquisitions is not None and poll.acquisitions == previous.acquisitions
        self.quiet = self.quiet + 1 if flat and not list(self._missing(poll)) else 0
        self.stuck = self.stuck + 1 if self._demand_built(poll) and flat and (poll.shortfalls or 0) > 0 else 0

    @property
    def unmet(self) -> list[Unmet]:
        """What keeps the last poll from being steady, in the order of cause and effect.

        See docs/reference/harness.md#reading-a-bad-run.
        """
        if not self._polls:
            return [Unmet("no poll was made", "the host's API and Prometheus")]
        return [*self._missing(self._polls[-1]), *self._moving()]

    def why_not(self) -> str:
        """The first condition that does not hold, in one sentence."""
        return self.unmet[0].what if self.unmet else f"quiet for {self.quiet} of {QUIET_POLLS} polls only"

    def _moving(self) -> Iterator[Unmet]:
        """A shard that only acquires may become steady; one that acquires and reclaims oscillates, and never will."""
        first, last = self._polls[0], self._polls[-1]
        if last.acquisitions is None:
            yield Unmet("the shard reports no acquisitions series", "the shard's log, and its scrapes")
        elif last.acquisitions == first.acquisitions:
            return
        elif last.reclaims != first.reclaims:
            figures = f"{_shown(last.acquisitions, 'acquisition')} and {_shown(last.reclaims, 'reclaim')}, still moving"
            yield Unmet(f"oscillation: {figures}", "the shard's log: the engine gives back what it buys")
        else:
            yield Unmet(
                f"still acquiring: {_shown(last.acquisitions, 'acquisition')} so far, and nothing is given back",
                "the shard's log: which needs it buys for; a longer rampBudget if that is just the fill",
            )

    def _missing(self, poll: Poll) -> Iterator[Unmet]:
        if poll.clusters_ready < self._clusters:
            few = self._clusters - poll.clusters_ready
            clusters = counted(self._clusters, "cluster")
            missing = f"{few} of {clusters} {noun(few, 'is', 'are')} not Ready"
            yield Unmet(missing, "the logs of the kwok-cluster pods: ports, memory, inotify watches")
        if (poll.active or 0) < self._wanted_active:
            yield Unmet(
                f"demand is not built: {_shown(poll.active)} of {counted(self._wanted_active, 'Pod')} "
                f"{noun(poll.active or 0, 'is', 'are')} alive as demand, the shard knows {_shown(poll.demand, 'need')}",
                "the load-driver and the apiserver of the emptiest cluster",
            )
        elif not poll.demand:
            yield Unmet(
                f"demand is not built: the shard knows {_shown(poll.demand, 'need')}",
                "the operator: not started, or its session refused",
            )
        yield from self._shortfalls(poll)
        if poll.waiting != 0:
            machines, wait = _of_some(poll.waiting, "seeded machine"), noun(poll.waiting or 0, "waits", "wait")
            waiting = f"{machines} still {wait} for {noun(poll.waiting or 0, 'its', 'their')} node"
            yield Unmet(waiting, "the node-creator and KWOK of their clusters", harness=True)
        if poll.unfilled != 0 and not self._scarce:
            clusters, wait = _of_some(poll.unfilled, "cluster"), noun(poll.unfilled or 0, "waits", "wait")
            unfilled = f"{clusters} still {wait} for the first fill to be created and bound"
            yield Unmet(unfilled, "the load-driver of the emptiest cluster", harness=True)

    def _shortfalls(self, poll: Poll) -> Iterator[Unmet]:
        if poll.shortfalls is None:
            yield Unmet("the shard reports no shortfalls series", "the shard's log, and its scrapes")
        elif poll.shortfalls > 0 and not self._scarce:
            yield Unmet(
                f"undersupply: {_shown(poll.shortfalls, 'need')} {noun(poll.shortfalls, 'stands', 'stand')} unmet",
                "seed against catalog (`scaletest-runner plan` shows both), then the engine",
            )
        elif poll.shortfalls == 0 and self._scarce:
            yield Unmet("no shortfall stands, and the profile wants one", "seed against catalog: there is too much")

    def _demand_built(self, poll: Poll) -> bool:
        return (poll.active or 0) >= self._wanted_active and (poll.demand or 0) > 0


def _shown(value: float | None, thing: str = "") -> str:
    number = "no" if value is None else f"{value:g}"
    return f"{number} {noun(value or 0, thing)}" if thing else number


def _of_some(count: float | None, thing: str) -> str:
    """The count with its noun, or `the …s` where there is no count."""
    return f"the {thing}s" if count is None else _shown(count, thing)
