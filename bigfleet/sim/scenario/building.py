"""Makes a world from a scenario."""

from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random

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
from bigfleet.core.vectors import parse_vector
from bigfleet.engine import ActionKind, EngineOptions
from bigfleet.provider.fake.latency import Latency
from bigfleet.scheduling.pods import PodClass
from bigfleet.sim.scenario import scenario, troubles
from bigfleet.sim.world import faults, workloads
from bigfleet.sim.world.cluster import Cluster, ClusterModel
from bigfleet.sim.world.provider import ProviderModel
from bigfleet.sim.world.shard import ShardModel
from bigfleet.sim.world.simulation import Simulation, WorldModel

_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}
_GANG_KEYS = {"rack": RACK_KEY, "zone": ZONE_KEY}


def build(given: scenario.Scenario, seed: int | None = None) -> Simulation:
    """The world at its first moment; `seed` wins over the scenario's."""
    names = [name for section in given.clusters for name in section.names()]
    model = _model(given, given.seed if seed is None else seed)
    machines = [machine for section in given.machines for machine in _machines(section, names)]
    simulation = Simulation(model, machines, names, given.duration_seconds)
    for section in given.clusters:
        for name in section.names():
            for workload in section.workloads:
                _demand(simulation, simulation.clusters[name], workload)
    for fault in given.faults:
        _arrange(simulation, fault)
    return simulation


def _model(given: scenario.Scenario, seed: int) -> WorldModel:
    engine, provider, historic = given.engine, given.provider, given.historic
    acts = not (engine.actuation_paused or engine.dry_run)
    holds = {
        CapacityType.ON_DEMAND: engine.on_demand_hold_seconds,
        CapacityType.SPOT: engine.spot_hold_seconds,
        CapacityType.RESERVED: engine.reserved_hold_seconds,
        CapacityType.BARE_METAL: engine.bare_metal_hold_seconds,
    }
    return WorldModel(
        seed=seed,
        engine=EngineOptions(
            reclaim_cap_fraction=engine.reclaim_cap_fraction if acts else 0.0,
            release_cap_fraction=engine.release_cap_fraction if acts else 0.0,
            cap_window_seconds=engine.cap_window_seconds,
            reclaim_after_seconds=engine.reclaim_after_seconds,
            idle_hold_seconds={kind: seconds for kind, seconds in holds.items() if seconds is not None},
        ),
        guard=engine.empty_rollup_guard,
        shard=ShardModel(engine.cycle_seconds, engine.lockstep, historic.credits_creating, acts),
        provider=ProviderModel(
            latencies={
                ActionKind.PROVISION: _latency(provider.create),
                ActionKind.BOOTSTRAP: _latency(provider.configure),
                ActionKind.PREEMPT: _latency(provider.drain),
                ActionKind.RECLAIM: _latency(provider.drain),
                ActionKind.DELETE: _latency(provider.delete),
            },
            failure_ratios={
                ActionKind.PROVISION: provider.create_failure_ratio,
                ActionKind.BOOTSTRAP: provider.configure_failure_ratio,
                ActionKind.PREEMPT: provider.drain_failure_ratio,
                ActionKind.RECLAIM: provider.drain_failure_ratio,
            },
            repair_seconds=provider.repair_seconds,
        ),
        cluster=ClusterModel(historic.controller_managed, historic.request_per_pod),
        rollup_seconds=engine.rollup_seconds,
    )


def _latency(section: scenario.LatencyModel) -> Latency:
    return Latency(section.median_seconds, section.p99_seconds)


def _machines(section: scenario.MachineSection, clusters: list[str]) -> Iterator[Machine]:
    state = MachineState[section.state.upper()]
    owners = cycle(clusters if section.cluster == "*" else [section.cluster])
    allocatable = parse_vector(section.allocatable)
    for index in range(section.count):
        zone = section.zones[index % len(section.zones)]
        rack = index // len(section.zones) % section.racks_per_zone
        machine_id = f"{section.name}-{index:05}"
        yield Machine(
            machine_id,
            state,
            instance_type=section.instance_type,
            zone=zone,
            capacity_type=_CAPACITY_TYPES[section.capacity_type],
            price_per_hour=section.price_per_hour,
            interruption_probability=section.interruption_probability,
            allocatable=allocatable,
            labels={RACK_KEY: scenario.rack_name(zone, rack)},
            host="" if state is MachineState.SPECULATIVE else f"host-{machine_id}",
            cluster=next(owners),
        )


