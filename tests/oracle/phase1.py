"""Phase 1: credit every need with the capacity that is bound, then acquire what is missing (spec/engine.md §3.9)."""

from collections.abc import Iterator, Mapping, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine.decisions import Action, ActionKind
from tests.oracle.acquire import acquire
from tests.oracle.domains import FreeMachines, credit_gang
from tests.oracle.fill import Claims, Fill
from tests.oracle.snapshot import Snapshot


def credit(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> None:
    """§3.9 "Pre-pass (single-threaded, priority-descending stable): the only supply attribution in the engine"."""
    free = FreeMachines(snapshot)
    priorities = {fill.need.key: fill.need.profile.priority for fill in fills}
    for fill in fills:
        same = fill.need.profile.same
        creditable = _creditable(fill, snapshot, claims)
        if same is None:
            credit_plain(creditable, fill, claims)
        else:
            mine = (machine for machine in creditable if not _is_anothers(machine, fill, priorities))
            credit_gang(mine, free, fill, claims, same.key)


def _is_anothers(machine: Machine, fill: Fill, priorities: Mapping[tuple[str, str, str], int]) -> bool:
    """Whether a machine was bound for another need, as important as this gang or more, that is still there (ADR 21)."""
    assignment = machine.assignment
    priority = priorities.get((fill.need.cluster, assignment.fingerprint, assignment.group))
    return priority is not None and priority >= fill.need.profile.priority and not fill.owns(machine)


def credit_plain(creditable: Iterator[Machine], fill: Fill, claims: Claims) -> None:
    """§3.9 "Plain Need: … claim; remaining −= full allocatable; stop when zero" (ADR-0045).

    The need's own machines first (ADR 21), then any that is bound; §3.9 "then (if still short …) Creating".
    """

    def turn(machine: Machine) -> int:
        if machine.state is MachineState.CREATING:
            return 2
        return 0 if fill.owns(machine) else 1

    for machine in sorted(creditable, key=turn):
        if fill.met:
            return
        claims.claim(machine, fill)


def _creditable(fill: Fill, snapshot: Snapshot, claims: Claims) -> Iterator[Machine]:
    """§3.9 "Capacity counts iff bound — bound = Configured|Configuring (+ own Creating)" (ADR-0045, ADR-0052).

    "Skip claimed, non-matching or not covering min_unit."
    """
    need = fill.need
    for machine in (*snapshot.bound(need.cluster), *snapshot.creating(need.profile, need.group)):
        if machine.id in fill.usable and machine not in claims:
            yield machine


def acquire_missing(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> list[Action]:
    """§3.9 "Acquisition: every Need with residual deficit", in one pass by (priority desc, arrival asc, cluster asc).

    "Parked Need: acquire nothing."
    """
    actions: list[Action] = []
    for fill in fills:
        if fill.met or fill.parked:
            continue
        acquire(fill, snapshot, claims)
        actions += (_action(ActionKind.BOOTSTRAP, machine, fill) for machine in fill.bootstraps)
        actions += (_action(ActionKind.PROVISION, machine, fill) for machine in fill.provisions)
    return actions


def _action(kind: ActionKind, machine: Machine, fill: Fill) -> Action:
    """§3.9 "Output: actions (…; carry source profile+group)"; the reason is §3.5's."""
    need = fill.need
    return Action(kind, machine.id, need.cluster, "phase1", profile=need.profile, group=need.group)
