"""Phase 1: credit every need with the capacity that is bound, then acquire what is missing (spec/engine.md §3.9)."""

from collections.abc import Iterator, Sequence
from itertools import chain

from bigfleet.core.machines import Machine
from bigfleet.engine.acquire import acquire
from bigfleet.engine.decisions import Action, ActionKind
from bigfleet.engine.domains import FreeMachines, credit_gang
from bigfleet.engine.fill import Claims, Fill
from bigfleet.engine.snapshot import Snapshot


def credit(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> None:
    """The pre-pass: attribute bound capacity to needs, the most important need first (spec/engine.md §3.9)."""
    free = FreeMachines(snapshot)
    for fill in fills:
        same = fill.need.profile.same
        if same is None:
            credit_plain(_creditable(fill, snapshot, claims), fill, claims)
        else:
            credit_gang(_creditable(fill, snapshot, claims), free, fill, claims, same.key)


def credit_plain(creditable: Iterator[Machine], fill: Fill, claims: Claims) -> None:
    """Claim until the aggregate is covered, each machine with all it has (spec/engine.md §3.9, ADR-0045)."""
    for machine in creditable:
        if fill.met:
            return
        claims.claim(machine, fill)


def _creditable(fill: Fill, snapshot: Snapshot, claims: Claims) -> Iterator[Machine]:
    """Capacity counts if bound to the need's cluster, or if it is being created for the need (ADR-0045, ADR-0052)."""
    need = fill.need
    for machine in chain(snapshot.bound(need.cluster), snapshot.creating(need.profile, need.group)):
        if snapshot.kind(machine) in fill.usable and machine not in claims:
            yield machine


def acquire_missing(fills: Sequence[Fill], snapshot: Snapshot, claims: Claims) -> list[Action]:
    """Free machines for what is still missing, in order of precedence, as actions (spec/engine.md §3.9)."""
    actions: list[Action] = []
    for fill in fills:
        if fill.met or fill.parked:
            continue
        acquire(fill, snapshot, claims)
        actions += (_action(ActionKind.BOOTSTRAP, machine, fill) for machine in fill.bootstraps)
        actions += (_action(ActionKind.PROVISION, machine, fill) for machine in fill.provisions)
    return actions


def _action(kind: ActionKind, machine: Machine, fill: Fill) -> Action:
    need = fill.need
    return Action(kind, machine.id, need.cluster, "phase1", profile=need.profile, group=need.group)
