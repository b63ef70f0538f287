"""Phase 3: take excess machines from clusters, and release free ones after a hold.

See docs/reference/engine.md#reclaim.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine.decisions import Action, ActionKind, EngineOptions
from tests.oracle.fill import Claims
from tests.oracle.phase2 import LONGEST_GRACE_SECONDS
from tests.oracle.snapshot import Snapshot


class Excess:
    """Since when each machine has been excess without a break (ADR-20). Remembered between cycles."""

    def __init__(self, after_seconds: float) -> None:
        self._after_seconds = after_seconds
        self._since: dict[str, float] = {}

    def ripe(self, excess: Sequence[Machine], now: float) -> list[Machine]:
        """ADR-20: those that have been excess for long enough; all that is not excess now starts anew."""
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
    """Configured machines that nobody claimed, cluster by cluster, in keep order (docs/reference/engine.md#reclaim).

    A cluster that has not sent a roll-up loses nothing (BF-0036). Beyond the cap reclaims wait for a later cycle
    (docs/reference/engine.md#rails); the second result says how many.
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
    """The most that a cluster may lose in a cycle, at least 1; a fraction of 0 is no cap.

    See docs/reference/engine.md#rails.
    """
    return max(1, math.floor(fraction * configured)) if fraction > 0 else configured


def release(
    snapshot: Snapshot, claims: Claims, now: float, idle_since: Mapping[str, float], options: EngineOptions
) -> list[Action]:
    """Idle machines that nobody claimed and whose hold is over, by id (docs/reference/engine.md#idle-release).

    A machine without a stamp is never released.
    """
    return [
        Action(ActionKind.DELETE, machine.id, "", "phase3.release")
        for machine in snapshot.in_state(MachineState.IDLE)
        if machine not in claims
        and machine.id in idle_since
        and now - idle_since[machine.id] > options.idle_hold(machine.capacity_type)
    ]
