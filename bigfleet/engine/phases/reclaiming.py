"""Phase 3: take excess machines from clusters, and release free ones after a hold.

See docs/reference/engine.md#reclaim.
"""

import math
from dataclasses import dataclass

import numpy as np

from bigfleet.core.machines import CapacityType
from bigfleet.engine.columns.fleet import IDLE, Fleet
from bigfleet.engine.columns.growing import Flags, Ints, Longs
from bigfleet.engine.decisions import EngineOptions
from bigfleet.engine.phases.credit import Credits


@dataclass(frozen=True, eq=False)
class Reclaims:
    """Machines to take, the cluster of each, and how many the cap put off."""

    machines: Ints
    clusters: Ints
    capped: int


class Shrinking:
    """What Phase 1 leaves unclaimed, and since when."""

    def __init__(self, options: EngineOptions) -> None:
        self._cap_fraction = options.reclaim_cap_fraction
        self._after_seconds = options.reclaim_after_seconds
        self._since: dict[str, float] = {}

    @property
    def waits(self) -> bool:
        """Whether time alone may bring a reclaim."""
        return bool(self._since)

    def reclaims(self, fleet: Fleet, credits: Credits, preempted: Flags, now: float) -> Reclaims:
        """Excess machines, cluster by cluster, as far as the cap allows (docs/reference/engine.md#rails).

        A cluster that has not sent a roll-up has no credit, so nothing is taken from it (first-roll-up gate).
        """
        machines, clusters, capped = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], 0
        before, self._since = self._since, {}
        for cluster in sorted(credits.excess, key=fleet.clusters.texts.__getitem__):
            known = credits.by_cluster[cluster]
            excess = known.excess[preempted[known.excess] == 0] if len(preempted) else known.excess
            if self._after_seconds > 0:
                excess = self._ripe(fleet, excess, before, now)
            kept = excess[: reclaim_cap(known.configured, self._cap_fraction)]
            capped += len(excess) - len(kept)
            machines.append(kept)
            clusters.append(np.full(len(kept), cluster, np.int32))
        return Reclaims(np.concatenate(machines), np.concatenate(clusters), capped)

    def _ripe(self, fleet: Fleet, excess: Ints, before: dict[str, float], now: float) -> Ints:
        """Those that have been excess for long enough. O(excess machines)."""
        ids = [fleet.ids.texts.text(row) for row in excess.tolist()]
        since = [before.get(machine_id, now) for machine_id in ids]
        self._since.update(zip(ids, since, strict=True))
        return excess[now - np.array(since, np.float64) >= self._after_seconds]


def reclaim_cap(configured: int, fraction: float) -> int:
    """The most machines that one cluster may lose in one cycle: at least one; 0 = no cap.

    See docs/reference/engine.md#rails.
    """
    return max(1, math.floor(fraction * configured)) if fraction > 0 else configured


class Releases:
    """Free machines that no need has wanted for longer than their hold."""

    def __init__(self, options: EngineOptions) -> None:
        self._holds = np.array([options.idle_hold(capacity_type) for capacity_type in CapacityType])

    def due(self, fleet: Fleet, taken: Longs, now: float) -> Ints:
        """Idle machines to delete, by id: O(Idle machines that may ever be released)."""
        kinds = len(fleet.kinds)
        holds = self._holds[fleet.kinds.capacity_types[:kinds]]
        segments = fleet.pools[IDLE, :kinds]
        sizes = np.where(segments >= 0, fleet.index.sizes[segments], 0)
        due = []
        for kind in np.flatnonzero((sizes > taken[IDLE, :kinds]) & (holds < math.inf)).tolist():
            start = int(fleet.index.starts[segments[kind]])
            machines = fleet.index.rows[start + int(taken[IDLE, kind]) : start + int(sizes[kind])]
            # An unknown stamp compares false.
            late = machines[now - fleet.idle_since[machines] > holds[kind]]
            if len(late):
                due.append(late)
        if not due:
            return np.zeros(0, np.int32)
        machines = np.concatenate(due)
        return machines[np.argsort(fleet.ids.labels[machines])]
