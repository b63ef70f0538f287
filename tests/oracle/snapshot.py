"""One cycle's inventory, and what the phases ask of it; slow, and obvious (docs/reference/engine.md#inventory)."""

from collections.abc import Iterable, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.penalty import effective_cost, upper_bound
from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import ReadVector, Vector, covers

# Ids of the machines that match a profile and cover a unit.
Usable = frozenset[str]


def keep_order(machine: Machine) -> tuple[float, float, str]:
    """The order in which bound machines are kept (docs/reference/engine.md#cost-and-order)."""
    return machine.price_per_hour, -machine.assignment.reclamation_dollars, machine.id


def idle_order(machine: Machine) -> tuple[float, str]:
    """The order in which Idle machines are taken (docs/reference/engine.md#cost-and-order)."""
    return machine.price_per_hour, machine.id


def speculative_cost(machine: Machine, interruption_bucket: int) -> float:
    """What the machine costs to a need of this bucket (docs/reference/engine.md#cost-and-order)."""
    penalty = upper_bound(interruption_bucket)
    return effective_cost(machine.price_per_hour, machine.interruption_probability, penalty)


def speculative_order(machine: Machine, interruption_bucket: int) -> tuple[float, str]:
    """The order in which Speculative machines are taken (docs/reference/engine.md#cost-and-order)."""
    return speculative_cost(machine, interruption_bucket), machine.id


def smallest_useful_machine(need: Need) -> Vector:
    """What a machine must cover to serve a need: `min_unit`, and something of every dimension.

    See docs/reference/engine.md#matching.

    The second half (ADR-6) follows from the first in a well-formed need, whose min_unit is the largest pod in each
    dimension. It keeps a need without a proper min_unit from swallowing machines that bring it nothing.
    """
    return {name: 1 for name, milli in need.aggregate.items() if milli > 0} | {
        name: milli for name, milli in need.min_unit.items() if milli > 0
    }


class Snapshot:
    """Machines by state, by cluster and by what they can serve. Every sequence has one fixed order."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.machines = sorted(machines, key=lambda machine: machine.id)

    def in_state(self, state: MachineState) -> Sequence[Machine]:
        """By id (docs/reference/engine.md#inventory)."""
        return [machine for machine in self.machines if machine.state is state]

    def clusters(self) -> Sequence[str]:
        """Those with Configured machines, by id (docs/reference/engine.md#reclaim)."""
        return sorted({machine.cluster for machine in self.in_state(MachineState.CONFIGURED)})

    def configured(self, cluster: str) -> Sequence[Machine]:
        """In keep order (docs/reference/engine.md#cost-and-order)."""
        return self._bound_in(cluster, MachineState.CONFIGURED)

    def bound(self, cluster: str) -> Sequence[Machine]:
        """The cluster's machines, Configured before Configuring, each in keep order.

        See docs/reference/engine.md#credit.
        """
        return [
            machine
            for state in (MachineState.CONFIGURED, MachineState.CONFIGURING)
            for machine in self._bound_in(cluster, state)
        ]

    def _bound_in(self, cluster: str, state: MachineState) -> Sequence[Machine]:
        return sorted((machine for machine in self.in_state(state) if machine.cluster == cluster), key=keep_order)

    def creating(self, profile: NeedProfile, group: str) -> Sequence[Machine]:
        """Machines being created for a profile and group, for whichever cluster (docs/reference/engine.md#credit).

        In the order in which acquisition took them.
        """
        mine = (
            machine
            for machine in self.in_state(MachineState.CREATING)
            if machine.assignment.fingerprint == profile.fingerprint and machine.assignment.group == group
        )
        return sorted(mine, key=lambda machine: speculative_order(machine, profile.interruption_bucket))

    def usable(self, profile: NeedProfile, unit: ReadVector) -> Usable:
        """Every machine, in any state, that matches a profile and covers a unit (docs/reference/engine.md#matching)."""
        return frozenset(
            machine.id
            for machine in self.machines
            if profile.matches(machine.attribute) and covers(machine.allocatable, unit)
        )

    def pool(self, interruption_bucket: int, usable: Usable) -> Sequence[Machine]:
        """What may be acquired: Idle machines, then Speculative ones (docs/reference/engine.md#acquisition)."""
        idle = sorted(self.in_state(MachineState.IDLE), key=idle_order)
        speculative = sorted(
            self.in_state(MachineState.SPECULATIVE),
            key=lambda machine: speculative_order(machine, interruption_bucket),
        )
        return [machine for machine in (*idle, *speculative) if machine.id in usable]
