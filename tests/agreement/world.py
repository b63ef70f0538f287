"""A provider and a shard in miniature: they carry out what the engine decides, sooner, later or never."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from bigfleet.core.machines import UNASSIGNED, Machine, MachineState, invariant_violation
from bigfleet.core.needs import Need
from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.decisions import Action, ActionKind, Decisions, EngineOptions
from bigfleet.engine.engine import Engine
from tests.agreement.compare import ACTIONS, REPORTS, differences, rows_that_differ
from tests.agreement.flavours import bound_for, creating_for
from tests.oracle.engine import OracleEngine

CYCLE_SECONDS = 10.0
_ARRIVES_AT = {
    MachineState.CREATING: MachineState.IDLE,
    MachineState.CONFIGURING: MachineState.CONFIGURED,
    MachineState.DRAINING: MachineState.IDLE,
    MachineState.DELETING: MachineState.SPECULATIVE,
}


class Disagreement(AssertionError):
    """The engine and the oracle decided differently, or the fleet forgot what it was told."""


@dataclass
class Latency:
    """How many cycles each step takes; 0 = it is done within the cycle that decides it."""

    create: int = 0
    configure: int = 0
    drain: int = 0


@dataclass
class World:
    """Machines and demand under one engine, which is compared with the oracle in every cycle."""

    options: EngineOptions = field(default_factory=EngineOptions)
    latency: Latency = field(default_factory=Latency)
    # How many of the next actions of a kind the provider refuses, and whether such a machine is then Failed.
    refusals: Counter[ActionKind] = field(default_factory=Counter)
    refusals_are_final: bool = False
    # Of how many actions in a row only the first is carried out: the shard's queue may be full. 0 = none is: then
    # nothing changes but by events, and what the engine remembers is put to the test.
    carried_out_one_in: int = 1
    machines: dict[str, Machine] = field(default_factory=dict)
    idle_since: dict[str, float] = field(default_factory=dict)
    # What each cluster last said; silent ones have not said it since the engine started.
    rollups: dict[str, tuple[Need, ...]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    now: float = 1000.0
    journal: list[str] = field(default_factory=list)
    # People ask for views and hints cycles later, when the fleet has changed.
    reads_reports_late: bool = False
    _unread: list[tuple[Decisions, Decisions]] = field(default_factory=list)
    _landing: dict[str, tuple[float, MachineState]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start_engines()

    def _start_engines(self) -> None:
        self.fleet, self.engine, self.oracle = Fleet(), Engine(self.options), OracleEngine(self.options)

    # --- what happens to machines ------------------------------------------------------------------------------

    def put(self, machine: Machine, idle_since: float | None = None) -> None:
        assert invariant_violation(machine) is None, invariant_violation(machine)
        self.machines[machine.id] = machine
        self.idle_since.pop(machine.id, None)
        if machine.state is MachineState.IDLE and idle_since is not None:
            self.idle_since[machine.id] = idle_since
        self.fleet.put(machine, self.idle_since.get(machine.id))

    def appear(self, machine: Machine, idle_since: float | None = None) -> None:
        """The provider says that a machine is there, or that it is quite another; what was under way is void."""
        self._landing.pop(machine.id, None)
        self.put(machine, idle_since)

    def remove(self, machine_id: str) -> None:
        self.machines.pop(machine_id, None)
        self.idle_since.pop(machine_id, None)
        self._landing.pop(machine_id, None)
        self.fleet.remove(machine_id)

    def change(self, machine_id: str, **changes: Any) -> None:
        """The provider describes a machine anew; its state and its idle stamp stay."""
        self.put(replace(self.machines[machine_id], **changes), self.idle_since.get(machine_id))

    def in_flight(self) -> bool:
        return bool(self._landing)

    # --- what happens to demand --------------------------------------------------------------------------------

    def report(self, cluster: str, needs: tuple[Need, ...]) -> None:
        """A whole roll-up of one cluster."""
        rows = rows_that_differ(self.rollups.get(cluster, ()), needs)
        self.rollups[cluster] = needs
        self.silent.discard(cluster)
        self.fleet.replace_needs(cluster, needs, rows)

    def forget(self, cluster: str) -> None:
        self.silent.add(cluster)
        self.fleet.forget_needs(cluster)

    def demand(self) -> dict[str, tuple[Need, ...]]:
        return {cluster: needs for cluster, needs in self.rollups.items() if cluster not in self.silent}

    # --- time --------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A new process: it lists the machines, knows no idle stamp, no purchase under way, no demand."""
        self._start_engines()
        self.silent = set(self.rollups)
        for machine in sorted(self.machines.values(), key=lambda m: m.id, reverse=True):
            known = machine.state is not MachineState.CREATING
            self.put(machine if known else replace(machine, assignment=UNASSIGNED))

    def step(self) -> Decisions:
        """Land what is due, decide, carry out, and let a cycle's time pass."""
        self.journal.append(f"cycle at {self.now}")
        for machine_id, (due, state) in list(self._landing.items()):
            if due <= self.now:
                del self._landing[machine_id]
                self._to(machine_id, state)
        decisions = self.decide()
        for number, action in enumerate(decisions.actions):
            if self.carried_out_one_in and number % self.carried_out_one_in == 0:
                self._carry_out(action)
        self.now += CYCLE_SECONDS
        return decisions

    def decide(self) -> Decisions:
        """One cycle of the engine, and of the oracle."""
        decisions = self.engine.cycle(self.fleet, self.now)
        expected = self.oracle.cycle(self.machines, self.demand(), self.now, self.idle_since)
        found = [*self._forgotten(), *differences(decisions, expected, ACTIONS)]
        if self.reads_reports_late:
            self._unread.append((decisions, expected))
        else:
            found += differences(decisions, expected, REPORTS)
        if len(self._unread) > 1:
            found += self.read_reports()
        if found:
            raise Disagreement("\n".join(found))
        return decisions

    def read_reports(self) -> list[str]:
        """Look at what was not looked at yet: time has passed, and it must still tell of its own cycle."""
        unread, self._unread = self._unread, []
        return [line for decisions, expected in unread for line in differences(decisions, expected, REPORTS)]

    def _forgotten(self) -> list[str]:
        """What the fleet tells otherwise than it was told."""
        ids = chain(self.machines, self.fleet)
        wrong = [one for one in dict.fromkeys(ids) if self.fleet.get(one) != self.machines.get(one)]
        told = [f"fleet.get({one!r}): {self.fleet.get(one)}, was told {self.machines.get(one)}" for one in wrong[:3]]
        if len(self.fleet) != len(self.machines):
            told.append(f"len(fleet) is {len(self.fleet)}, not {len(self.machines)}")
        return told

    # --- carrying out ------------------------------------------------------------------------------------------

    def _carry_out(self, action: Action) -> None:
        refused = self.refusals[action.kind] > 0
        if refused:
            self.refusals[action.kind] -= 1
            if not self.refusals_are_final:
                return  # the shard takes the machine back to where it was
        match action.kind:
            case ActionKind.PROVISION:
                assert action.profile is not None
                stamp = creating_for(action.profile, action.group)
                self._to(action.machine_id, MachineState.CREATING, assignment=stamp)
                if self._finish(action.machine_id, MachineState.IDLE, self.latency.create, refused):
                    self._bootstrap(action)
            case ActionKind.BOOTSTRAP:
                self._bootstrap(action, refused)
            case ActionKind.PREEMPT | ActionKind.RECLAIM:
                self._to(action.machine_id, MachineState.DRAINING)
                self._finish(action.machine_id, MachineState.IDLE, self.latency.drain, refused)
            case ActionKind.DELETE:
                self._to(action.machine_id, MachineState.DELETING)
                self._finish(action.machine_id, MachineState.SPECULATIVE, 0, refused)

    def _bootstrap(self, action: Action, refused: bool = False) -> None:
        assert action.profile is not None
        stamp = bound_for(action.profile, action.group)
        self._to(action.machine_id, MachineState.CONFIGURING, cluster=action.cluster, assignment=stamp)
        self._finish(action.machine_id, MachineState.CONFIGURED, self.latency.configure, refused)

    def _finish(self, machine_id: str, state: MachineState, dwell_cycles: int, refused: bool) -> bool:
        if refused:
            self._to(machine_id, MachineState.FAILED)
        elif dwell_cycles:
            self._landing[machine_id] = (self.now + dwell_cycles * CYCLE_SECONDS, state)
        else:
            self._to(machine_id, state)
            return True
        return False

    def _to(self, machine_id: str, state: MachineState, **changes: Any) -> None:
        if state in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.FAILED):
            changes |= {"cluster": "", "assignment": UNASSIGNED}
        if state is MachineState.SPECULATIVE:
            changes |= {"host": ""}
        elif state is MachineState.IDLE:
            changes |= {"host": f"host-{machine_id}"}
        elif state is MachineState.FAILED:
            changes |= {"last_error": "refused"}
        machine = replace(self.machines[machine_id], state=state, **changes)
        self.put(machine, self.now if state is MachineState.IDLE else None)

    def recover(self, machine_id: str) -> None:
        """A Failed machine is well again, as a provider may say (B705)."""
        machine = self.machines[machine_id]
        if machine.state is MachineState.FAILED:
            self._to(machine_id, MachineState.IDLE if machine.host else MachineState.SPECULATIVE, last_error="")

    def land_all(self) -> None:
        """Whatever is in between, whoever began it, arrives."""
        for machine in list(self.machines.values()):
            if machine.state in _ARRIVES_AT:
                self._landing.pop(machine.id, None)
                self._to(machine.id, _ARRIVES_AT[machine.state])

    def lose(self, machine_id: str) -> None:
        """The machine breaks where it stands."""
        self._landing.pop(machine_id, None)
        self._to(machine_id, MachineState.FAILED)
