"""Small worlds for the simulator's tests: one synchronous step per cycle, machines of four cores."""

from collections.abc import Iterable, Mapping

from bigfleet.core import penalty
from bigfleet.core.machines import CapacityType, Machine, MachineState
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
from bigfleet.engine import ActionKind, EngineOptions
from bigfleet.provider.fake.latency import Latency
from bigfleet.scheduling.pods import PodClass
from bigfleet.sim.world.cluster import Cluster, ClusterModel
from bigfleet.sim.world.provider import ProviderModel
from bigfleet.sim.world.shard import ShardModel
from bigfleet.sim.world.simulation import Simulation, WorldModel
from bigfleet.sim.world.timeline import Timeline

CYCLE = 10.0
NO_CAP = EngineOptions(reclaim_cap_fraction=0, release_cap_fraction=0)


def machine(number: int, state: MachineState = MachineState.IDLE, cluster: str = "", cores: int = 4) -> Machine:
    machine_id = f"m-{number:03}"
    return Machine(
        machine_id,
        state,
        instance_type="m6i.xlarge",
        zone=f"zone-{'abc'[number % 3]}",
        capacity_type=CapacityType.ON_DEMAND if state is MachineState.SPECULATIVE else CapacityType.BARE_METAL,
        allocatable={"cpu": cores * 1000},
        labels={RACK_KEY: f"rack-{number % 6}"},
        host="" if state is MachineState.SPECULATIVE else f"host-{machine_id}",
        cluster=cluster,
    )


def fleet(number: int, state: MachineState = MachineState.IDLE) -> list[Machine]:
    return [machine(index, state) for index in range(number)]


def pod(cores: int = 1, priority: int = 1000, gang: str = "", skew: int = 0, group: str = "test") -> PodClass:
    """`gang` is the key that all Pods of a `group` share; a `skew` spreads them over the zones."""
    requirements = [Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS)]
    if gang:
        requirements.append(Requirement(gang, RequirementOperator.SAME))
    spread = [Spread(ZONE_KEY, skew, WhenUnsatisfiable.DO_NOT_SCHEDULE)] if skew else []
    bucket = penalty.bucket_of(1)
    profile = NeedProfile.canonical(requirements, spread, priority, bucket, bucket)
    return PodClass(profile, {"cpu": cores * 1000}, f"{gang}\x00{group}" if gang else "")


def simulate(
    machines: Iterable[Machine],
    demand: Mapping[str, Mapping[str, tuple[PodClass, int]]],
    *,
    cluster: ClusterModel | None = None,
    dwell_cycles: Mapping[ActionKind, float] | None = None,
    credits_creating: bool = True,
    repair_seconds: float = 0.0,
    lockstep: bool = True,
    guard: bool = False,
) -> Simulation:
    """A prepared simulation with `demand`: cluster → workload → (Pods, replicas)."""
    dwells = {kind: Latency(n * CYCLE, n * CYCLE) for kind, n in (dwell_cycles or {}).items()}
    model = WorldModel(
        engine=NO_CAP,
        guard=guard,
        shard=ShardModel(CYCLE, lockstep, credits_creating),
        provider=ProviderModel(dwells, repair_seconds=repair_seconds),
        cluster=cluster or ClusterModel(),
    )
    simulation = Simulation(model, machines, demand, seconds=1000 * CYCLE)
    for name, workloads in demand.items():
        for workload, (pods, replicas) in workloads.items():
            simulation.clusters[name].create(workload, pods, replicas)
    simulation.prepare()
    simulation.start()
    return simulation


def run_cycles(simulation: Simulation, cycles: int) -> None:
    simulation.timeline.run_until(simulation.timeline.now + cycles * CYCLE)


def lone_cluster(*machines: Machine, model: ClusterModel | None = None) -> tuple[Cluster, Timeline]:
    """A cluster with nodes, and nobody who decides anything."""
    timeline = Timeline()
    cluster = Cluster("c", timeline, ["cpu"], model or ClusterModel())
    for one in machines:
        cluster.node_ready(one)
    return cluster, timeline
