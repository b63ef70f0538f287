"""Reclaims carried out by the operator on a real kube-apiserver."""

from contextlib import AbstractAsyncContextManager

import pytest

from bigfleet.api.v1alpha1.shard_pb2 import ReclaimInstruction
from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import NODES, PODS
from tests.integration.bigfleet.operator.operator_world import World, operator, until_gone, until_phase
from tests.integration.players.admission import refusals, refusing
from tests.integration.players.apiserver import DISRUPTION_BUDGETS, NAMESPACE, ApiServer, eventually
from tests.integration.players.scripted_shard import ShardSide, serving

pytestmark = pytest.mark.integration


async def node_with_pods(kube: KubeClient, *names: str, owner: str = "ReplicaSet") -> None:
    await kube.create(NODES, {"metadata": {"name": "fake-m1"}})
    for name in names:
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "1", "controller": True}
        body = {
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [reference]},
            "spec": {
                "nodeName": "fake-m1",
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "none"}],
            },
        }
        await kube.create(PODS, body, NAMESPACE)
        await kube.patch(PODS, name, {"status": {"phase": "Running"}}, NAMESPACE, "status")


def nodes_stay_as_they_are(kube: KubeClient) -> AbstractAsyncContextManager[None]:
    return refusing(
        kube, NODES, "UPDATE", lambda: kube.patch(NODES, "fake-m1", {"metadata": {"labels": {"touched": "yes"}}})
    )


async def until_cordoned(kube: KubeClient, wanted: bool) -> None:
    async def attempt() -> bool:
        node = await kube.get(NODES, "fake-m1")
        return bool(node["spec"].get("unschedulable", False) is wanted)

    assert await eventually(attempt)


async def refused_evictions(kube: KubeClient) -> float:
    """How many evictions the apiserver has answered with 429."""
    lines = (await kube.raw("GET", "/metrics")).decode().splitlines()
    return sum(
        float(line.split()[-1])
        for line in lines
        if line.startswith("apiserver_request_total") and 'code="429"' in line and 'subresource="eviction"' in line
    )


async def test_a_reclaimed_node_is_cordoned_emptied_and_reported(world: World, side: ShardSide) -> None:
    await node_with_pods(world.kube, "a", "b")
    side.tell("m1", "CONFIGURED")
    await until_phase(world.kube, "m1", "Ready")
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["m1"], grace_period_seconds=30))
    ack = await side.receive("reclaim_ack")
    assert (ack.instruction_id, ack.nodes_started) == ("i1", 1)
    report = await side.receive("drain_report")
    assert (report.instruction_id, report.error) == ("i1", "")
    assert (await world.kube.list(PODS, NAMESPACE))[0] == []
    assert (await world.kube.get(NODES, "fake-m1"))["spec"]["unschedulable"] is True
    await until_phase(world.kube, "m1", "Drained")
    assert await world.metric("bigfleet_operator_drains_total") == 1
    side.tell("m1", "IDLE")
    await until_gone(world.kube, "m1")


async def test_a_node_that_was_never_announced_is_drained_and_not_counted(world: World, side: ShardSide) -> None:
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["m9"], grace_period_seconds=30))
    assert (await side.receive("drain_report")).error == ""
    assert await world.metric("bigfleet_operator_drains_total") == 0


async def test_a_drain_waits_for_the_budget_and_leaves_daemons_alone(world: World, side: ShardSide) -> None:
    await node_with_pods(world.kube, "guarded")
    daemon: Object = await world.kube.get(PODS, "guarded", NAMESPACE)
    daemon["metadata"] = {
        "name": "daemon",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "2", "controller": True}
        ],
    }
    await world.kube.create(PODS, daemon, NAMESPACE)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await world.kube.create(DISRUPTION_BUDGETS, budget, NAMESPACE)
    before = await refused_evictions(world.kube)
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["fake-m1"], grace_period_seconds=30))
    await side.receive("reclaim_ack")

    async def refused() -> bool:
        return await refused_evictions(world.kube) > before

    assert await eventually(refused)
    assert await world.kube.get(PODS, "guarded", NAMESPACE)
    await world.kube.delete(DISRUPTION_BUDGETS, "guard", NAMESPACE)
    assert (await side.receive("drain_report")).error == ""
    left, _ = await world.kube.list(PODS, NAMESPACE)
    assert [item["metadata"]["name"] for item in left] == ["daemon"]


