"""Phase 3: take excess machines from clusters, and release free ones after a hold.

See docs/reference/engine.md#reclaim.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bigfleet.core.machines import CapacityType
from bigfleet.engine.columns.fleet import IDLE, SPECULATIVE, Fleet
from bigfleet.engine.columns.growing import Flags, Floats, Ints, Longs
from bigfleet.engine.decisions import EngineOptions
from bigfleet.engine.phases.credit import Credits
from bigfleet.engine.phases.rate_cap import Rate


@dataclass(frozen=True, eq=False)
class Reclaims:
    """Machines to take, the cluster of each, and how many of each cluster the cap put off."""

    machines: Ints
    clusters: Ints
    capped: Mapping[str, int]
    # When the cap lets the next of them go; infinite if it put off none.
    again_at: float


class Shrinking:
    """What Phase 1 leaves unclaimed, and since when."""

    def __init__(self, options: EngineOptions) -> None:
        self._rate = Rate(options.reclaim_cap_fraction, options.cap_window_seconds)
        self._after_seconds = options.reclaim_after_seconds
        self._since: dict[str, float] = {}

    @property
    def waits(self) -> bool:
        """Whether time alone may bring a reclaim."""
        return bool(self._since) or self._rate.waits

    def reclaims(self, fleet: Fleet, credits: Credits, preempted: Flags, now: float) -> Reclaims:
        """Excess machines, cluster by cluster, as far as the cap allows (docs/reference/engine.md#rails).

        A cluster that has not sent a roll-up has no credit, so nothing is taken from it (first-roll-up gate).
        """
        machines, clusters = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        capped: dict[str, int] = {}
        self._rate.begin()
        before, self._since = self._since, {}
        for cluster in sorted(credits.excess, key=fleet.clusters.texts.__getitem__):
            known = credits.by_cluster[cluster]
            excess = known.excess[preempted[known.excess] == 0] if len(preempted) else known.excess
            if self._after_seconds > 0:
                excess = self._ripe(fleet, excess, before, now)
            kept = self._rate.grant(fleet, cluster, excess, known.configured, now)
            if len(kept) < len(excess):
                capped[fleet.clusters.texts[cluster]] = len(excess) - len(kept)
            machines.append(kept)
            clusters.append(np.full(len(kept), cluster, np.int32))
        self._rate.end(now)
        return Reclaims(np.concatenate(machines), np.concatenate(clusters), capped, self._rate.again_at)

    def _ripe(self, fleet: Fleet, excess: Ints, before: dict[str, float], now: float) -> Ints:
        """Those that have been excess for long enough. O(excess machines)."""
        ids = [fleet.ids.texts.text(row) for row in excess.tolist()]
        since = [before.get(machine_id, now) for machine_id in ids]
        self._since.update(zip(ids, since, strict=True))
        return excess[now - np.array(since, np.float64) >= self._after_seconds]


# All free machines of the shard are one party: they are nobody's.
_SHARD = 0


def _bought(fleet: Fleet, holds: Floats) -> int:
    """How many machines there are that have a hold, without the Speculative ones, which are not bought. O(kinds)."""
    kinds = len(holds)
    segments = fleet.pools[SPECULATIVE, :kinds]
    speculative = np.where(segments >= 0, fleet.index.sizes[segments], 0)
    return int((fleet.kinds.machines[:kinds] - speculative)[holds < math.inf].sum())


class Releases:
    """Free machines that no need has wanted for longer than their hold, as far as the cap allows."""

    def __init__(self, options: EngineOptions) -> None:
        self._holds = np.array([options.idle_hold(capacity_type) for capacity_type in CapacityType])
        self._rate = Rate(options.release_cap_fraction, options.cap_window_seconds)
        # How many the cap put off, and when it lets the next of them go.
        self.capped = 0
        self.again_at = math.inf

    def due(self, fleet: Fleet, taken: Longs, now: float) -> Ints:
        """Idle machines to delete, by id: O(Idle machines that may ever be released)."""
        kinds = len(fleet.kinds)
        holds = self._holds[fleet.kinds.capacity_types[:kinds]]
        segments = fleet.pools[IDLE, :kinds]
        sizes = np.where(segments >= 0, fleet.index.sizes[segments], 0)
        due = [np.zeros(0, np.int32)]
        for kind in np.flatnonzero((sizes > taken[IDLE, :kinds]) & (holds < math.inf)).tolist():
            start = int(fleet.index.starts[segments[kind]])
            machines = fleet.index.rows[start + int(taken[IDLE, kind]) : start + int(sizes[kind])]
            # An unknown stamp compares false.
            late = machines[now - fleet.idle_since[machines] > holds[kind]]
            if len(late):
                due.append(late)
        machines = np.concatenate(due)
        machines = machines[np.argsort(fleet.ids.labels[machines])]
        self._rate.begin()
        kept = machines
        if len(machines):
            kept = self._rate.grant(fleet, _SHARD, machines, _bought(fleet, holds), now)
        self._rate.end(now)
        self.capped, self.again_at = len(machines) - len(kept), self._rate.again_at
        return kept
