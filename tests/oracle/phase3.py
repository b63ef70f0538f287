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


class Rate:
    """At most a share of what a party has in any window, at least one machine (docs/reference/engine.md#rails, ADR-36).

    Remembered between cycles. A share of 0 is no limit.
    """

    def __init__(self, fraction: float, window_seconds: float) -> None:
        self._fraction = fraction
        self._window = window_seconds
        # (when, of which party, which machine; None: it is not offered any more, so that its next time is another).
        self._taken: list[tuple[float, str, str | None]] = []

    def grant(self, parties: Mapping[str, tuple[Sequence[Machine], int]], now: float) -> tuple[list[Machine], float]:
        """What may go now of each party's (machines, in order; how many it has), and when the next may (ADR-36)."""
        if self._fraction == 0:
            return [machine for machines, _ in parties.values() for machine in machines], math.inf
        offered = {(party, machine.id) for party, (machines, _) in parties.items() for machine in machines}
        self._taken = [
            (at, party, machine_id if (party, machine_id) in offered else None)
            for at, party, machine_id in self._taken
            if at + self._window > now
        ]
        granted, again_at = [], math.inf
        for party, (machines, of) in parties.items():
            mine = [one for one in self._taken if one[1] == party]
            before = {machine_id for _, _, machine_id in mine}
            room = max(1, math.floor(self._fraction * of)) - len(mine)
            fresh = [machine.id for machine in machines if machine.id not in before][: max(0, room)]
            kept = [machine for machine in machines if machine.id in before or machine.id in fresh]
            # What is decided again is the same machine, not one more.
            mine = [one for one in mine if one[2] is None] + [(now, party, machine.id) for machine in kept]
            self._taken = [one for one in self._taken if one[1] != party] + mine
            granted += kept
            if len(kept) < len(machines):
                again_at = min(again_at, *(at + self._window for at, _, _ in mine))
        return granted, again_at


def reclaim(
    snapshot: Snapshot,
    claims: Claims,
    preempted: Collection[str],
    reported: Collection[str],
    rate: Rate,
    excess: Excess,
    now: float,
) -> tuple[list[Action], dict[str, int], float]:
    """Configured machines that nobody claimed, cluster by cluster, in keep order (docs/reference/engine.md#reclaim).

    A cluster that has not sent a roll-up loses nothing (BF-0036). Beyond the cap reclaims wait for a later cycle
    (docs/reference/engine.md#rails); the other results say how many of each cluster, and when the next may go.
    """
    unclaimed = [
        machine
        for cluster in snapshot.clusters()
        if cluster in reported
        for machine in snapshot.configured(cluster)
        if machine not in claims and machine.id not in preempted
    ]
    ripe = excess.ripe(unclaimed, now)
    due = {cluster: [m for m in ripe if m.cluster == cluster] for cluster in snapshot.clusters()}
    kept, again_at = rate.grant(
        {cluster: (machines, len(snapshot.configured(cluster))) for cluster, machines in due.items()}, now
    )
    actions = [
        Action(ActionKind.RECLAIM, m.id, m.cluster, "phase3.excess", grace_seconds=LONGEST_GRACE_SECONDS) for m in kept
    ]
    put_off = {cluster: sum(machine not in kept for machine in machines) for cluster, machines in due.items()}
    return actions, {cluster: count for cluster, count in put_off.items() if count}, again_at


def release(
    snapshot: Snapshot,
    claims: Claims,
    now: float,
    idle_since: Mapping[str, float],
    options: EngineOptions,
    rate: Rate,
) -> tuple[list[Action], int, float]:
    """Idle machines that nobody claimed and whose hold is over, by id (docs/reference/engine.md#idle-release).

    A machine without a stamp is never released. Beyond the cap releases wait for a later cycle (ADR-36); the other
    results say how many, and when the next may go.
    """
    idle = snapshot.in_state(MachineState.IDLE)
    due = [
        machine
        for machine in idle
        if machine not in claims
        and machine.id in idle_since
        and now - idle_since[machine.id] > options.idle_hold(machine.capacity_type)
    ]
    bought = sum(
        machine.state is not MachineState.SPECULATIVE and options.idle_hold(machine.capacity_type) < math.inf
        for machine in snapshot.machines
    )
    kept, again_at = rate.grant({"": (due, bought)}, now)
    return [Action(ActionKind.DELETE, m.id, "", "phase3.release") for m in kept], len(due) - len(kept), again_at
