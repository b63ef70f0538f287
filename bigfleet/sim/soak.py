"""A long run with demand that never rests and machines that break: nothing may leak, nothing may get stuck."""

from collections.abc import Callable
from dataclasses import dataclass

from bigfleet.core import penalty
from bigfleet.core.machines import TRANSITIONAL, CapacityType, Machine, MachineState
from bigfleet.core.requirements import RACK_KEY, Operator, Profile, Requirement
from bigfleet.engine import ActionKind
from bigfleet.provider.latency import Latency
from bigfleet.sim import faults
from bigfleet.sim.pods import PodClass
from bigfleet.sim.provider import ProviderModel
from bigfleet.sim.shard import ShardModel
from bigfleet.sim.simulation import Model, Simulation
from bigfleet.sim.timeline import Rank

_CYCLE_SECONDS = 10.0
_CLUSTERS = 50
_CHANGE_EVERY_CYCLES = 5
_MACHINES = 240
_MOST_PODS = 12
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
    faults.lose_steadily(simulation, 0.0, busy, _LOSSES_PER_MACHINE_SECOND)
    stuck = _watch_transitions(simulation)
    simulation.recorder.on_sample = lambda sample: progress(sample.at, simulation.seconds)
    simulation.run()

    problems = [*simulation.problems(), *stuck]
    if len(simulation.shard.machines) != _MACHINES:
        problems.append(f"{len(simulation.shard.machines)} machines are left of {_MACHINES}")
    if unsettled := simulation.unsettled():
        machine_id, state = min(unsettled.items())
        problems.append(f"{len(unsettled)} machines are not at rest at the end: {machine_id} is {state}")
    actions = ", ".join(f"{n:,} {kind}s" for kind, n in simulation.recorder.actions.items())
    at_rest = simulation.shard.cycles - cycles
    summary = (
        f"{cycles:,} cycles and {at_rest} at rest, seed {seed}: {actions}; {simulation.provider.lost:,} machines lost",
        *(f"✗ {problem}" for problem in problems or ()),
        *(() if problems else ("✓ no machine leaked, none is on its way or broken for ever",)),
    )
    return SoakResult(tuple(problems), summary)


def _world(seed: int, seconds: float) -> Simulation:
    one, two = (Latency(n * _CYCLE_SECONDS, n * _CYCLE_SECONDS) for n in (1, 2))
    model = Model(
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
            allocatable={"cpu": 4000},
            labels={RACK_KEY: f"rack-{index % 12}"},
            host=f"host-m-{index:04}" if index < bare else "",
        )
        for index in range(_MACHINES)
    ]


def _pod(priority: int, gang: bool = False) -> PodClass:
    requirements = [Requirement(RACK_KEY, Operator.SAME if gang else Operator.EXISTS)]
    profile = Profile.canonical(requirements, (), priority, penalty.bucket_of(1), penalty.bucket_of(1))
    # Two Pods to a machine, one for a member of a gang, so that a gang does not fold.
    return PodClass(profile, {"cpu": 3000 if gang else 2000}, f"{RACK_KEY}\x00soak" if gang else "")


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


def _watch_transitions(simulation: Simulation) -> list[str]:
    """A list that fills with machines that stay too long on their way."""
    since: dict[str, tuple[MachineState, int]] = {}
    stuck: list[str] = []
    record = simulation.recorder.cycle

    def look(*arguments: object) -> None:
        record(*arguments)  # type: ignore[arg-type]
        cycle = simulation.shard.cycles
        for machine in simulation.shard.machines.values():
            if machine.state not in TRANSITIONAL:
                since.pop(machine.id, None)
                continue
            state, began = since.setdefault(machine.id, (machine.state, cycle))
            if state is not machine.state:
                since[machine.id] = machine.state, cycle
            elif cycle - began == _LONGEST_TRANSITION_CYCLES:
                stuck.append(f"{machine.id} has been {state.label} for {_LONGEST_TRANSITION_CYCLES} cycles")

    simulation.shard.on_cycle = look
    return stuck
