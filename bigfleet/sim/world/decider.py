"""The production code that the simulator drives: engine, needs table and back-off, behind one small surface.

The only module of the simulator that knows how the engine is called.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.engine import ActionKind, Decisions, Engine, EngineOptions, Fleet
from bigfleet.engine.kernels import kernels
from bigfleet.shard.inventory.machines import Disguises, Machines
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.sessions.needs import NeedsTable, RollupVerdict


class Decider:
    """What a shard knows and how it decides. `now` is in virtual seconds."""

    def __init__(self, options: EngineOptions, guard: bool, clock: Callable[[], float]) -> None:
        self._options = options
        self._guard = guard
        self._clock = clock
        # How long each decision took by the wall's clock.
        self.milliseconds: list[float] = []
        kernels()  # loading them belongs to no decision
        self.restart([])

    def restart(self, machines: Iterable[Machine]) -> None:
        """Forget everything but the machines that the provider lists."""
        self._engine = Engine(self._options)
        self._needs = NeedsTable(self._guard)
        self._holds = Backoff(self._clock)
        self._machines = Machines(Fleet())
        for machine in machines:
            self.put(machine)

    def put(self, machine: Machine) -> None:
        """The machine as the shard knows it now."""
        stamp = None
        if machine.state is MachineState.IDLE:
            stamp = self._machines.idle_since(machine.id)
            stamp = self._clock() if stamp is None else stamp
        self._machines.put(machine, stamp)

    def remove(self, machine_id: str) -> None:
        self._machines.remove(machine_id)

    def set_needs(self, cluster: str, needs: Sequence[Need]) -> RollupVerdict:
        """Take a roll-up, unless the guard against empty ones holds it."""
        return self._needs.replace(cluster, needs, self._clock())

    def repeat_needs(self, cluster: str) -> None:
        """The roll-up that was taken last came again: whatever the guard held before it was no withdrawal."""
        self._needs.repeat(cluster)

    def cycle(self) -> Decisions:
        """One decision cycle. What backs off is hidden from it, or shown as in flight during an outage."""
        disguises = Disguises(self._machines)
        self._holds.shape_view(disguises)
        self._machines.disguise(disguises)
        for news in self._needs.unheard():
            self._machines.fleet.replace_needs(*news)
        began = time.perf_counter()
        with self._machines.lent() as fleet:
            decisions = self._engine.cycle(fleet, self._clock())
        self.milliseconds.append((time.perf_counter() - began) * 1000)
        return decisions

    # --- back-off -----------------------------------------------------------------------------------------------

    def refused(self, kind: ActionKind, in_flight: Machine) -> None:
        self._holds.refuse(kind, in_flight)

    def accepted(self, kind: ActionKind, in_flight: Machine) -> None:
        self._holds.accepted(kind, in_flight.cluster)

    def arrived(self, machine_id: str) -> None:
        self._holds.forget(machine_id)

    def held(self, machine_id: str) -> bool:
        return self._holds.held(machine_id)

    def next_retry(self) -> float:
        """Seconds until a machine that backs off may be tried again; infinite if none does."""
        return self._holds.next_expiry()
