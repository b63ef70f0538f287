"""How far each need is filled in this cycle, and which machine serves which need (spec/engine.md §3.9)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.vectors import Vector, add, is_zero, positive, subtract
from tests.oracle.snapshot import Snapshot, Usable, smallest_useful_machine


@dataclass(eq=False)
class Fill:
    """One need's way through a cycle: what is still missing, and what was found for it."""

    need: Need
    usable: Usable
    missing: Vector
    # §3.9 "Parking": the gang keeps what it has and acquires nothing.
    parked: bool = False
    parked_age_cycles: int = 0
    credited: list[Machine] = field(default_factory=list)
    bootstraps: list[Machine] = field(default_factory=list)
    provisions: list[Machine] = field(default_factory=list)
    # §3.9 "Record (domain, satisfiable?) for the Need".
    domain: str | None = None
    satisfiable: bool = False

    @property
    def met(self) -> bool:
        """§3.1 "isZero: no positive dimension"."""
        return is_zero(self.missing)

    @property
    def acquired(self) -> int:
        """§3.9 "acquired 0": what the parking counter asks for."""
        return len(self.bootstraps) + len(self.provisions)

    @property
    def machines(self) -> list[Machine]:
        """§3.9 "one machine serves exactly one Need": all that serve this one."""
        return [*self.credited, *self.bootstraps, *self.provisions]

    def owns(self, machine: Machine) -> bool:
        """§3.9 "own = same fingerprint AND group" (ADR-0051)."""
        assignment = machine.assignment
        return assignment.fingerprint == self.need.profile.fingerprint and assignment.group == self.need.group


class Claims:
    """Who holds which machine: §3.9 "one machine serves exactly one Need per cycle"."""

    def __init__(self) -> None:
        self._holders: dict[str, Fill] = {}

    def __contains__(self, machine: Machine) -> bool:
        return machine.id in self._holders

    def holder(self, machine: Machine) -> Fill | None:
        return self._holders.get(machine.id)

    def claim(self, machine: Machine, fill: Fill) -> None:
        """§3.9 "claim; remaining −= full allocatable"; "Idle claim→Bootstrap, Speculative claim→Provision"."""
        self._holders[machine.id] = fill
        if machine.state is MachineState.IDLE:
            fill.bootstraps.append(machine)
        elif machine.state is MachineState.SPECULATIVE:
            fill.provisions.append(machine)
        else:
            fill.credited.append(machine)
        fill.missing = positive(subtract(fill.missing, machine.allocatable))

    def free_pool(self, snapshot: Snapshot, fill: Fill) -> Iterator[Machine]:
        """The machines that a need may still acquire, in the order of acquisition (§3.9)."""
        pool = snapshot.pool(fill.need.profile.interruption_bucket, fill.usable)
        return (machine for machine in pool if machine.id not in self._holders)


def unfilled(need: Need, snapshot: Snapshot) -> Fill:
    """§3.9 "For each Need, remaining = aggregate"."""
    usable = snapshot.usable(need.profile, smallest_useful_machine(need))
    return Fill(need, usable, missing=positive(need.aggregate))


def total(machines: Iterable[Machine]) -> Vector:
    """§3.9 "full allocatable" of several machines."""
    amount: Vector = {}
    for machine in machines:
        amount = add(amount, machine.allocatable)
    return amount
