"""What the shard knows of its machines: the fleet, and what the shard counts besides.

See docs/reference/engine.md#inventory.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from bigfleet.core import penalty
from bigfleet.core.machines import (
    LEGAL_EDGES,
    TRANSITIONAL,
    UNASSIGNED,
    Assignment,
    CapacityType,
    Machine,
    MachineState,
    invariant_violation,
)
from bigfleet.engine import Fleet
from bigfleet.errors import BigFleetError
from bigfleet.shard.convert import ASSIGNED
from bigfleet.shard.inventory.domaintally import DomainTally
from bigfleet.shard.inventory.holdings import Holdings
from bigfleet.shard.inventory.machines import Machines
from bigfleet.shard.inventory.origins import ONE_PROVIDER, Origins
from bigfleet.shard.inventory.slots import SlotCounts

# (state, capacity type, interruption penalty bucket's label)
Kind = tuple[MachineState, CapacityType, str]
# Called with what the provider's word changed: (before, after), either of them None.
Observer = Callable[[Machine | None, Machine | None], None]


class IllegalMove(BigFleetError):
    """A move that the state machine does not have."""


class Rejected(BigFleetError):
    """A provider's description of a machine that breaks an invariant; `reason` is the metric's label."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Inventory:
    """The shard's machines. The shard's own moves keep to the legal edges; the provider's word is taken as it is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, origins: Origins = ONE_PROVIDER) -> None:
        """`clock` gives idle stamps: the engine compares them with its own time, and nobody can set it forward."""
        self.machines = Machines(Fleet())
        self.counts: Counter[Kind] = Counter()
        self.instance_types: Counter[str] = Counter()
        self.zones: Counter[str] = Counter()
        self.holdings = Holdings()
        # By provider.
        self.domains: dict[str, DomainTally] = {}
        self.origins = origins
        self.slots = SlotCounts(origins.of)
        # Machines that were Configuring when first seen and have stayed so.
        self.seeded_waiting: set[str] = set()
        # Machines whose provider record must be read again, because an answer was skipped or never came.
        self.doubtful: set[str] = set()
        # Machines that the provider cannot delete: their hold never ends, or they would take the place of others.
        self.undeletable: set[str] = set()
        self.observer: Observer = lambda _before, _after: None
        self._clock = clock

    @property
    def in_flight(self) -> int:
        """Machines in a transitional state."""
        return sum(count for (state, _, _), count in self.counts.items() if state in TRANSITIONAL)

    def count_domains_by(self, key: str) -> None:
        """Count the machines by domains of this topology key from now on."""
        self.domains = {provider: DomainTally(key) for provider in self.origins.providers} if key else {}
        for machine in self.machines.values() if key else ():
            self.domains[self.origins.of(machine.id)].count(machine)

    def move(
        self, machine_id: str, state: MachineState, cluster: str = "", assignment: Assignment = UNASSIGNED
    ) -> Machine:
        """The shard's own move along a legal edge; the observer is not told."""
        machine = self.machines[machine_id]
        if state not in LEGAL_EDGES[machine.state]:
            raise IllegalMove(f"{machine_id}: {machine.state.label} → {state.label}")
        moved = replace(machine, state=state, cluster=cluster, assignment=assignment)
        self._put(machine, moved)
        return moved

    def restore(self, machine: Machine, idle_since: float | None) -> None:
        """Take a move of our own back: the machine and its idle stamp as they were."""
        self._put(self.machines.get(machine.id), machine, idle_since)

    def observe(self, seen: Machine) -> bool:
        """Take over the provider's description; whether the state changed. Raises Rejected for an unsound one."""
        known = self.machines.get(seen.id)
        machine = seen
        if known and known.assignment != seen.assignment:
            machine = replace(seen, assignment=kept_assignment(known, seen))
        violation = invariant_violation(machine)
        if violation:
            raise Rejected(*violation)
        if machine == known:
            return False
        if known is None and machine.state is MachineState.CONFIGURING:
            self.seeded_waiting.add(machine.id)
        self._put(known, machine)
        self.observer(known, machine)
        return known is None or known.state is not machine.state

    def vanish(self, machine_id: str) -> bool:
        """The provider no longer has the machine; whether we knew it."""
        machine = self.forget(machine_id)
        if machine:
            self.observer(machine, None)
        return machine is not None

    def forget(self, machine_id: str) -> Machine | None:
        """Drop a machine without telling the observer: it lives on, but outside our domains."""
        machine: Machine | None = self.machines.get(machine_id)
        if machine:
            self.machines.remove(machine_id)
            self._count(machine, -1)
            self.seeded_waiting.discard(machine_id)
            self.doubtful.discard(machine_id)
            self.undeletable.discard(machine_id)
            self.origins.release(machine_id)
        return machine

    def _put(self, known: Machine | None, machine: Machine, idle_since: float | None = None) -> None:
        if known:
            self._count(known, -1)
        self._count(machine, 1)
        if machine.state is MachineState.IDLE and idle_since is None:
            stamp = self.machines.idle_since(machine.id) if known else None
            idle_since = self._clock() if stamp is None else stamp
        if machine.state is MachineState.IDLE and machine.id in self.undeletable:
            idle_since = math.inf
        self.machines.put(machine, idle_since)
        if machine.state is not MachineState.CONFIGURING:
            self.seeded_waiting.discard(machine.id)

    def _count(self, machine: Machine, step: int) -> None:
        self.counts[machine.state, machine.capacity_type, _bucket_label(machine.assignment)] += step
        self.instance_types[machine.instance_type] += step
        self.zones[machine.zone] += step
        self.holdings.count(machine, step)
        if self.domains and (tally := self.domains.get(self.origins.of(machine.id))):
            tally.count(machine, step)
        self.slots.count(machine, step)


def kept_assignment(known: Machine, seen: Machine) -> Assignment:
    """What the shard itself remembers wins over the echo, as long as it is about the same binding."""
    if seen.state is MachineState.CREATING and known.state is MachineState.CREATING:
        return known.assignment
    if seen.state in ASSIGNED and known.state in ASSIGNED and known.cluster == seen.cluster:
        return known.assignment
    return seen.assignment


def _bucket_label(assignment: Assignment) -> str:
    if assignment == UNASSIGNED:
        return penalty.label(penalty.UNSPECIFIED)
    return penalty.label(penalty.bucket_of(assignment.interruption_dollars))
