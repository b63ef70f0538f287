"""The node-creator against a real apiserver: what it says about its nodes is never less than it can know."""

import asyncio
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.kube import KubeClient
from bigfleet.kube.resources import NODES, PODS, UPCOMING_NODES
from scaletest.cluster.nodes.drained_pods import BOUND_SECONDS, SETTLED_SECONDS
from scaletest.cluster.nodes.node_creator import NodeCreator, NodeCreatorOptions
from tests.integration.players.apiserver import NAMESPACE, ApiServer, eventually
from tests.phones import listening

pytestmark = pytest.mark.integration


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


async def announce(kube: KubeClient, name: str, phase: str) -> None:
    upcoming: dict[str, Any] = {
        "apiVersion": UPCOMING_NODES.api_version,
        "kind": "UpcomingNode",
        "metadata": {"name": f"un-{name}"},
        "spec": {"resources": {"cpu": "4"}},
    }
    await kube.create(UPCOMING_NODES, upcoming)
    await say(kube, name, phase)


async def say(kube: KubeClient, name: str, phase: str) -> None:
    """Of a machine that was announced."""
    await kube.patch(UPCOMING_NODES, f"un-{name}", {"status": {"phase": phase}}, subresource="status")


async def add_ready_machine(kube: KubeClient, name: str) -> None:
    """With the Node that a former life of the node-creator made for it."""
    await announce(kube, name, "Ready")
    await kube.create(NODES, {"metadata": {"name": f"fake-{name}"}, "status": READY})


