"""Phase 1: credit every need with the capacity that is bound, then acquire what is missing.

See docs/reference/engine.md#credit.
"""

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
    """Attribute what is bound, need by need in order of precedence (docs/reference/engine.md#credit)."""
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
    """Whether a machine was bound for another need, as important as this gang or more, that is still there (ADR-21)."""
    assignment = machine.assignment
    priority = priorities.get((fill.need.cluster, assignment.fingerprint, assignment.group))
    return priority is not None and priority >= fill.need.profile.priority and not fill.owns(machine)


def credit_plain(machines: Iterable[Machine], fill: Fill, claims: Claims) -> None:
    """One machine after the other, each whole, until the need is met (BF-0045)."""
    for machine in machines:
        if fill.met:
            return
        claims.claim(machine, fill)


def _turn(fill: Fill, machine: Machine) -> int:
    """The need's own machines first (ADR-21), then any that is bound, then those being created (BF-0052)."""
    if machine.state is MachineState.CREATING:
        return _OWN + 2
    return _OWN if fill.owns(machine) else _OWN + 1


def _creditable(fill: Fill, snapshot: Snapshot, claims: Claims) -> Iterator[Machine]:
    """What counts for the need: bound to its cluster (BF-0045), or being created for it (BF-0052).

    Machines that nobody has claimed, and that serve it.
    """
    need = fill.need
    for machine in (*snapshot.bound(need.cluster), *snapshot.creating(need.profile, need.group)):
        if machine.id in fill.usable and machine not in claims:
            yield machine


def acquire_missing(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> list[Action]:
    """Free machines for every need that is short, in one pass in order of precedence.

    See docs/reference/engine.md#acquisition.

    A parked gang acquires nothing.
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
    """The action carries the need's profile and group, for the assignment (docs/reference/engine.md#actions)."""
    need = fill.need
    return Action(kind, machine.id, need.cluster, "phase1", profile=need.profile, group=need.group)
