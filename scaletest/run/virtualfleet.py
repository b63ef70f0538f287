"""The fleet of a plan in virtual time: the same seeds, the same draw and the same requests as a run, no Kubernetes."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.core.vectors import parse_vector
from bigfleet.engine import ActionKind
from bigfleet.operator.rollup import contribution_of
from bigfleet.podcontroller.request import translate
from bigfleet.provider.latency import Latencies, Latency
from bigfleet.shard.convert import assignment_from_metadata
from bigfleet.sim import faults, workloads
from bigfleet.sim.cluster import Cluster, ClusterModel
from bigfleet.sim.pods import PodClass
from bigfleet.sim.provider import ProviderModel
from bigfleet.sim.simulation import Model, Simulation
from bigfleet.sim.timeline import Rank
from scaletest.cluster.fleet import render_fleet
from scaletest.cluster.manifests import manifest_of
from scaletest.model.draw import Workload, cluster_id, draw_clusters, ordinal_of, takes_part
from scaletest.model.plan import Plan
from scaletest.model.profile import Burst

# From Configure to the node's word that it is Ready, as runs of `smoke` on the embedded host showed it.
_CONFIGURE = Latency(0.8, 2.5)
# A ReplicaSet replaces a Pod this soon; the Pods of a lost node are given up by the Pod garbage collector.
_RECREATE_SECONDS = 0.02
_LOST_POD_SECONDS = 47.3

_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}


def virtual_fleet(plan: Plan, seconds: float) -> Simulation:
    """The fleet as it is when the demand exists and the operators connect: nothing has been decided yet."""
    load = plan.load_profile
    latencies = Latencies()
    model = Model(
        seed=plan.seed,
        provider=ProviderModel(
            latencies={
                ActionKind.PROVISION: latencies.create,
                ActionKind.BOOTSTRAP: _CONFIGURE,
                ActionKind.PREEMPT: latencies.drain,
                ActionKind.RECLAIM: latencies.drain,
                ActionKind.DELETE: latencies.delete,
            }
        ),
        cluster=ClusterModel(recreate_seconds=_RECREATE_SECONDS, lost_pod_seconds=_LOST_POD_SECONDS),
    )
    ordinals = range(plan.geometry.kwok_clusters)
    names = [cluster_id(ordinal) for ordinal in ordinals]
    simulation = Simulation(model, seeded_machines(render_fleet(load, plan.seeding)), names, seconds)
    target = round(load.target * max(1.0, load.open_loop_demand_multiplier))
    for draw in draw_clusters(load.archetypes, target, load.seed, ordinals):
        cluster = simulation.clusters[cluster_id(draw.ordinal)]
        for workload in draw.workloads():
            cluster.create(workload.name, pods_of(workload), workload.replicas)
    return simulation


def seeded_machines(document: Mapping[str, Any]) -> Iterator[Machine]:
    """The machines of a seed file."""
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


def pods_of(workload: Workload) -> PodClass:
    """What each Pod asks for, by the way that a real Pod takes: manifest, CapacityRequest, roll-up."""
    template = manifest_of(workload)["spec"]["template"]
    contribution = contribution_of(translate(template, {}).spec)
    return PodClass(contribution.profile, dict(contribution.amounts), contribution.group, kind=workload.archetype.name)


def start_soak(simulation: Simulation, plan: Plan) -> None:
    """Everything that the soak brings, counted from now: churn, ageing, losses, bursts, steps, shards that die."""
    load, start = plan.load_profile, simulation.timeline.now
    levels = [(step.at_seconds, step.target_multiplier) for step in load.scale_downs]
    levels += [(step.at_seconds, step.target_multiplier) for step in load.demand_steps]
    for name, cluster in simulation.clusters.items():
        if load.churn_per_minute:
            workloads.churn(simulation, cluster, load.churn_per_minute, start=start)
        for archetype in load.archetypes:
            if archetype.mean_lifetime_seconds > 0:
                per_minute = 60 / archetype.mean_lifetime_seconds
                workloads.churn(simulation, cluster, per_minute, f"{name}-{archetype.name}-", start)
        for at_seconds, level in levels:
            _set_level(simulation, cluster, start + at_seconds, level)
        for burst in load.bursts:
            if takes_part(burst, ordinal_of(name)):
                _burst(simulation, cluster, start, burst, plan)
    faults.lose_steadily(simulation, start, start + plan.soak_seconds, plan.profile.shard.failure_rate_per_sec)
    for action in plan.profile.runner_actions:
        if action.action.startswith("kill-shard"):
            faults.restart_shard(simulation, start + action.at_seconds)


def _set_level(simulation: Simulation, cluster: Cluster, when: float, level: float) -> None:
    """Every workload at a share of its replicas; gangs stay whole, a share of them stays."""
    original = {name: controller.replicas for name, controller in cluster.controllers.items()}
    gangs = [name for name, controller in cluster.controllers.items() if controller.pod.group]
    kept = set(gangs[: round(len(gangs) * min(1.0, level))])

    def change() -> None:
        for name, replicas in original.items():
            if cluster.controllers[name].pod.group:
                cluster.scale(name, replicas if name in kept else 0)
            else:
                cluster.scale(name, round(replicas * level))
        cluster.bind()

    simulation.timeline.at(when, Rank.WORKLOAD, change)


def _burst(simulation: Simulation, cluster: Cluster, start: float, burst: Burst, plan: Plan) -> None:
    archetype = plan.catalog[burst.archetype]
    drawn = random.Random(f"burst/{plan.seed}/{cluster.name}/{burst.at_seconds:g}")
    number = burst.extra_target if archetype.gang else 1
    names = [f"{cluster.name}-{archetype.name}-burst-{burst.at_seconds:g}-{index}" for index in range(number)]

    def begin() -> None:
        for name in names:
            replicas = drawn.randint(*archetype.gang.group_size_range) if archetype.gang else burst.extra_target
            workload = Workload(
                name=name,
                archetype=archetype,
                replicas=replicas,
                size=drawn.choices(archetype.pod_sizes, [size.weight for size in archetype.pod_sizes])[0],
                priority=drawn.choice(archetype.priority_classes),
                has_spread=drawn.random() < (archetype.spread.probability if archetype.spread else 0.0),
                group=name if archetype.gang else "",
                axes=tuple(drawn.randrange(axis.count) for axis in archetype.label_axes),
            )
            cluster.create(name, pods_of(workload), replicas)
        cluster.bind()

    def end() -> None:
        for name in names:
            cluster.delete(name)

    simulation.timeline.at(start + burst.at_seconds, Rank.WORKLOAD, begin)
    if burst.duration_seconds:
        simulation.timeline.at(start + burst.at_seconds + burst.duration_seconds, Rank.WORKLOAD, end)
