"""Gangs: the one domain that a gang lives in, and what is there for it (docs/reference/engine.md#gangs)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine
from bigfleet.core.vectors import ReadVector, Vector, add, covers, positive, subtract
from tests.oracle.fill import Claims, Fill
from tests.oracle.snapshot import Snapshot


@dataclass
class Domain:
    """What one value of the Same key has for a gang."""

    value: str
    # Machines that are there for the gang's cluster: creditable without acquiring anything.
    members: list[Machine] = field(default_factory=list)
    # Members and acquirable machines together.
    count: int = 0
    total: Vector = field(default_factory=dict)
    creditable: Vector = field(default_factory=dict)
    # The members that were acquired for this very gang.
    own: Vector = field(default_factory=dict)


class FreeMachines:
    """Idle and Speculative machines that no gang before this one counts on (docs/reference/engine.md#gangs)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._consumed: set[str] = set()

    def _left(self, fill: Fill) -> list[Machine]:
        pool = self._snapshot.pool(fill.need.profile.interruption_bucket, fill.usable)
        return [machine for machine in pool if machine.id not in self._consumed]

    def add_to(self, domains: dict[str, Domain], fill: Fill, key: str) -> None:
        """Free machines count towards a domain's total and number (docs/reference/engine.md#gangs)."""
        for machine in self._left(fill):
            value = machine.attribute(key)
            if value is not None:
                domain = domains.setdefault(value, Domain(value))
                domain.count += 1
                domain.total = add(domain.total, machine.allocatable)

    def consume(self, fill: Fill, key: str) -> None:
        """Set aside what the gang will acquire, in the order in which it will (docs/reference/engine.md#gangs).

        Otherwise later gangs would count on the same machines.
        """
        missing = fill.missing
        for machine in self._left(fill):
            if not missing:
                return
            if machine.attribute(key) == fill.domain:
                self._consumed.add(machine.id)
                missing = positive(subtract(missing, machine.allocatable))


def credit_gang(creditable: Iterable[Machine], free: FreeMachines, fill: Fill, claims: Claims, key: str) -> None:
    """Choose a domain and claim what is there for the gang, its own machines first (docs/reference/engine.md#gangs).

    Where no domain has anything, none is recorded.
    """
    domains: dict[str, Domain] = {}
    for machine in creditable:
        _add_member(domains, machine, fill, key)
    if not fill.parked:
        free.add_to(domains, fill, key)
    if not domains:
        return
    chosen = min(domains.values(), key=lambda domain: _rank(domain, fill.missing))
    fill.domain = chosen.value
    fill.satisfiable = covers(chosen.total, fill.missing)
    for machine in sorted(chosen.members, key=lambda m: not fill.owns(m)):
        if fill.met:
            break
        claims.claim(machine, fill)
    if not fill.parked:
        free.consume(fill, key)


def _add_member(domains: dict[str, Domain], machine: Machine, fill: Fill, key: str) -> None:
    """The sums that domains are compared by (docs/reference/engine.md#gangs)."""
    value = machine.attribute(key)
    if value is None:
        return
    domain = domains.setdefault(value, Domain(value))
    domain.members.append(machine)
    domain.count += 1
    domain.total = add(domain.total, machine.allocatable)
    domain.creditable = add(domain.creditable, machine.allocatable)
    if fill.owns(machine):
        domain.own = add(domain.own, machine.allocatable)


def _rank(domain: Domain, want: ReadVector) -> tuple[int, float, float, float, int, str]:
    """The seven steps of the choice as one key: the smallest wins (docs/reference/engine.md#gangs).

    Step 5 (creditable coverage) decides only among domains that can't satisfy: among the others step 2 already did.
    """
    creditable = coverage(domain.creditable, want)
    if covers(domain.total, want):
        return 0, -creditable, -coverage(domain.own, want), _commitment(domain.total, want), -domain.count, domain.value
    return 1, -coverage(domain.total, want), -creditable, 0.0, -domain.count, domain.value


def coverage(have: ReadVector, want: ReadVector) -> float:
    """Step 2: have ÷ want, each at most 1, summed in the order of the dimensions' names.

    See docs/reference/engine.md#gangs.
    """
    return sum(min(1.0, have.get(name, 0) / want[name]) for name in sorted(want) if want[name] > 0)


def _commitment(have: ReadVector, want: ReadVector) -> float:
    """Step 4: the same without the limit; the larger, the more would lie idle (docs/reference/engine.md#gangs)."""
    return sum(have.get(name, 0) / want[name] for name in sorted(want) if want[name] > 0)
