"""How far each need is filled in this cycle, and which machine serves which need (docs/reference/engine.md#credit)."""

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
    # The gang keeps what it has and acquires nothing (docs/reference/engine.md#parking).
    parked: bool = False
    parked_age_cycles: int = 0
    credited: list[Machine] = field(default_factory=list)
    bootstraps: list[Machine] = field(default_factory=list)
    provisions: list[Machine] = field(default_factory=list)
    # A gang's domain, and whether all that is there covers what is missing.
    domain: str | None = None
    satisfiable: bool = False

    @property
    def met(self) -> bool:
        """No dimension is above zero (docs/reference/engine.md#vectors)."""
        return is_zero(self.missing)

    @property
    def acquired(self) -> int:
        """Machines that this cycle acquires (docs/reference/engine.md#parking)."""
        return len(self.bootstraps) + len(self.provisions)

    @property
    def machines(self) -> list[Machine]:
        """All machines that serve this need, and no other (docs/reference/engine.md#credit)."""
        return [*self.credited, *self.bootstraps, *self.provisions]

    def owns(self, machine: Machine) -> bool:
        """Whether the machine was acquired for this very need (BF-0051)."""
        assignment = machine.assignment
        return assignment.fingerprint == self.need.profile.fingerprint and assignment.group == self.need.group


class Claims:
    """Who holds which machine: one need at most (docs/reference/engine.md#credit)."""

    def __init__(self) -> None:
        self._holders: dict[str, Fill] = {}

    def __contains__(self, machine: Machine) -> bool:
        return machine.id in self._holders

    def holder(self, machine: Machine) -> Fill | None:
        return self._holders.get(machine.id)

    def claim(self, machine: Machine, fill: Fill) -> None:
        """The machine counts whole; a free one is also an action (docs/reference/engine.md#credit)."""
        self._holders[machine.id] = fill
        if machine.state is MachineState.IDLE:
            fill.bootstraps.append(machine)
        elif machine.state is MachineState.SPECULATIVE:
            fill.provisions.append(machine)
        else:
            fill.credited.append(machine)
        fill.missing = positive(subtract(fill.missing, machine.allocatable))

    def free_pool(self, snapshot: Snapshot, fill: Fill) -> Iterator[Machine]:
        """The machines that a need may still acquire, in the order of acquisition.

        See docs/reference/engine.md#acquisition.
        """
        pool = snapshot.pool(fill.need.profile.interruption_bucket, fill.usable)
        return (machine for machine in pool if machine.id not in self._holders)


def unfilled(need: Need, snapshot: Snapshot) -> Fill:
    """A need before any machine was claimed for it (docs/reference/engine.md#credit)."""
    usable = snapshot.usable(need.profile, smallest_useful_machine(need))
    return Fill(need, usable, missing=positive(need.aggregate))


def total(machines: Iterable[Machine]) -> Vector:
    """What several machines have together (docs/reference/engine.md#credit)."""
    amount: Vector = {}
    for machine in machines:
        amount = add(amount, machine.allocatable)
    return amount
