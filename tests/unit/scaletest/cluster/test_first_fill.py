"""The seeded machines of a profile hold its first fill, in whatever order their nodes come."""

from collections.abc import Iterator
from random import Random

import pytest

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from scaletest.cluster.fleet_file import render_fleet
from scaletest.cluster.load.prebind import plan_bindings
from scaletest.cluster.witness.seen import SeenNode, SeenPod
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.model.demand.draw import cluster_id, draw_clusters
from scaletest.run.offline.virtual_fleet import seeded_machines
from tests.unit.plans import shipped_plan

_BATCHES = 12


def node_of(machine: Machine) -> SeenNode:
    labels = {**machine.labels, INSTANCE_TYPE_KEY: machine.instance_type, ZONE_KEY: machine.zone}
    return SeenNode(machine.id, labels, machine.allocatable, ready=True)


def in_batches(nodes: list[SeenNode], seed: int) -> Iterator[list[SeenNode]]:
    """All that are there, again and again; zone after zone with seed 0, else in any order."""
    if seed:
        Random(seed).shuffle(nodes)
    else:
        nodes.sort(key=lambda node: node.labels[ZONE_KEY])
    for number in range(1, _BATCHES + 1):
        yield nodes[: len(nodes) * number // _BATCHES]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("ordinal", [0, 1])
def test_every_pod_of_dev_50_finds_its_place(ordinal: int, seed: int) -> None:
    plan = shipped_plan("dev-50")
    load = plan.load_profile
    (draw,) = draw_clusters(load.archetypes, load.target, load.seed, [ordinal])
    machines = [
        machine
        for machine in seeded_machines(render_fleet(load, plan.seeding))
        if machine.cluster == cluster_id(ordinal) and machine.state is MachineState.CONFIGURED
    ]
    workloads = {workload.name: workload for workload in draw.workloads()}
    classes = {name: pods_of(workload) for name, workload in workloads.items()}
    pods = {
        f"{name}-{number}": SeenPod(f"{name}-{number}", "", name)
        for name, workload in workloads.items()
        for number in range(workload.replicas)
    }

    def bind(nodes: list[SeenNode], complete: bool) -> None:
        for pod, node in plan_bindings(classes, pods.values(), nodes, complete=complete):
            pods[pod].node = node

    for there in in_batches([node_of(machine) for machine in machines], seed):
        bind(there, complete=False)
    bind(there, complete=True)
    assert [name for name, pod in pods.items() if not pod.node] == []
