"""Phase 3: take excess machines from clusters, and release free ones after a hold (spec/engine.md §3.11)."""

import math
from collections.abc import Collection, Mapping, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine.decisions import Action, ActionKind, EngineOptions
from tests.oracle.fill import Claims
from tests.oracle.phase2 import LONGEST_GRACE_SECONDS
from tests.oracle.snapshot import Snapshot


class Excess:
    """Since when each machine has been excess without a break (docs/adr/0020). Remembered between cycles."""

    def __init__(self, after_seconds: float) -> None:
        self._after_seconds = after_seconds
        self._since: dict[str, float] = {}

    def ripe(self, excess: Sequence[Machine], now: float) -> list[Machine]:
        """ADR 20: those that have been excess for long enough; all that is not excess now starts anew."""
        self._since = {machine.id: self._since.get(machine.id, now) for machine in excess}
        return [machine for machine in excess if now - self._since[machine.id] >= self._after_seconds]


def reclaim(
    snapshot: Snapshot,
    claims: Claims,
    preempted: Collection[str],
    reported: Collection[str],
    cap_fraction: float,
    excess: Excess,
    now: float,
) -> tuple[list[Action], int]:
    """§3.11 "Emit Reclaim for every Configured machine not in the claimed set, in keep order".

    "Clusters in id order; skip clusters that never sent a roll-up (first-rollup gate)." §3.18 rail 1: "per cluster per
    cycle; head of emission kept, rest deferred"; the second result says how many. §3.4 "Voluntary reclaim grace".
    """
    actions: list[Action] = []
    capped = 0
    unclaimed = [
        machine
        for cluster in snapshot.clusters()
        if cluster in reported
        for machine in snapshot.configured(cluster)
        if machine not in claims and machine.id not in preempted
    ]
    ripe = excess.ripe(unclaimed, now)
    for cluster in snapshot.clusters():
        due = [machine for machine in ripe if machine.cluster == cluster]
        kept = due[: reclaim_cap(len(snapshot.configured(cluster)), cap_fraction)]
        capped += len(due) - len(kept)
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