async def test_a_drain_that_outlasts_its_grace_says_so(world: World, side: ShardSide) -> None:
    await node_with_pods(world.kube, "stuck")
    finalizers = {"metadata": {"finalizers": ["test/never"]}}
    await world.kube.patch(PODS, "stuck", finalizers, NAMESPACE)
    side.tell("m1", "CONFIGURED")
    await until_phase(world.kube, "m1", "Ready")
    try:
        side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["m1"], grace_period_seconds=1))
        report = await side.receive("drain_report")
        assert report.error == "the grace is over and 1 pods are still on fake-m1"

        async def shown() -> bool:
            record = await until_phase(world.kube, "m1", "Draining")
            return bool(record["status"].get("lastError") == report.error)

        assert await eventually(shown)
    finally:
        await world.kube.patch(PODS, "stuck", {"metadata": {"finalizers": None}}, NAMESPACE)


async def test_a_drain_ends_with_its_grace_although_the_apiserver_says_nothing(
    world: World, side: ShardSide, apiserver: ApiServer
) -> None:
    await node_with_pods(world.kube, "web")
    with apiserver.holding_its_breath():
        side.send(
            reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["fake-m1"], grace_period_seconds=2)
        )
        report = await side.receive("drain_report")
    assert report.error == "the grace is over and fake-m1 could not be cordoned"


async def test_nobody_is_evicted_before_the_cordon_holds(world: World, side: ShardSide) -> None:
    await node_with_pods(world.kube, "web")
    async with nodes_stay_as_they_are(world.kube):
        before = await refusals(world.kube)
        side.send(
            reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["fake-m1"], grace_period_seconds=30)
        )

        async def refused() -> bool:
            return await refusals(world.kube) > before

        assert await eventually(refused)
        assert await world.kube.get(PODS, "web", NAMESPACE), "or it might come back here"
    assert (await side.receive("drain_report")).error == ""
    await until_cordoned(world.kube, True)


async def test_a_machine_that_stays_after_all_takes_pods_again(world: World, side: ShardSide) -> None:
    await drained_node_whose_machine_stays(world.kube, side)
    side.tell("m1", "CONFIGURED")
    await until_cordoned(world.kube, False)
    await until_phase(world.kube, "m1", "Ready")


async def test_a_node_that_cannot_be_opened_yet_is_opened_later(world: World, side: ShardSide) -> None:
    await drained_node_whose_machine_stays(world.kube, side)
    async with nodes_stay_as_they_are(world.kube):
        before = await refusals(world.kube)
        side.tell("m1", "CONFIGURED")

        async def refused() -> bool:
            return await refusals(world.kube) > before

        assert await eventually(refused)
        await until_phase(world.kube, "m1", "Drained")  # a node that takes no Pods is not Ready
    await until_cordoned(world.kube, False)
    await until_phase(world.kube, "m1", "Ready")


async def test_a_node_that_one_operator_could_not_open_is_opened_by_the_next(
    apiserver: ApiServer, kube: KubeClient
) -> None:
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        await drained_node_whose_machine_stays(kube, await world.shard.session())
    async with (
        nodes_stay_as_they_are(kube),
        operator(apiserver, kube) as world,
        serving(world.shard, world.shard_addr),
    ):
        before = await refusals(kube)
        (await world.shard.session()).tell("m1", "CONFIGURED")

        async def refused() -> bool:
            return await refusals(kube) > before

        assert await eventually(refused)
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        (await world.shard.session()).tell("m1", "CONFIGURED")
        await until_cordoned(kube, False)


async def drained_node_whose_machine_stays(kube: KubeClient, side: ShardSide) -> None:
    await node_with_pods(kube)
    for state, phase in (("CONFIGURED", "Ready"), ("DRAINING", "Draining")):
        side.tell("m1", state)
        await until_phase(kube, "m1", phase)
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["m1"], grace_period_seconds=30))
    await side.receive("drain_report")
    await until_phase(kube, "m1", "Drained")
    await until_cordoned(kube, True)
