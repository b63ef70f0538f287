"""All that a provider must not forget: machines, fencing marks, operation ids, and what is in flight."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from bigfleet.core.machines import TRANSITIONAL
from bigfleet.provider.kit.entries import Entry, Flight, Lives, MachineEntry, Mark, Operation, Removed, ShapeEntry
from bigfleet.provider.kit.fencing import Fences
from bigfleet.provider.kit.inventory import ProviderInventory, shape_of
from bigfleet.provider.kit.records import MachineRecord, Shape
from bigfleet.provider.kit.store import Forgetful, RecordStore
from bigfleet.provider.kit.transitions import Kind


class Operations:
    """The id of the last operation of each kind on each machine; ids are never used twice."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._numbers: dict[tuple[str, str], int] = {}
        self._last = 0

    def get(self, machine_id: str, kind: Kind) -> str:
        """The id of the operation that brought the machine here; a machine that began here gets one now."""
        number = self._numbers.get((machine_id, kind))
        return f"op-{number}" if number else self.new(machine_id, kind)

    def new(self, machine_id: str, kind: Kind) -> str:
        entry = Operation(machine_id, kind, self._last + 1)
        self.restore(entry)
        self._store.stage(entry)
        return f"op-{entry.number}"

    def restore(self, entry: Operation) -> None:
        self._numbers[entry.machine_id, entry.kind] = entry.number
        self._last = max(self._last, entry.number)

    def entries(self) -> Iterator[Operation]:
        held = list(self._numbers.items())
        return (Operation(machine_id, kind, number) for (machine_id, kind), number in held)


class Flights:
    """The accepted calls whose machines are still on their way."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._flights: dict[str, Flight] = {}

    def begin(self, flight: Flight) -> None:
        self._flights[flight.machine_id] = flight
        self._store.stage(flight)

    def get(self, machine_id: str) -> Flight | None:
        return self._flights.get(machine_id)

    def end(self, machine_id: str) -> None:
        """Nothing of it goes to disk: the machine's new state says as much."""
        self._flights.pop(machine_id, None)

    def restore(self, flight: Flight) -> None:
        self._flights[flight.machine_id] = flight

    def entries(self) -> list[Flight]:
        return list(self._flights.values())


class State:
    """The four parts over one store."""

    def __init__(
        self,
        store: RecordStore | None = None,
        recovered: Iterable[Entry] = (),
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.store: RecordStore = store or Forgetful()
        self.inventory = ProviderInventory(self.store, wall_clock_ns)
        self.fences = Fences(self.store, self.inventory)
        self.operations = Operations(self.store)
        self.flights = Flights(self.store)
        shapes: dict[int, Shape] = {}
        for entry in recovered:
            self._restore(entry, shapes)
        self.inventory.start()

    def snapshot(self) -> Iterable[Entry]:
        """Entries that restore all of it as it is at this moment."""
        return chain(self.inventory.entries(), self.fences.entries(), self.operations.entries(), self.flights.entries())

    def describe(self, machines: Iterable[MachineRecord]) -> None:
        """Take in what a provider knows of its machines: new ones as they are, of known ones what they look like.

        A machine that was taken out stays out, and nothing that has not changed counts as a change.
        """
        # A shape that is known already stands for the new one: machines that look alike share one object.
        shapes: dict[Shape, Shape] = {}
        for machine in machines:
            if self.inventory.removed(machine.id):
                continue
            shape = shapes.setdefault(machine.shape, machine.shape)
            if machine.id not in self.inventory:
                self.inventory.put(machine if shape is machine.shape else replace(machine, shape=shape))
                continue
            known = self.inventory.get(machine.id)
            if known.shape is shape:
                continue
            if known.shape.same_as(shape):
                shapes[machine.shape] = known.shape
            else:
                self.inventory.put(replace(known, shape=shape))

    def _restore(self, entry: Entry, shapes: dict[int, Shape]) -> None:
        match entry:
            case ShapeEntry():
                shapes[entry.number] = shape_of(entry)
            case MachineEntry():
                self.inventory.restore(entry, shapes)
                if entry.state not in TRANSITIONAL:
                    self.flights.end(entry.id)
            case Removed():
                self.inventory.restore(entry, shapes)
                self.flights.end(entry.id)
            case Lives():
                self.inventory.restore(entry, shapes)
            case Mark():
                self.fences.restore(entry)
            case Operation():
                self.operations.restore(entry)
            case Flight():
                self.flights.restore(entry)
