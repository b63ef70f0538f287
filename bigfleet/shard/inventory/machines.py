"""The fleet's machines as a mapping: the shard's own truth, whatever the engine is shown, even while it decides."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, Protocol

from bigfleet.core.machines import Machine
from bigfleet.engine import Fleet


class View(Protocol):
    """What the engine is shown. A plain dict is one too."""

    def get(self, machine_id: str, /) -> Machine | None: ...
    def __setitem__(self, machine_id: str, machine: Machine, /) -> None: ...
    def __delitem__(self, machine_id: str, /) -> None: ...


class _Record(NamedTuple):
    """A machine (None: gone) and since when it is Idle."""

    machine: Machine | None
    idle_since: float | None


class Machines(Mapping[str, Machine]):
    """Machines in the columns of a fleet; no object is kept of any of them, except where the engine sees another."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        # What the engine is shown otherwise, as it really is.
        self._disguised: dict[str, _Record] = {}
        # Changes that came while the fleet was lent to the engine.
        self._waiting: dict[str, _Record] = {}
        self._view: Mapping[str, Machine | None] = {}
        self._lent = False
        self._count = 0

    def __getitem__(self, machine_id: str) -> Machine:
        machine: Machine | None = self.get(machine_id)
        if machine is None:
            raise KeyError(machine_id)
        return machine

    def get(self, machine_id: str, default: Any = None) -> Any:
        """As of any mapping, but without the detour over an error: every machine of a List is looked up."""
        for records in (self._waiting, self._disguised):
            if machine_id in records:
                return records[machine_id].machine or default
        return self.fleet.get(machine_id) or default

    def __iter__(self) -> Iterator[str]:
        if not self._disguised and not self._waiting:
            return iter(self.fleet)
        known = dict.fromkeys(chain(self.fleet, self._disguised, self._waiting))
        return (machine_id for machine_id in known if machine_id in self)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, machine_id: object) -> bool:
        for records in (self._waiting, self._disguised):
            if machine_id in records:
                return records[str(machine_id)].machine is not None
        return machine_id in self.fleet

    def idle_since(self, machine_id: str) -> float | None:
        """None if the machine is not Idle."""
        for records in (self._waiting, self._disguised):
            if machine_id in records:
                return records[machine_id].idle_since
        return self.fleet.idle_stamp(machine_id)

    def put(self, machine: Machine, idle_since: float | None = None) -> None:
        self._count += machine.id not in self
        self._write(machine.id, _Record(machine, idle_since))

    def remove(self, machine_id: str) -> None:
        if machine_id in self:
            self._count -= 1
            self._write(machine_id, _Record(None, None))

    def _write(self, machine_id: str, record: _Record) -> None:
        if self._lent:
            self._waiting[machine_id] = record
        elif machine_id in self._disguised:
            self._disguised[machine_id] = record
        else:
            self._show(machine_id, record)

    def _show(self, machine_id: str, record: _Record) -> None:
        if record.machine is None:
            self.fleet.remove(machine_id)
        else:
            self.fleet.put(record.machine, record.idle_since)

    # --- the engine's turn --------------------------------------------------------------------------------------

    def disguise(self, view: Mapping[str, Machine | None]) -> None:
        """Show the engine these machines so (None: not at all), and all others as they are."""
        for machine_id in [each for each in self._disguised if each not in view]:
            self._show(machine_id, self._disguised.pop(machine_id))
        before, self._view = self._view, view
        for machine_id, machine in view.items():
            if machine_id in self._disguised and machine_id in before and before[machine_id] is machine:
                continue  # seen so already
            if machine_id not in self._disguised:
                self._disguised[machine_id] = _Record(self.get(machine_id), self.idle_since(machine_id))
            self._show(machine_id, _Record(machine, None))

    @contextmanager
    def lent(self) -> Iterator[Fleet]:
        """Leave the fleet to the engine: what changes meanwhile is seen by all but the engine, and written after."""
        self._lent = True
        try:
            yield self.fleet
        finally:
            self._lent = False
            waiting, self._waiting = self._waiting, {}
            for machine_id, record in waiting.items():
                self._write(machine_id, record)


class Disguises(dict[str, Machine | None]):
    """A view that notes what is to be shown otherwise than it is."""

    def __init__(self, machines: Mapping[str, Machine]) -> None:
        super().__init__()
        self._machines = machines

    def get(self, machine_id: str, /) -> Machine | None:  # type: ignore[override]
        return self._machines.get(machine_id)

    def __delitem__(self, machine_id: str, /) -> None:
        self[machine_id] = None
