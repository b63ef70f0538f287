"""The decision engine: inventory and demand in, decisions out (spec/engine.md §3.7)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from bigfleet.core.machines import Machine
from bigfleet.core.needs import Need
from bigfleet.engine.decisions import Decisions, EngineOptions
from bigfleet.engine.fill import Claims, unfilled
from bigfleet.engine.fold import fold
from bigfleet.engine.hints import capacity_hints
from bigfleet.engine.ledger import ShortfallLedger
from bigfleet.engine.parking import Parking
from bigfleet.engine.phase1 import acquire_missing, credit
from bigfleet.engine.phase2 import preempt
from bigfleet.engine.phase3 import reclaim, release
from bigfleet.engine.snapshot import Snapshot
from bigfleet.engine.views import need_views


def _no_lap(_phase: str) -> None:
    pass


class Engine:
    """Decides cycle after cycle. In between it remembers how long gangs and shortfalls have waited, nothing else."""

    def __init__(self, options: EngineOptions | None = None) -> None:
        self._options = options or EngineOptions()
        self._parking = Parking(self._options.park_after_cycles, self._options.park_probe_every)
        self._ledger = ShortfallLedger()

    def cycle(
        self,
        machines: Mapping[str, Machine],
        needs: Mapping[str, Sequence[Need]],
        now: float,
        idle_since: Mapping[str, float],
        lap: Callable[[str], None] = _no_lap,
    ) -> Decisions:
        """One cycle over a fixed view of the world (spec/engine.md §3.7 steps 2 to 4).

        `needs` has a key for every cluster that has sent a roll-up, even an empty one: nothing is reclaimed from the
        others. `now` and `idle_since` (by machine id) are in seconds of one clock. `lap` hears of each phase's end:
        snapread, phase1, phase2, phase3, emit.
        """
        snapshot = Snapshot(machines.values())
        folded = fold(chain.from_iterable(needs.values()), snapshot)
        fills = [unfilled(need, snapshot) for need in by_precedence(folded)]
        for fill in fills:
            self._parking.stamp(fill)
        lap("snapread")

        claims = Claims()
        credit(fills, snapshot, claims)
        acquisitions = acquire_missing(fills, snapshot, claims)
        self._parking.update(fills)
        lap("phase1")

        preemption = preempt(fills, snapshot, claims)
        lap("phase2")

        reclaims, capped = reclaim(snapshot, claims, preemption.taken, needs.keys(), self._options.reclaim_cap_fraction)
        releases = release(snapshot, claims, now, idle_since, self._options)
        lap("phase3")

        shortfalls = self._ledger.record(preemption.unresolved)
        decisions = Decisions(
            actions=(*acquisitions, *preemption.actions, *reclaims, *releases),
            shortfalls=tuple(shortfalls),
            views=tuple(need_views(fills, preemption.unresolved, self._ledger)),
            hints=tuple(capacity_hints(folded, snapshot)),
            reclaims_capped=capped,
        )
        lap("emit")
        return decisions


def by_precedence(needs: Iterable[Need]) -> list[Need]:
    """Who is served first: priority, then who came first, then the cluster's id (spec/engine.md §3.6).

    The same order serves credit, acquisition, preemption and the views. What still ties is ordered by fingerprint and
    group, so that the order of the input never matters.
    """
    return sorted(needs, key=lambda need: (-need.profile.priority, need.arrival, *need.key))
