"""How far each need is filled in this cycle, and which machine serves which need."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.vectors import Vector, is_zero, positive, subtract
from bigfleet.engine.snapshot import Kinds, Snapshot, smallest_useful_machine


@dataclass(eq=False)
class Fill:
    """One need's way through a cycle: what is still missing, and what was found for it."""

    need: Need
    usable: Kinds
    missing: Vector
    # The gang has waited too long for a domain: it keeps what it has and acquires nothing (spec/engine.md §3.9).
    parked: bool = False
    parked_age_cycles: int = 0
    credited: list[Machine] = field(default_factory=list)
    bootstraps: list[Machine] = field(default_factory=list)
    provisions: list[Machine] = field(default_factory=list)
    # The one domain of a gang in this cycle, and whether all there is in it would cover the gang.
    domain: str | None = None
    satisfiable: bool = False

    @property
    def met(self) -> bool:
        return is_zero(self.missing)

    @property
    def acquired(self) -> int:
        return len(self.bootstraps) + len(self.provisions)


class Claims:
    """Who holds which machine in this cycle. A machine serves one need, with all it has (spec/engine.md §3.9)."""

    def __init__(self) -> None:
        self._holders: dict[str, Fill] = {}

    def __contains__(self, machine: Machine) -> bool:
        return machine.id in self._holders

    def holder(self, machine: Machine) -> Fill | None:
        return self._holders.get(machine.id)

    def claim(self, machine: Machine, fill: Fill) -> None:
        """Give a machine to a need: Idle is bootstrapped, Speculative provisioned, anything else already there."""
        self._holders[machine.id] = fill
        if machine.state is MachineState.IDLE:
            fill.bootstraps.append(machine)
        elif machine.state is MachineState.SPECULATIVE:
            fill.provisions.append(machine)
        else:
            fill.credited.append(machine)
        fill.missing = positive(subtract(fill.missing, machine.allocatable))

    def free_pool(self, snapshot: Snapshot, fill: Fill) -> Iterator[Machine]:
        """The machines that a need may still acquire, in the order of acquisition."""
        pool = snapshot.pool(fill.need.profile.interruption_bucket, fill.usable)
        return (machine for machine in pool if machine.id not in self._holders)


def unfilled(need: Need, snapshot: Snapshot) -> Fill:
    """A need at the start of a cycle."""
    usable = snapshot.usable(need.profile, smallest_useful_machine(need))
    return Fill(need, usable, missing=positive(need.aggregate))
