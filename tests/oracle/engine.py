"""The oracle: a slow, plain engine that the columnar one must agree with, rule by rule.

See docs/reference/engine.md#cycle.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from bigfleet.core.machines import Machine
from bigfleet.core.needs import Need
from bigfleet.engine.decisions import Decisions, EngineOptions
from tests.oracle.fill import Claims, unfilled
from tests.oracle.fold import fold
from tests.oracle.hints import capacity_hints
from tests.oracle.ledger import ShortfallLedger
from tests.oracle.parking import Parking
from tests.oracle.phase1 import acquire_missing, credit
from tests.oracle.phase2 import preempt
from tests.oracle.phase3 import Excess, Rate, reclaim, release
from tests.oracle.snapshot import Snapshot
from tests.oracle.views import need_views


def _no_lap(_phase: str) -> None:
    pass


class OracleEngine:
    """Decides cycle after cycle. In between it remembers how long gangs, shortfalls and excess have waited, and what it
    has let go lately; nothing else.

    Each rule cites its section of docs/reference/engine.md, or the decision that it comes from. Rails that need a
    process (kill switch, dry run, empty-roll-up guard, most actions in a cycle, checks at ingest) are the shard's.
    """

    def __init__(self, options: EngineOptions | None = None) -> None:
        self._options = options or EngineOptions()
        self._parking = Parking(self._options.park_after_cycles, self._options.park_probe_every)
        self._ledger = ShortfallLedger()
        self._excess = Excess(self._options.reclaim_after_seconds)
        self._reclaim_rate, self._release_rate = (
            Rate(fraction, self._options.cap_window_seconds)
            for fraction in (self._options.reclaim_cap_fraction, self._options.release_cap_fraction)
        )

    def cycle(
        self,
        machines: Mapping[str, Machine],
        needs: Mapping[str, Sequence[Need]],
        now: float,
        idle_since: Mapping[str, float],
        lap: Callable[[str], None] = _no_lap,
    ) -> Decisions:
        """One cycle over a fixed view of the world (docs/reference/engine.md#cycle, steps 2 and 3).

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

        preemption = preempt(fills, snapshot, claims, needs.keys())
        lap("phase2")

        reclaims, capped, more_reclaims_at = reclaim(
            snapshot, claims, preemption.taken, needs.keys(), self._reclaim_rate, self._excess, now
        )
        releases, releases_capped, more_releases_at = release(
            snapshot, claims, now, idle_since, self._options, self._release_rate
        )
        lap("phase3")

        shortfalls = self._ledger.record(preemption.unresolved)
        decisions = Decisions(
            actions=(*acquisitions, *preemption.actions, *reclaims, *releases),
            shortfalls=tuple(shortfalls),
            views=tuple(need_views(fills, preemption.unresolved, self._ledger)),
            hints=tuple(capacity_hints(folded, snapshot)),
            reclaims_capped=capped,
            releases_capped=releases_capped,
            again_at=min(more_reclaims_at, more_releases_at),
        )
        lap("emit")
        return decisions


def by_precedence(needs: Iterable[Need]) -> list[Need]:
    """Who is served first (docs/reference/engine.md#cost-and-order).

    The same order (ADR-6) serves credit, acquisition, preemption and the views. What still ties is ordered by
    fingerprint and group, so that the order of the input never matters.
    """
    return sorted(needs, key=lambda need: (-need.profile.priority, need.arrival, *need.key))