async def test_the_first_word_of_a_new_life_names_all_nodes_that_are_ready(
    kube: KubeClient, apiserver: ApiServer
) -> None:
    for name in ("m-1", "m-2"):
        await add_ready_machine(kube, name)
    registry = CollectorRegistry()

    def outcomes(outcome: str) -> float:
        name = "bigfleet_scaletest_node_creator_upcoming_nodes_observed_total"
        return registry.get_sample_value(name, {"outcome": outcome}) or 0.0

    async with listening() as (provider, address):
        options = NodeCreatorOptions("kwok-cluster-0", apiserver.kubeconfig, "", provider_addr=address)
        creator = NodeCreator(kube, options, registry)
        with apiserver.holding_its_breath():
            task = asyncio.ensure_future(creator.run())
            with pytest.raises(TimeoutError):
                await provider.next(seconds=1)
        try:
            first = await provider.next()
            assert first.full
            assert list(first.ready) == ["m-1", "m-2"]

            async def were_there() -> bool:
                return outcomes("exists") >= 2

            await eventually(were_there)
            assert outcomes("created") == 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_cluster_that_was_promised_nothing_yet_does_not_speak(kube: KubeClient, apiserver: ApiServer) -> None:
    """The provider's patience with the machines that a cluster begins with starts at its first word."""
    async with listening() as (provider, address):
        options = NodeCreatorOptions("kwok-cluster-0", apiserver.kubeconfig, "", provider_addr=address)
        creator = NodeCreator(kube, options, CollectorRegistry())
        task = asyncio.ensure_future(creator.run())
        try:
            await eventually(partial(_is_synced, creator))
            with pytest.raises(TimeoutError):
                await provider.next(seconds=1)
            await add_ready_machine(kube, "m-3")
            assert (await provider.next()).full
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_is_announced_is_held_against_the_machines_that_are_there(
    kube: KubeClient, apiserver: ApiServer
) -> None:
    registry = CollectorRegistry()

    def figure(name: str) -> float:
        return registry.get_sample_value(f"bigfleet_scaletest_node_creator_{name}") or 0.0

    async def is_there(name: str) -> bool:
        nodes, _ = await kube.list(NODES)
        return any(node["metadata"]["name"] == f"fake-{name}" for node in nodes)

    async def are_outlived(count: int) -> bool:
        return figure("outlived_machines") == count

    async with listening() as (provider, address):
        for name in ("honest", "early"):
            provider.give(name, binding="b", allocatable={"cpu": "4"})
        options = NodeCreatorOptions("kwok-cluster-0", apiserver.kubeconfig, "", provider_addr=address)
        task = asyncio.ensure_future(NodeCreator(kube, options, registry).run())
        try:
            for name in ("honest", "early"):
                await announce(kube, name, "Registered")
                await eventually(partial(is_there, name))
            await kube.patch(NODES, "fake-honest", {"status": READY}, subresource="status")
            while "honest" not in (await provider.next()).ready:
                pass
            await say(kube, "honest", "Ready")
            await say(kube, "early", "Ready")

            async def was_early() -> bool:
                return figure("ready_before_node_total") == 1

            await eventually(was_early)
            assert figure("outlived_machines") == 0
            provider.take_back("honest")
            await eventually(partial(are_outlived, 1))
            assert figure("outlived_machines_oldest_seconds") > 0
            await say(kube, "honest", "Failed")
            await eventually(partial(are_outlived, 0))
            assert figure("ready_before_node_total") == 1
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_drain_is_held_to_what_became_of_its_pods(kube: KubeClient, apiserver: ApiServer) -> None:
    registry, now = CollectorRegistry(), 0.0

    def figure(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"bigfleet_scaletest_node_creator_{name}", labels) or 0.0

    async def is_there(name: str, there: bool = True) -> bool:
        nodes, _ = await kube.list(NODES)
        return any(node["metadata"]["name"] == f"fake-{name}" for node in nodes) is there

    async with listening() as (provider, address):
        for name in ("drained", "lost"):
            provider.give(name, binding="b", allocatable={"cpu": "4"})
        options = NodeCreatorOptions("kwok-cluster-0", apiserver.kubeconfig, "", provider_addr=address)
        task = asyncio.ensure_future(NodeCreator(kube, options, registry, clock=lambda: now).run())
        try:
            for name in ("drained", "lost"):
                await announce(kube, name, "Registered")
                await eventually(partial(is_there, name))
            await run_pod(kube, "of-lost", "fake-lost")
            for name in ("evicted", "deleted", "left-behind"):
                await run_pod(kube, name, "fake-drained")
            await kube.patch(NODES, "fake-drained", {"spec": {"unschedulable": True}})

            async def all_are_known() -> bool:
                return figure("bound_pods") == 4

            await eventually(all_are_known)
            now += BOUND_SECONDS
            await kube.evict("evicted", NAMESPACE)
            await kube.delete(PODS, "deleted", NAMESPACE, grace_seconds=0)

            async def two_have_left() -> bool:
                return figure("bound_pods") == 2

            await eventually(two_have_left)
            assert figure("cordoned_pods_total", how="evicted") == 1
            assert figure("cordoned_pods_total", how="deleted") == 1
            provider.take_back("lost")
            await eventually(partial(is_there, "lost", False))
            await say(kube, "drained", "Drained")
            provider.take_back("drained", drained=True)
            await eventually(partial(is_there, "drained", False))

            async def is_judged() -> bool:
                nonlocal now
                now += SETTLED_SECONDS
                return figure("drained_nodes_total") == 1

            await eventually(is_judged)
            assert figure("pods_cut_off_total") == 1
            # Its record is still there, whatever it says; so is that of the machine that was lost.
            assert figure("kept_records") == 2
            await kube.delete(UPCOMING_NODES, "un-drained")

            async def one_is_kept() -> bool:
                return figure("kept_records") == 1

            await eventually(one_is_kept)
            assert figure("kept_records_oldest_seconds") > 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_upcoming_node_that_refers_to_another_node_is_counted(kube: KubeClient, apiserver: ApiServer) -> None:
    registry = CollectorRegistry()

    async def misnamed() -> bool:
        return registry.get_sample_value("bigfleet_scaletest_node_creator_misnamed_nodes_total") == 1

    task = asyncio.ensure_future(
        NodeCreator(kube, NodeCreatorOptions("kwok-cluster-0", apiserver.kubeconfig, ""), registry).run()
    )
    try:
        for machine, node in (("m-1", "fake-m-1"), ("m-2", "m-2")):
            await announce(kube, machine, "Registered")
            reference = {"apiVersion": "v1", "kind": "Node", "name": node}
            await kube.patch(UPCOMING_NODES, f"un-{machine}", {"status": {"nodeRef": reference}}, subresource="status")
        await say(kube, "m-2", "Ready")
        await eventually(misnamed)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run_pod(kube: KubeClient, name: str, node: str) -> None:
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none"}]}
    await kube.create(PODS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
    await kube.patch(PODS, name, {"status": {"phase": "Running"}}, NAMESPACE, "status")


async def _is_synced(creator: NodeCreator) -> bool:
    return creator.synced
