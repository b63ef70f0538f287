"""The fleet of a plan in virtual time: the same seeds, the same draw and the same requests as a run, no Kubernetes."""

from collections.abc import Iterator, Mapping
from typing import Any

from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.core.vectors import parse_vector
from bigfleet.engine import ActionKind, EngineOptions
from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.shard.convert import assignment_from_metadata
from bigfleet.shard.options import IdleHolds, ShardOptions
from bigfleet.sim.world import faults, workloads
from bigfleet.sim.world.cluster import Cluster, ClusterModel
from bigfleet.sim.world.provider import ProviderModel
from bigfleet.sim.world.simulation import Simulation, WorldModel
from bigfleet.sim.world.timeline import Rank
from scaletest.cluster.fleet_file import render_fleet
from scaletest.cluster.nodes.lost_pods import PAUSE_SECONDS
from scaletest.cluster.nodes.node_creator import NodeCreatorOptions
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import cluster_id, draw_clusters, ordinal_of
from scaletest.model.demand.happenings import Happening, happenings, surplus
from scaletest.model.plan import Plan

# From Configure to the node's word that it is Ready, as runs of `smoke` on the embedded host showed it.
_CONFIGURE = Latency(0.8, 2.5)
# A ReplicaSet replaces a Pod this soon.
_RECREATE_SECONDS = 0.02

_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}


def virtual_fleet(plan: Plan, seconds: float) -> Simulation:
    """The fleet as it is when the demand exists and the operators connect: nothing has been decided yet."""
    load = plan.load_profile
    latencies = Latencies()
    model = WorldModel(
        seed=plan.seed,
        engine=EngineOptions(
            reclaim_after_seconds=ShardOptions.reclaim_after_seconds,
            idle_hold_seconds=IdleHolds(on_demand_seconds=plan.idle_hold_seconds).by_type,
        ),
        provider=ProviderModel(
            latencies={
                ActionKind.PROVISION: latencies.create,
                ActionKind.BOOTSTRAP: _CONFIGURE,
                ActionKind.PREEMPT: latencies.drain,
                ActionKind.RECLAIM: latencies.drain,
                ActionKind.DELETE: latencies.delete,
            }
        ),
        cluster=ClusterModel(
            recreate_seconds=_RECREATE_SECONDS,
            lost_pod_seconds=NodeCreatorOptions.lost_pods_after_seconds,
            lost_pod_pause_seconds=PAUSE_SECONDS,
        ),
    )
    ordinals = range(plan.geometry.kwok_clusters)
    names = [cluster_id(ordinal) for ordinal in ordinals]
    simulation = Simulation(model, seeded_machines(render_fleet(load, plan.seeding)), names, seconds)
    for draw in draw_clusters(load.archetypes, load.target, load.seed, ordinals):
        cluster = simulation.clusters[cluster_id(draw.ordinal)]
        for workload in (*draw.workloads(), *surplus(load, draw.ordinal)):
            cluster.create(workload.name, pods_of(workload), workload.replicas)
    return simulation


def seeded_machines(document: Mapping[str, Any]) -> Iterator[Machine]:
    """The machines of a fleet file."""
    vectors = {name: parse_vector(kind["allocatable"]) for name, kind in document["kinds"].items()}
    for batch in document["machines"]:
        kind, state = document["kinds"][batch["kind"]], MachineState[batch["state"].upper()]
        for number in range(batch["count"]):
            machine_id = f"{batch['idPrefix']}-{batch['kind']}-{number}"
            yield Machine(
                machine_id,
                state,
                instance_type=kind["instanceType"],
                zone=kind["zone"],
                capacity_type=_CAPACITY_TYPES[kind["capacityType"]],
                price_per_hour=kind["pricePerHour"],
                interruption_probability=kind["interruptionProbability"],
                allocatable=vectors[batch["kind"]],
                labels=kind["labels"],
                host="" if state is MachineState.SPECULATIVE else f"host-{machine_id}",
                cluster=batch.get("cluster", ""),
                assignment=assignment_from_metadata(machine_id, batch.get("metadata", {})),
            )


def start_soak(simulation: Simulation, plan: Plan) -> None:
    """Everything that the soak brings, counted from now: churn, ageing, losses, bursts, steps, shards that die."""
    load, start = plan.load_profile, simulation.timeline.now
    for name, cluster in simulation.clusters.items():
        if load.churn_per_minute:
            workloads.churn(simulation, cluster, load.churn_per_minute, start=start)
        for archetype in load.archetypes:
            if archetype.mean_lifetime_seconds > 0:
                per_minute = 60 / archetype.mean_lifetime_seconds
                workloads.churn(simulation, cluster, per_minute, f"{name}-{archetype.name}-", start)
        for happening in happenings(load, ordinal_of(name)):
            _play(simulation, cluster, start, happening)
    faults.lose_steadily(simulation, start, start + plan.soak_seconds, plan.profile.shard.failure_rate_per_sec)
    for action in plan.profile.runner_actions:
        if action.action.startswith("kill-shard"):
            faults.restart_shard(simulation, start + action.at_seconds)


def _play(simulation: Simulation, cluster: Cluster, start: float, happening: Happening) -> None:
    def change() -> None:
        for workload in happening.deleted:
            cluster.delete(workload.name)
        for workload in happening.created:
            cluster.create(workload.name, pods_of(workload), workload.replicas)
        cluster.bind()

    simulation.timeline.at(start + happening.at_seconds, Rank.WORKLOAD, change)
