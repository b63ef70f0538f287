"""Phase 3: take excess machines from clusters, and release free ones after a hold (spec/engine.md §3.11)."""

import math
from collections.abc import Collection, Mapping

from bigfleet.core.machines import MachineState
from bigfleet.engine.decisions import Action, ActionKind, EngineOptions
from bigfleet.engine.fill import Claims
from bigfleet.engine.phase2 import LONGEST_GRACE_SECONDS
from bigfleet.engine.snapshot import Snapshot


def reclaim(
    snapshot: Snapshot, claims: Claims, preempted: Collection[str], reported: Collection[str], cap_fraction: float
) -> tuple[list[Action], int]:
    """Reclaims of what Phase 1 left unclaimed, and how many of them the cap put off (spec/engine.md §3.11, §3.18).

    A cluster that has not sent a roll-up yet has not said what it needs: nothing is taken from it (first-roll-up gate).
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
    """The most machines that one cluster may lose in one cycle: at least one (spec/engine.md §3.4); 0 = no cap."""
    return max(1, math.floor(fraction * configured)) if fraction > 0 else configured


def release(
    snapshot: Snapshot, claims: Claims, now: float, idle_since: Mapping[str, float], options: EngineOptions
) -> list[Action]:
    """Delete free machines that nobody has wanted for longer than their hold (spec/engine.md §3.11)."""
    return [
        Action(ActionKind.DELETE, machine.id, "", "phase3.release")
        for machine in snapshot.in_state(MachineState.IDLE)
        if machine not in claims
        and machine.id in idle_since
        and now - idle_since[machine.id] > options.idle_hold(machine.capacity_type)
    ]