def _demand(simulation: Simulation, cluster: Cluster, work: scenario.WorkloadSection) -> None:
    mix = [(entry.weight, entry.priority) for entry in work.priorities] or [(1.0, work.priority or 0)]
    if work.jobs:
        classes = [(weight, _maker(work, priority)) for weight, priority in mix]
        jobs = workloads.Jobs(work.jobs.per_minute / 60, work.jobs.mean_lifetime_seconds, work.jobs.replicas, classes)
        workloads.arrive(simulation, cluster, work.name, jobs)
    else:
        random = simulation.random(f"priorities/{cluster.name}/{work.name}")
        for name in work.names():
            cluster.create(name, _maker(work, _drawn(random, mix))(name), work.replicas)
            for step in work.steps:
                workloads.step(simulation, cluster, name, step.at_seconds, step.replicas)
            if work.ramp:
                start, end = work.ramp.from_seconds, work.ramp.to_seconds
                workloads.ramp(simulation, cluster, name, start, end, work.replicas, work.ramp.to)
    if work.churn_per_minute:
        workloads.churn(simulation, cluster, work.churn_per_minute, work.name)


def _drawn(random: Random, mix: list[tuple[float, int]]) -> int:
    return random.choices([priority for _, priority in mix], [weight for weight, _ in mix])[0]


def _maker(work: scenario.WorkloadSection, priority: int) -> Callable[[str], PodClass]:
    """What the Pods of a controller with a given name ask for: the name is the gang's."""
    requirements = [
        Requirement(key, RequirementOperator.IN, values)
        for key, values in ((INSTANCE_TYPE_KEY, work.instance_types), (ZONE_KEY, work.zones))
        if values
    ] or [Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS)]
    if work.gang:
        requirements.append(Requirement(_GANG_KEYS[work.gang], RequirementOperator.SAME))
    spread = work.spread
    profile = NeedProfile.canonical(
        requirements,
        [Spread(spread.topology_key, spread.max_skew, WhenUnsatisfiable.DO_NOT_SCHEDULE)] if spread else [],
        priority,
        penalty.bucket_of(work.interruption_penalty),
        penalty.bucket_of(work.reclamation_penalty),
    )
    resources = parse_vector(work.pod)

    def make(name: str) -> PodClass:
        group = f"{_GANG_KEYS[work.gang]}\x00workload={name},;" if work.gang else ""
        return PodClass(profile, resources, group, kind=work.name)

    return make


def _arrange(simulation: Simulation, fault: troubles.Fault) -> None:
    match fault:
        case troubles.LoseFault():
            faults.lose_at(
                simulation,
                fault.at_seconds,
                share=fault.share,
                number=fault.number,
                vanish=fault.vanish,
                selected=_selection(fault.where),
            )
        case troubles.LossRateFault():
            faults.lose_steadily(simulation, fault.from_seconds, fault.to_seconds, fault.per_machine_second)
        case troubles.SpotFault():
            faults.interrupt_spot(simulation, fault.from_seconds, fault.to_seconds, fault.times)
        case troubles.StockoutFault():
            kinds = [ActionKind.PROVISION]
            where = _selection(fault.where)
            faults.refuse(simulation, fault.from_seconds, fault.to_seconds, kinds, "out of stock", where)
        case troubles.RefuseFault():
            kinds = [ActionKind(name) for name in fault.actions]
            faults.refuse(simulation, fault.from_seconds, fault.to_seconds, kinds, "try again later")
        case troubles.RestartFault():
            faults.restart_shard(simulation, fault.at_seconds)
        case troubles.PartitionFault():
            faults.partition(simulation, fault.cluster, fault.from_seconds, fault.to_seconds)
        case troubles.EmptyRollupFault():
            faults.empty_rollup(simulation, fault.cluster, fault.at_seconds)


def _selection(where: troubles.Where) -> faults.Selection:
    def selected(machine: Machine) -> bool:
        wanted = (
            (where.zones, machine.zone),
            (where.instance_types, machine.instance_type),
            (where.racks, machine.labels.get(RACK_KEY)),
        )
        return all(not places or place in places for places, place in wanted)

    return selected
