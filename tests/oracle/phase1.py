"""Phase 1: credit every need with the capacity that is bound, then acquire what is missing (spec/engine.md §3.9)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from bigfleet.core.machines import Machine, MachineState
from bigfleet.engine.decisions import Action, ActionKind
from tests.oracle.acquire import acquire
from tests.oracle.domains import FreeMachines, credit_gang
from tests.oracle.fill import Claims, Fill
from tests.oracle.snapshot import Snapshot
from tests.oracle.spread import cover_domains, hold_domains

_OWN = 0


def credit(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> None:
    """§3.9 "Pre-pass (single-threaded, priority-descending stable): the only supply attribution in the engine"."""
    free = FreeMachines(snapshot)
    priorities = {fill.need.key: fill.need.profile.priority for fill in fills}
    for fill in fills:
        same = fill.need.profile.same
        creditable = _creditable(fill, snapshot, claims)
        if same is None:
            machines = sorted(creditable, key=partial(_turn, fill))
            credit_plain(machines, fill, claims)
            if fill.met:
                hold_domains([m for m in machines if _turn(fill, m) == _OWN], fill, snapshot, claims)
        else:
            mine = (machine for machine in creditable if not _is_anothers(machine, fill, priorities))
            credit_gang(mine, free, fill, claims, same.key)


def _is_anothers(machine: Machine, fill: Fill, priorities: Mapping[tuple[str, str, str], int]) -> bool:
    """Whether a machine was bound for another need, as important as this gang or more, that is still there (ADR 21)."""
    assignment = machine.assignment
    priority = priorities.get((fill.need.cluster, assignment.fingerprint, assignment.group))
    return priority is not None and priority >= fill.need.profile.priority and not fill.owns(machine)


def credit_plain(machines: Iterable[Machine], fill: Fill, claims: Claims) -> None:
    """§3.9 "Plain Need: … claim; remaining −= full allocatable; stop when zero" (ADR-0045)."""
    for machine in machines:
        if fill.met:
            return
        claims.claim(machine, fill)


def _turn(fill: Fill, machine: Machine) -> int:
    """The need's own machines first (ADR 21), then any that is bound; §3.9 "then (if still short …) Creating"."""
    if machine.state is MachineState.CREATING:
        return _OWN + 2
    return _OWN if fill.owns(machine) else _OWN + 1


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
        if fill.met:
            cover_domains(fill, snapshot, claims)
        elif not fill.parked:
            acquire(fill, snapshot, claims)
        actions += (_action(ActionKind.BOOTSTRAP, machine, fill) for machine in fill.bootstraps)
        actions += (_action(ActionKind.PROVISION, machine, fill) for machine in fill.provisions)
    return actions


def _action(kind: ActionKind, machine: Machine, fill: Fill) -> Action:
    """§3.9 "Output: actions (…; carry source profile+group)"; the reason is §3.5's."""
    need = fill.need
    return Action(kind, machine.id, need.cluster, "phase1", profile=need.profile, group=need.group)
