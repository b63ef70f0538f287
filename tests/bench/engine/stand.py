"""The test stand: an engine, a fleet, and a provider that does at once what was decided, between the timed cycles."""

import gc
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bigfleet.core.machines import UNASSIGNED, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.decisions import Action, ActionKind, Decisions
from bigfleet.engine.engine import Engine
from bigfleet.shard.convert import assignment_for
from scaletest.model.demand.draw import cluster_id
from tests.bench.engine.fleets import SyntheticFleet

_CYCLE_SECONDS = 10.0
# Longer than any idle hold: what nobody wants is released before a fleet counts as settled.
_BEYOND_HOLDS_SECONDS = 3600.0
_MOST_CYCLES = 400


class NotSettled(RuntimeError):
    """The engine goes on acting at constant demand, so nothing that follows would be a steady state."""


class Stand:
    """One fleet under one engine. Only `cycle` is timed; all else happens between cycles."""

    def __init__(self, synthetic: SyntheticFleet) -> None:
        self.synthetic = synthetic
        self._engine = Engine()
        self._fleet = Fleet()
        self._now = 0.0
        # Ids of the Configured machines, in the order in which they were bound.
        self._bound: dict[str, None] = {}
        self._failed: list[str] = []
        # Clusters whose last roll-up is not their usual one.
        self._unusual: set[int] = set()
        # Seconds spent in Fleet's own methods since it was last set to 0.
        self.ingest_seconds = 0.0

    @property
    def bound(self) -> list[str]:
        """Ids of the Configured machines."""
        return list(self._bound)

    @contextmanager
    def notes_aside(self) -> Iterator[None]:
        """For as long as memory is looked at, the stand's own notes are in a file: they are not the engine's."""
        with tempfile.TemporaryFile("w+") as file:
            file.writelines(f"{machine_id}\n" for machine_id in self._bound)
            self._bound = {}
            yield
            file.seek(0)
            self._bound = {line.rstrip("\n"): None for line in file}

    @property
    def machines(self) -> int:
        return len(self._fleet)

    def load(self) -> None:
        """All machines, free, and every cluster's usual roll-up."""
        for machine in self.synthetic.machines():
            self._fleet.put(machine)
        for ordinal in range(self.synthetic.shape.clusters):
            self._replace(ordinal, self.synthetic.demand.rollup(ordinal))

    def send_changed(self, ordinal: int, changed: frozenset[int]) -> None:
        """A roll-up in which some rows ask for something else than usual."""
        self._unusual.add(ordinal)
        self._replace(ordinal, self.synthetic.demand.rollup(ordinal, changed))

    def send_more(self, ordinal: int, level: float = 1.0, urgent_machines: float = 0.0) -> None:
        """A roll-up in which plain rows ask for more: all of them by a factor, the most important ones for machines."""
        self._unusual.add(ordinal)
        self._replace(ordinal, self.synthetic.demand.rollup(ordinal, level=level, urgent_machines=urgent_machines))

    def _replace(self, ordinal: int, needs: list[Need]) -> None:
        began = time.perf_counter()
        self._fleet.replace_needs(cluster_id(ordinal), needs)
        self.ingest_seconds += time.perf_counter() - began

    def cycle(self) -> tuple[Decisions, float, float]:
        """One cycle, and the seconds that it took: by the clock, and of this process's own CPU time."""
        self._now += _CYCLE_SECONDS
        gc.collect()  # what earlier work left behind is not this cycle's to clean up
        began, began_cpu = time.perf_counter(), time.process_time()
        decisions = self._engine.cycle(self._fleet, self._now)
        return decisions, time.perf_counter() - began, time.process_time() - began_cpu

    def settle(self) -> int:
        """Cycles until nothing is decided any more, not even after every hold has run out."""
        for count in range(_MOST_CYCLES):
            if self._act_for(_CYCLE_SECONDS):
                continue
            if not self._act_for(_BEYOND_HOLDS_SECONDS):
                return count
        raise NotSettled(f"{self.synthetic.shape.name} is not at rest after {_MOST_CYCLES} cycles")

    def _act_for(self, seconds: float) -> int:
        self._now += seconds
        return self.act(self._engine.cycle(self._fleet, self._now).actions)

    def act(self, actions: Iterable[Action]) -> int:
        """Do what was decided; the number of actions."""
        count = 0
        for count, action in enumerate(actions, 1):  # noqa: B007 the last one is the result
            machine = self._known(action.machine_id)
            if action.kind in (ActionKind.BOOTSTRAP, ActionKind.PROVISION):
                self._bind(machine, action)
            elif action.kind is ActionKind.DELETE:
                self._put(replace(machine, state=MachineState.SPECULATIVE, host=""))
            else:
                self.unbind(machine.id)
        return count

    def _bind(self, machine: Machine, action: Action) -> None:
        if action.profile is None:
            raise ValueError(f"{action.kind} of {machine.id} names no profile")
        self._bound[machine.id] = None
        self._put(
            replace(
                machine,
                state=MachineState.CONFIGURED,
                host=f"host-{machine.id}",
                cluster=action.cluster,
                assignment=assignment_for(action.profile, action.group),
            )
        )

    def unbind(self, machine_id: str) -> None:
        """A cluster loses a machine, which stays Idle."""
        machine = self._known(machine_id)
        self._bound.pop(machine_id, None)
        self._put(replace(machine, state=MachineState.IDLE, cluster="", assignment=UNASSIGNED), self._now)

    def fail(self, machine_id: str) -> None:
        machine = self._known(machine_id)
        self._bound.pop(machine_id, None)
        self._failed.append(machine_id)
        self._put(
            replace(
                machine, state=MachineState.FAILED, cluster="", assignment=UNASSIGNED, last_error="lost by the bench"
            )
        )

    def recover(self) -> None:
        """Back to the shape's own demand and all its machines, at rest."""
        for machine_id in self._failed:
            machine = self._known(machine_id)
            if machine.capacity_type is CapacityType.ON_DEMAND:
                self._put(replace(machine, state=MachineState.SPECULATIVE, host="", last_error=""))
            else:
                self._put(replace(machine, state=MachineState.IDLE, last_error=""))
        self._failed.clear()
        for ordinal in self._unusual:
            self._replace(ordinal, self.synthetic.demand.rollup(ordinal))
        self._unusual.clear()
        self.settle()

    def _known(self, machine_id: str) -> Machine:
        machine = self._fleet.get(machine_id)
        if machine is None:
            raise KeyError(machine_id)
        return machine

    def _put(self, machine: Machine, idle_since: float | None = None) -> None:
        began = time.perf_counter()
        self._fleet.put(machine, idle_since)
        self.ingest_seconds += time.perf_counter() - began
