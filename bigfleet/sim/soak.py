"""A long run with demand that never rests and machines that break: nothing may leak, nothing may get stuck."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bigfleet.core import penalty
from bigfleet.core.machines import TRANSITIONAL, CapacityType, Machine, MachineState
from bigfleet.core.requirements import RACK_KEY, NeedProfile, Requirement, RequirementOperator
from bigfleet.engine import Action, ActionKind, Decisions
from bigfleet.provider.fake.latency import Latency
from bigfleet.scheduling.pods import PodClass
from bigfleet.sim.world import faults
from bigfleet.sim.world.provider import ProviderModel
from bigfleet.sim.world.shard import ShardModel
from bigfleet.sim.world.simulation import Simulation, WorldModel
from bigfleet.sim.world.timeline import Rank

_CYCLE_SECONDS = 10.0
_CLUSTERS = 50
_CHANGE_EVERY_CYCLES = 5
_MACHINES = 240
_MOST_PODS = 12
_MACHINE_CPU, _SERVICE_CPU, _GANG_CPU = 4000, 2000, 3000
# One machine in so many is lost in each second of the run: about one every two cycles.
_LOSSES_PER_MACHINE_SECOND = 4e-4
# After the last change and the last fault, so long until everything must be at rest.
_REST_CYCLES = 100
# No transition takes longer than this many cycles, back-off included.
_LONGEST_TRANSITION_CYCLES = 12


@dataclass(frozen=True)
class SoakResult:
    """What was found, and the figures."""

    problems: tuple[str, ...]
    lines: tuple[str, ...]


def soak(cycles: int, seed: int = 1, progress: Callable[[float, float], None] = lambda _done, _all: None) -> SoakResult:
    """Run so many cycles, then wait until all is at rest."""
    busy = cycles * _CYCLE_SECONDS
    simulation = _world(seed, busy + _REST_CYCLES * _CYCLE_SECONDS)
    _keep_changing(simulation, busy)
    _withdraw_half(simulation, busy)
    faults.lose_steadily(simulation, 0.0, busy, _LOSSES_PER_MACHINE_SECOND)
    watch = _Watch(simulation)
    simulation.recorder.on_sample = lambda sample: progress(sample.at, simulation.seconds)
    simulation.run()

    problems = [*simulation.problems(), *watch.stuck, *_held_by_nobody(simulation), *watch.kept_too_long()]
    if len(simulation.shard.machines) != _MACHINES:
        problems.append(f"{len(simulation.shard.machines)} machines are left of {_MACHINES}")
    if unsettled := simulation.unsettled():
        machine_id, state = min(unsettled.items())
        problems.append(f"{len(unsettled)} machines are not at rest at the end: {machine_id} is {state}")
    actions = ", ".join(f"{n:,} {kind}s" for kind, n in simulation.recorder.actions.items())
    at_rest = simulation.shard.cycles - cycles
    head = (
        f"{cycles:,} cycles and {at_rest} at rest, seed {seed}: {actions}; {simulation.provider.lost:,} machines lost"
    )
    fine = "✓ no machine leaked, none is on its way or broken for ever, none is kept without need"
    return SoakResult(tuple(problems), (head, *([f"✗ {problem}" for problem in problems] or [fine])))


def _world(seed: int, seconds: float) -> Simulation:
    one, two = (Latency(n * _CYCLE_SECONDS, n * _CYCLE_SECONDS) for n in (1, 2))
    model = WorldModel(
        seed=seed,
        shard=ShardModel(_CYCLE_SECONDS, lockstep=True),
        provider=ProviderModel(
            latencies={
                ActionKind.PROVISION: two,
                ActionKind.BOOTSTRAP: one,
                ActionKind.PREEMPT: one,
                ActionKind.RECLAIM: one,
                ActionKind.DELETE: one,
            },
            failure_ratios={ActionKind.PROVISION: 0.02, ActionKind.BOOTSTRAP: 0.02, ActionKind.RECLAIM: 0.01},
            repair_seconds=5 * _CYCLE_SECONDS,
        ),
        rollup_seconds=_CYCLE_SECONDS,
    )
    clusters = [f"c-{index:02}" for index in range(_CLUSTERS)]
    simulation = Simulation(model, _machines(), clusters, seconds)
    for index, cluster in enumerate(simulation.clusters.values()):
        cluster.create("service", _pod(1000 if index % 2 else 100), 2)
        cluster.create("gang", _pod(1000, gang=True), 4 if index % 5 == 0 else 0)
    return simulation


def _machines() -> list[Machine]:
    bare = _MACHINES // 3
    return [
        Machine(
            f"m-{index:04}",
            MachineState.IDLE if index < bare else MachineState.SPECULATIVE,
            instance_type="m6i.large",
            zone=f"zone-{'abc'[index % 3]}",
            capacity_type=CapacityType.BARE_METAL if index < bare else CapacityType.ON_DEMAND,
            price_per_hour=0.0 if index < bare else 1.0,
            allocatable={"cpu": _MACHINE_CPU},
            labels={RACK_KEY: f"rack-{index % 12}"},
            host=f"host-m-{index:04}" if index < bare else "",
        )
        for index in range(_MACHINES)
    ]


def _pod(priority: int, gang: bool = False) -> PodClass:
    requirements = [Requirement(RACK_KEY, RequirementOperator.SAME if gang else RequirementOperator.EXISTS)]
    profile = NeedProfile.canonical(requirements, (), priority, penalty.bucket_of(1), penalty.bucket_of(1))
    # Two Pods to a machine, one for a member of a gang, so that a gang does not fold.
    return PodClass(profile, {"cpu": _GANG_CPU if gang else _SERVICE_CPU}, f"{RACK_KEY}\x00soak" if gang else "")


def _keep_changing(simulation: Simulation, end: float) -> None:
    """Every few cycles the next cluster asks for something else."""
    random = simulation.random("soak")
    clusters = list(simulation.clusters.values())

    def change(turn: int) -> None:
        cluster = clusters[turn % len(clusters)]
        cluster.scale("service", random.randint(0, _MOST_PODS))
        if turn % len(clusters) % 5 == 0:
            cluster.scale("gang", random.choice((0, 4)))
        cluster.bind()
        following = simulation.timeline.now + _CHANGE_EVERY_CYCLES * _CYCLE_SECONDS
        if following <= end:
            simulation.timeline.at(following, Rank.WORKLOAD, lambda: change(turn + 1))

    simulation.timeline.at(0.0, Rank.WORKLOAD, lambda: change(0))


def _withdraw_half(simulation: Simulation, when: float) -> None:
    """Every other cluster needs nothing any more: what it had must be taken back, and what was bought be released."""

    def withdraw() -> None:
        for cluster in list(simulation.clusters.values())[::2]:
            for name in cluster.controllers:
                cluster.scale(name, 0)

    simulation.timeline.at(when, Rank.WORKLOAD, withdraw)


def _held_by_nobody(simulation: Simulation) -> Iterator[str]:
    """Clusters that hold more machines than their demand takes, whatever the engine says: all machines are equal."""
    held = Counter(m.cluster for m in simulation.provider.machines.values() if m.state is MachineState.CONFIGURED)
    excess = []
    for name, cluster in simulation.clusters.items():
        wanted = sum(math.ceil(need.aggregate["cpu"] / _MACHINE_CPU) for need in cluster.rollup())
        if held[name] > wanted:
            excess.append(f"{name} holds {held[name]} and needs {wanted}")
    if excess:
        yield f"{len(excess)} clusters hold machines that are not needed at the end: {excess[0]}"


class _Watch:
    """Looks at every machine after every cycle, and notes since when it is in its state."""

    def __init__(self, simulation: Simulation) -> None:
        # Machines that stay too long on their way.
        self.stuck: list[str] = []
        self._simulation = simulation
        self._since: dict[str, tuple[MachineState, int]] = {}
        record = simulation.recorder.cycle

        def look(decisions: Decisions, taken: Sequence[Action]) -> None:
            record(decisions, taken)
            self._look()

        simulation.shard.on_cycle = look

    def _look(self) -> None:
        cycle = self._simulation.shard.cycles
        for machine in self._simulation.shard.machines.values():
            state, began = self._since.setdefault(machine.id, (machine.state, cycle))
            if state is not machine.state:
                self._since[machine.id] = machine.state, cycle
            elif state in TRANSITIONAL and cycle - began == _LONGEST_TRANSITION_CYCLES:
                self.stuck.append(f"{machine.id} has been {state.label} for {_LONGEST_TRANSITION_CYCLES} cycles")

    def kept_too_long(self) -> Iterator[str]:
        """Machines that are Idle at the end, and so paid for, beyond their hold."""
        simulation = self._simulation
        kept = []
        for machine in simulation.provider.machines.values():
            state, began = self._since[machine.id]
            idle = (simulation.shard.cycles - began) * _CYCLE_SECONDS
            hold = simulation.model.engine.idle_hold(machine.capacity_type)
            if machine.state is state is MachineState.IDLE and idle > hold + _CYCLE_SECONDS:
                kept.append(f"{machine.id} for {idle:g} s, its hold is {hold:g} s")
        if kept:
            yield f"{len(kept)} machines are Idle at the end beyond their hold: {kept[0]}"
