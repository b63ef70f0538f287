"""The decision engine: inventory and demand in, decisions out (docs/reference/engine.md#cycle)."""

from collections.abc import Callable

from bigfleet.engine.actions import actions
from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.decisions import Decisions, EngineOptions
from bigfleet.engine.kernels import kernels
from bigfleet.engine.phases.acquisition import Short, acquire
from bigfleet.engine.phases.credit import Credits
from bigfleet.engine.phases.parking import Parking
from bigfleet.engine.phases.preemption import Preemption, preempt
from bigfleet.engine.phases.reclaiming import Reclaims, Releases, Shrinking
from bigfleet.engine.phases.shortfalls import ShortfallLedger
from bigfleet.engine.reports import Hints, Views


def _no_lap(_phase: str) -> None:
    pass


class Engine:
    """Decides cycle after cycle. It remembers how long gangs and shortfalls have waited, how long excess has stood, and
    what it has let go lately.

    What it remembers of a fleet besides is only a short cut: it decides the same without.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self._options = options or EngineOptions()
        self._parking = Parking(self._options.park_after_cycles, self._options.park_probe_every)
        self._ledger = ShortfallLedger()
        self._shrinking = Shrinking(self._options)
        self._releases = Releases(self._options)
        self._fleet: Fleet | None = None

    @property
    def compiled(self) -> bool:
        """Whether the kernels are machine code. They load now if they have not yet, which takes a second."""
        return kernels().compiled

    def cycle(self, fleet: Fleet, now: float, lap: Callable[[str], None] = _no_lap) -> Decisions:
        """One cycle over a fleet that must not change meanwhile (docs/reference/engine.md#cycle, steps 2 and 3).

        `now` and the fleet's idle stamps are in seconds of one clock. `lap` hears of each phase's end: snapread,
        phase1, phase2, phase3, emit.
        """
        if fleet is not self._fleet:
            self._fleet, self._credits, self._change = fleet, Credits(fleet), -1
        fleet.settle()
        lap("snapread")

        unchanged = fleet.change == self._change and not self._parking.restamped
        if not unchanged:
            self._credits.refresh(self._parking)
            self._short: Short = acquire(fleet, self._credits)
        short = self._short
        lap("phase1")

        if not unchanged:
            self._preemption: Preemption = preempt(fleet, self._credits, short, self._parking)
        preemption = self._preemption
        lap("phase2")

        if not unchanged or self._shrinking.waits:
            self._reclaims: Reclaims = self._shrinking.reclaims(fleet, self._credits, preemption.taken, now)
        releases = self._releases.due(fleet, short.taken, now)
        self._change = fleet.change
        lap("phase3")

        shortfalls = self._ledger.record(fleet, short, preemption)
        views = Views(fleet, self._credits, short, preemption, self._parking, self._ledger.ages)
        decisions = Decisions(
            actions=actions(fleet, short, preemption, self._reclaims, releases),
            shortfalls=tuple(shortfalls),
            views=views.sequence(),
            views_of=views.of,
            hints=Hints(fleet, self._credits).sequence(),
            reclaims_capped=self._reclaims.capped,
            releases_capped=self._releases.capped,
            again_at=min(self._reclaims.again_at, self._releases.again_at),
        )
        self._parking.count(short.gang(number) for number in short.hopeless(fleet).tolist())
        lap("emit")
        return decisions
