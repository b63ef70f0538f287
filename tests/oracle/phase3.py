"""Phase 3: take excess machines from clusters, and release free ones after a hold (spec/engine.md §3.11)."""

import math
from collections.abc import Collection, Mapping

from bigfleet.core.machines import MachineState
from bigfleet.engine.decisions import Action, ActionKind, EngineOptions
from tests.oracle.fill import Claims
from tests.oracle.phase2 import LONGEST_GRACE_SECONDS
from tests.oracle.snapshot import Snapshot


def reclaim(
    snapshot: Snapshot, claims: Claims, preempted: Collection[str], reported: Collection[str], cap_fraction: float
) -> tuple[list[Action], int]:
    """§3.11 "Emit Reclaim for every Configured machine not in the claimed set, in keep order".

    "Clusters in id order; skip clusters that never sent a roll-up (first-rollup gate)." §3.18 rail 1: "per cluster per
    cycle; head of emission kept, rest deferred"; the second result says how many. §3.4 "Voluntary reclaim grace".
    """
    actions: list[Action] = []
    capped = 0
    for cluster in snapshot.clusters():
        if cluster not in reported:
            continue
        configured = snapshot.configured(cluster)
        excess = [machine for machine in configured if machine not in claims and machine.id not in preempted]
        kept = excess[: reclaim_cap(len(configured), cap_fraction)]
        capped += len(excess) - len(kept)
        actions += (
            Action(ActionKind.RECLAIM, m.id, cluster, "phase3.excess", grace_seconds=LONGEST_GRACE_SECONDS)
            for m in kept
        )
    return actions, capped


def reclaim_cap(configured: int, fraction: float) -> int:
    """§3.4 "Reclaim cap = max(1, floor(0.05 × Configured in cluster))"; §3.18 "0=off"."""
    return max(1, math.floor(fraction * configured)) if fraction > 0 else configured


def release(
    snapshot: Snapshot, claims: Claims, now: float, idle_since: Mapping[str, float], options: EngineOptions
) -> list[Action]:
    """§3.11 "Release: every Idle machine (id order) not claimed, of a releasable type, … older than its hold ⇒ Delete".

    The holds are design.md §4's. A machine without a stamp is never released.
    """
    return [
        Action(ActionKind.DELETE, machine.id, "", "phase3.release")
        for machine in snapshot.in_state(MachineState.IDLE)
        if machine not in claims
        and machine.id in idle_since
        and now - idle_since[machine.id] > options.idle_hold(machine.capacity_type)
    ]
