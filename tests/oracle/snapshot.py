"""One cycle's inventory, and the questions that the phases ask of it (spec/engine.md §3.6). Slow, and obvious."""

from collections.abc import Iterable, Sequence

from bigfleet.core.machines import BOUND, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.penalty import effective_cost, upper_bound
from bigfleet.core.requirements import Profile
from bigfleet.core.vectors import ReadVector, Vector, covers

# Ids of the machines that match a profile and cover a unit.
Usable = frozenset[str]


def keep_order(machine: Machine) -> tuple[float, float, str]:
    """§3.4 "Keep order for bound machines: price asc, assigned reclamation penalty desc, id asc"."""
    return machine.price_per_hour, -machine.assignment.reclamation_dollars, machine.id


def idle_order(machine: Machine) -> tuple[float, str]:
    """§3.4 "Idle order: price asc, id asc"."""
    return machine.price_per_hour, machine.id


def speculative_cost(machine: Machine, interruption_bucket: int) -> float:
    """§3.4 "effective_cost"; the penalty is the upper bound of the need's interruption bucket."""
    penalty = upper_bound(interruption_bucket)
    return effective_cost(machine.price_per_hour, machine.interruption_probability, penalty)


def speculative_order(machine: Machine, interruption_bucket: int) -> tuple[float, str]:
    """§3.4 "Speculative order: effective_cost asc, id asc"."""
    return speculative_cost(machine, interruption_bucket), machine.id


def smallest_useful_machine(need: Need) -> Vector:
    """What a machine must cover to serve a need: `min_unit` (§2.1 field 8), and something of every dimension asked for.

    The second half (ADR 6) follows from the first in a well-formed need, whose min_unit is the largest pod in each
    dimension. It keeps a need without a proper min_unit from swallowing machines that bring it nothing.
    """
    return {name: 1 for name, milli in need.aggregate.items() if milli > 0} | {
        name: milli for name, milli in need.min_unit.items() if milli > 0
    }


class Snapshot:
    """Machines by state, by cluster and by what they can serve (§3.6). Every sequence has one fixed order."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.machines = sorted(machines, key=lambda machine: machine.id)

    def in_state(self, state: MachineState) -> Sequence[Machine]:
        """By id (§3.6 "state→ids")."""
        return [machine for machine in self.machines if machine.state is state]

    def clusters(self) -> Sequence[str]:
        """Those with Configured machines, by id (§3.11 "clusters in id order")."""
        return sorted({machine.cluster for machine in self.in_state(MachineState.CONFIGURED)})

    def configured(self, cluster: str) -> Sequence[Machine]:
        """In keep order (§3.6 "cluster×state→list in keep order")."""
        return self._bound_in(cluster, MachineState.CONFIGURED)

    def bound(self, cluster: str) -> Sequence[Machine]:
        """§3.9 "the cluster's Configured bucket then Configuring bucket in keep order"."""
        return [machine for state in BOUND for machine in self._bound_in(cluster, state)]

    def _bound_in(self, cluster: str, state: MachineState) -> Sequence[Machine]:
        return sorted((machine for machine in self.in_state(state) if machine.cluster == cluster), key=keep_order)

    def creating(self, profile: Profile, group: str) -> Sequence[Machine]:
        """§3.9 "shard-wide Creating whose assigned fingerprint equals the Need's", for gangs "by group+fingerprint".

        In the order in which acquisition took them.
        """
        mine = (
            machine
            for machine in self.in_state(MachineState.CREATING)
            if machine.assignment.fingerprint == profile.fingerprint and machine.assignment.group == group
        )
        return sorted(mine, key=lambda machine: speculative_order(machine, profile.interruption_bucket))

    def usable(self, profile: Profile, unit: ReadVector) -> Usable:
        """Every machine, in any state, that matches a profile (§3.3) and covers a unit (§3.1)."""
        return frozenset(
            machine.id
            for machine in self.machines
            if profile.matches(machine.attribute) and covers(machine.allocatable, unit)
        )

    def pool(self, interruption_bucket: int, usable: Usable) -> Sequence[Machine]:
        """§3.9 "States tried in order Idle, then Speculative", each in its order of §3.4."""
        idle = sorted(self.in_state(MachineState.IDLE), key=idle_order)
        speculative = sorted(
            self.in_state(MachineState.SPECULATIVE),
            key=lambda machine: speculative_order(machine, interruption_bucket),
        )
        return [machine for machine in (*idle, *speculative) if machine.id in usable]
