"""A world small enough to step by hand, and the engine that decides in it under the eyes of the oracle."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bigfleet.core import penalty
from bigfleet.core.machines import (
    LEGAL_EDGES,
    UNASSIGNED,
    Assignment,
    CapacityType,
    Machine,
    MachineState,
    invariant_violation,
)
from bigfleet.core.needs import Need
from bigfleet.core.requirements import (
    INSTANCE_TYPE_KEY,
    RACK_KEY,
    ZONE_KEY,
    NeedProfile,
    Requirement,
    RequirementOperator,
    Spread,
    WhenUnsatisfiable,
)
from bigfleet.core.vectors import Vector
from bigfleet.engine import Action, ActionKind, Decisions, Engine, EngineOptions, Fleet
from tests.agreement.compare import differences, rows_that_differ
from tests.oracle.engine import OracleEngine

NO_CAP = EngineOptions(reclaim_cap_fraction=0, release_cap_fraction=0)
CYCLE_SECONDS = 10.0


def cpu(units: float) -> Vector:
    return {"cpu": round(units * 1000)}


def profile(
    *requirements: Requirement,
    priority: int = 1000,
    spread: Iterable[Spread] = (),
    interruption: int = penalty.UNSPECIFIED,
    reclamation: int = penalty.UNSPECIFIED,
) -> NeedProfile:
    return NeedProfile.canonical(requirements, spread, priority, interruption, reclamation)


def same(key: str = RACK_KEY, *values: str) -> Requirement:
    return Requirement(key, RequirementOperator.SAME, values)


def of_type(*types: str) -> Requirement:
    return Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, types)


def zone_spread(skew: int = 1, when: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE) -> Spread:
    return Spread(ZONE_KEY, skew, when)


def need(
    aggregate: Vector,
    unit: Vector | None = None,
    *,
    of: NeedProfile | None = None,
    cluster: str = "c1",
    group: str = "",
    arrival: float = 0.0,
) -> Need:
    return Need(cluster, of or profile(), aggregate, cpu(1) if unit is None else unit, group, arrival)


def machine(
    machine_id: str,
    state: MachineState = MachineState.IDLE,
    *,
    allocatable: Vector | None = None,
    cluster: str = "",
    of: NeedProfile | None = None,
    group: str = "",
    zone: str = "zone-a",
    rack: str = "",
    instance_type: str = "m6i.large",
    price: float = 1.0,
    probability: float = 0.0,
    capacity_type: CapacityType = CapacityType.ON_DEMAND,
) -> Machine:
    """A sound machine; `of` is the profile that it was acquired for."""
    hostless = state in (MachineState.SPECULATIVE, MachineState.CREATING)
    return Machine(
        machine_id,
        state,
        instance_type=instance_type,
        zone=zone,
        capacity_type=capacity_type,
        price_per_hour=price,
        interruption_probability=probability,
        allocatable=cpu(4) if allocatable is None else allocatable,
        labels={RACK_KEY: rack} if rack else {},
        host="" if hostless else f"host-{machine_id}",
        cluster=cluster,
        last_error="broken" if state is MachineState.FAILED else "",
        assignment=assignment(of, group) if of else UNASSIGNED,
    )


def configured(machine_id: str, cluster: str = "c1", **others: Any) -> Machine:
    return machine(machine_id, MachineState.CONFIGURED, cluster=cluster, **others)


def assignment(of: NeedProfile, group: str = "") -> Assignment:
    return Assignment(
        of.priority,
        penalty.upper_bound(of.interruption_bucket),
        penalty.upper_bound(of.reclamation_bucket),
        of.fingerprint,
        group,
    )


class EngineAndOracle:
    """The engine, which must agree with the oracle on whatever a test shows it. It is told of changes only."""

    def __init__(self, options: EngineOptions | None = None) -> None:
        self._engine, self._oracle, self._fleet = Engine(options), OracleEngine(options), Fleet()
        self._machines: dict[str, tuple[Machine, float | None]] = {}
        self._needs: dict[str, tuple[Need, ...]] = {}

    def cycle(
        self,
        machines: Mapping[str, Machine],
        needs: Mapping[str, Sequence[Need]],
        now: float,
        idle_since: Mapping[str, float],
        lap: Callable[[str], None] = lambda _phase: None,
    ) -> Decisions:
        self._tell(
            {
                one.id: (one, idle_since.get(one.id) if one.state is MachineState.IDLE else None)
                for one in machines.values()
            },
            {cluster: tuple(demand) for cluster, demand in needs.items()},
        )
        decisions = self._engine.cycle(self._fleet, now, lap)
        found = differences(decisions, self._oracle.cycle(machines, needs, now, idle_since))
        assert not found, "\n".join(found)
        for cluster in needs:
            own = [view for view in decisions.views if view.need.cluster == cluster]
            assert decisions.views_of(cluster) == own, f"the views of {cluster} alone are others"
        return decisions

    def _tell(self, machines: dict[str, tuple[Machine, float | None]], needs: dict[str, tuple[Need, ...]]) -> None:
        for machine_id in self._machines.keys() - machines.keys():
            self._fleet.remove(machine_id)
        for machine_id, told in machines.items():
            if self._machines.get(machine_id) != told:
                self._fleet.put(*told)
        for cluster in self._needs.keys() - needs.keys():
            self._fleet.forget_needs(cluster)
        for cluster, demand in needs.items():
            if self._needs.get(cluster) != demand:
                self._fleet.replace_needs(cluster, demand, rows_that_differ(self._needs.get(cluster, ()), demand))
        self._machines, self._needs = machines, needs


def decide(
    machines: Iterable[Machine],
    needs: Iterable[Need] = (),
    *,
    reported: Iterable[str] = (),
    engine: EngineAndOracle | None = None,
    options: EngineOptions = NO_CAP,
    now: float = 0.0,
    idle_since: dict[str, float] | None = None,
) -> Decisions:
    """One cycle over a hand-made world."""
    demand: dict[str, list[Need]] = {cluster: [] for cluster in reported}
    for one in needs:
        demand.setdefault(one.cluster, []).append(one)
    return (engine or EngineAndOracle(options)).cycle({m.id: m for m in machines}, demand, now, idle_since or {})


def acted(decisions: Decisions, kind: ActionKind) -> list[str]:
    """The machines of the actions of one kind, in the order of emission."""
    return [action.machine_id for action in decisions.actions if action.kind is kind]


@dataclass
class World:
    """Machines and demand under one engine. Dwells are in cycles; 0 = the step is done in the cycle that decides it."""

    machines: dict[str, Machine]
    needs: dict[str, list[Need]] = field(default_factory=dict)
    engine: EngineAndOracle = field(default_factory=lambda: EngineAndOracle(NO_CAP))
    create_cycles: int = 0
    configure_cycles: int = 0
    drain_cycles: int = 0
    # How many of the next actions of a kind fail at the provider.
    failures: dict[ActionKind, int] = field(default_factory=dict)
    now: float = 0.0
    idle_since: dict[str, float] = field(default_factory=dict)
    _arrives: dict[str, tuple[float, MachineState]] = field(default_factory=dict)

    @classmethod
    def of(cls, machines: Iterable[Machine], needs: Iterable[Need] = (), **options: Any) -> "World":
        world = cls({m.id: m for m in machines}, **options)
        for one in needs:
            world.needs.setdefault(one.cluster, []).append(one)
        return world

    def in_state(self, state: MachineState, cluster: str | None = None) -> list[str]:
        return sorted(
            m.id for m in self.machines.values() if m.state is state and (cluster is None or m.cluster == cluster)
        )

    def step(self) -> Decisions:
        """Land what is due, decide, act, and let a cycle's time pass."""
        for machine_id, (due, state) in list(self._arrives.items()):
            if due <= self.now:
                del self._arrives[machine_id]
                self._to(machine_id, state)
        decisions = self.engine.cycle(dict(self.machines), self.needs, self.now, dict(self.idle_since))
        for action in decisions.actions:
            self._apply(action)
        self.now += CYCLE_SECONDS
        return decisions

    def settle(self, cycles: int) -> int:
        """Step until a cycle decides nothing and nothing is in flight; the number of cycles that took."""
        for number in range(cycles):
            if not self.step().actions and not self._arrives:
                return number
        raise AssertionError(f"not settled after {cycles} cycles")

    def lose(self, machine_id: str) -> None:
        """The provider stops listing the machine."""
        del self.machines[machine_id]
        self._arrives.pop(machine_id, None)
        self.idle_since.pop(machine_id, None)

    def _apply(self, action: Action) -> None:
        match action.kind:
            case ActionKind.PROVISION:
                assert action.profile is not None
                stamp = Assignment(fingerprint=action.profile.fingerprint, group=action.group)
                self._to(action.machine_id, MachineState.CREATING, assignment=stamp)
                if self._finish(action, MachineState.IDLE, self.create_cycles):
                    self._bootstrap(action)
            case ActionKind.BOOTSTRAP:
                self._bootstrap(action)
            case ActionKind.PREEMPT | ActionKind.RECLAIM:
                assert self.machines[action.machine_id].cluster == action.cluster
                self._to(action.machine_id, MachineState.DRAINING)
                self._finish(action, MachineState.IDLE, self.drain_cycles)
            case ActionKind.DELETE:
                self._to(action.machine_id, MachineState.DELETING)
                self._finish(action, MachineState.SPECULATIVE, 0)

    def _bootstrap(self, action: Action) -> None:
        assert action.profile is not None
        stamp = assignment(action.profile, action.group)
        self._to(action.machine_id, MachineState.CONFIGURING, cluster=action.cluster, assignment=stamp)
        self._finish(action, MachineState.CONFIGURED, self.configure_cycles)

    def _finish(self, action: Action, state: MachineState, dwell_cycles: int) -> bool:
        if self.failures.get(action.kind, 0):
            self.failures[action.kind] -= 1
            self._to(action.machine_id, MachineState.FAILED, last_error=f"{action.kind} refused")
        elif dwell_cycles:
            self._arrives[action.machine_id] = (self.now + dwell_cycles * CYCLE_SECONDS, state)
        else:
            self._to(action.machine_id, state)
            return True
        return False

    def _to(self, machine_id: str, state: MachineState, **changes: Any) -> None:
        before = self.machines[machine_id]
        assert state in LEGAL_EDGES[before.state], f"{machine_id}: {before.state.label} → {state.label}"
        if state in (MachineState.IDLE, MachineState.SPECULATIVE):
            changes |= {"cluster": "", "assignment": UNASSIGNED}
        if state is MachineState.SPECULATIVE:
            changes |= {"host": ""}
        elif state is MachineState.IDLE:
            changes |= {"host": f"host-{machine_id}"}
        after = replace(before, state=state, **changes)
        assert invariant_violation(after) is None, invariant_violation(after)
        self.machines[machine_id] = after
        if state is MachineState.IDLE:
            self.idle_since[machine_id] = self.now
        else:
            self.idle_since.pop(machine_id, None)
