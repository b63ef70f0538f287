"""The pod-controller against a real kube-apiserver: one CapacityRequest per living Pod."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from bigfleet.kube import KubeClient, KubeError, Object
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, PODS
from bigfleet.podcontroller import PodControllerOptions, serve
from tests.integration.players.admission import refusals, refusing
from tests.integration.players.apiserver import NAMESPACE, ApiServer, eventually, free_ports

pytestmark = pytest.mark.integration


def pod(name: str, **spec: Any) -> Object:
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]
    return {
        "metadata": {"name": name, "annotations": {"bigfleet.lucy.sh/interruption-penalty": "8"}},
        "spec": {"containers": containers, "terminationGracePeriodSeconds": 0} | spec,
    }


@asynccontextmanager
async def controller(apiserver: ApiServer) -> AsyncIterator[str]:
    """A running pod-controller; yields its metrics address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    task = asyncio.create_task(serve(PodControllerOptions(kubeconfig=apiserver.kubeconfig, metrics_addr=address)))
    try:
        yield address
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def requests(kube: KubeClient) -> dict[str, Object]:
    """CapacityRequests by the name of their Pod."""
    items, _ = await kube.list(CAPACITY_REQUESTS, NAMESPACE)
    return {item["metadata"]["ownerReferences"][0]["name"]: item for item in items}


async def until_requests_are(kube: KubeClient, *pods: str) -> dict[str, Object]:
    async def attempt() -> dict[str, Object]:
        found = await requests(kube)
        assert found.keys() == set(pods)
        return found

    return await eventually(attempt)


async def outcomes(address: str) -> dict[str, float]:
    async with aiohttp.ClientSession() as http, http.get(f"http://{address}/metrics") as response:
        lines = (await response.text()).splitlines()
    prefix = "bigfleet_unschedulable_pod_controller_reconciles_total{outcome="
    return {
        line.removeprefix(prefix).split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(prefix)
    }


async def test_a_pod_has_a_request_from_its_creation_to_its_end(apiserver: ApiServer, kube: KubeClient) -> None:
    async with controller(apiserver) as address:
        created = await kube.create(PODS, pod("web", priority=100), NAMESPACE)
        request = (await until_requests_are(kube, "web"))["web"]
        uid = created["metadata"]["uid"]
        assert request["metadata"]["name"] == f"cr-pod-web-{uid[:8]}"
        assert request["metadata"]["labels"] == {"bigfleet.lucy.sh/owned-by-pod": uid}
        assert request["spec"] == {
            "priority": 100,
            "resources": {"cpu": "250m", "memory": str(64 * 1024**2)},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}],
            "interruptionPenalty": "8",
        }

        await kube.patch(PODS, "web", {"metadata": {"labels": {"touched": "yes"}}}, NAMESPACE)
        await kube.delete(PODS, "web", NAMESPACE, grace_seconds=0)
        await until_requests_are(kube)
        seen = await outcomes(address)
        assert seen["cr_created"] == 1
        assert seen["error"] == 0
        assert set(seen) == {"cr_created", "cr_exists", "cr_updated", "pod_gone", "pod_terminal", "error"}


async def test_bound_pods_have_requests_and_finished_ones_lose_theirs(apiserver: ApiServer, kube: KubeClient) -> None:
    await kube.create(PODS, pod("bound", nodeName="somewhere"), NAMESPACE)
    await kube.create(PODS, pod("finished"), NAMESPACE)
    async with controller(apiserver):
        await until_requests_are(kube, "bound", "finished")
        await kube.patch(PODS, "finished", {"status": {"phase": "Succeeded"}}, NAMESPACE, "status")
        await until_requests_are(kube, "bound")


async def test_a_pod_that_is_being_deleted_asks_for_nothing(apiserver: ApiServer, kube: KubeClient) -> None:
    """Although it is still there for a while, as on a lost node (ADR-7)."""
    await kube.create(PODS, pod("lingers"), NAMESPACE)
    await kube.patch(PODS, "lingers", {"metadata": {"finalizers": ["tests.bigfleet/linger"]}}, NAMESPACE)
    async with controller(apiserver):
        await until_requests_are(kube, "lingers")
        await kube.delete(PODS, "lingers", NAMESPACE)
        await until_requests_are(kube)
        assert "deletionTimestamp" in (await kube.get(PODS, "lingers", NAMESPACE))["metadata"]
    await kube.patch(PODS, "lingers", {"metadata": {"finalizers": None}}, NAMESPACE)


async def test_requests_follow_what_happened_while_nobody_watched(apiserver: ApiServer, kube: KubeClient) -> None:
    for name in ("leaves", "comes-back", "stays"):
        await kube.create(PODS, pod(name), NAMESPACE)
    async with controller(apiserver):
        before = await until_requests_are(kube, "leaves", "comes-back", "stays")
    for name in ("leaves", "comes-back"):
        await kube.delete(PODS, name, NAMESPACE, grace_seconds=0)
    await kube.create(PODS, pod("comes-back"), NAMESPACE)
    await kube.create(PODS, pod("new"), NAMESPACE)
    async with controller(apiserver):
        after = await until_requests_are(kube, "comes-back", "stays", "new")

        async def replaced() -> bool:
            now = (await requests(kube))["comes-back"]["metadata"]["name"]
            return bool(now != before["comes-back"]["metadata"]["name"])

        assert await eventually(replaced)
        assert after["stays"]["metadata"]["uid"] == before["stays"]["metadata"]["uid"]


async def test_a_request_that_somebody_took_or_changed_comes_back(apiserver: ApiServer, kube: KubeClient) -> None:
    await kube.create(PODS, pod("web"), NAMESPACE)
    async with controller(apiserver):
        first = (await until_requests_are(kube, "web"))["web"]["metadata"]
        await kube.delete(CAPACITY_REQUESTS, first["name"], NAMESPACE)

        async def back() -> Object:
            request = (await until_requests_are(kube, "web"))["web"]
            assert request["metadata"]["uid"] != first["uid"]
            return request

        again = await eventually(back)
        meddled = {"spec": {"priority": 9, "resources": {"gpu": "1"}, "coLocation": {"topologyKey": "rack"}}}
        await kube.patch(CAPACITY_REQUESTS, first["name"], meddled, NAMESPACE)

        async def corrected() -> bool:
            return bool((await requests(kube))["web"]["spec"] == again["spec"])

        assert await eventually(corrected)


async def test_a_penalty_that_changes_changes_the_request(apiserver: ApiServer, kube: KubeClient) -> None:
    await kube.create(PODS, pod("web"), NAMESPACE)
    async with controller(apiserver):
        await until_requests_are(kube, "web")
        penalties = {"bigfleet.lucy.sh/interruption-penalty": None, "bigfleet.lucy.sh/reclamation-penalty": "2"}
        await kube.patch(PODS, "web", {"metadata": {"annotations": penalties}}, NAMESPACE)

        async def changed() -> bool:
            spec = (await requests(kube))["web"]["spec"]
            return "interruptionPenalty" not in spec and spec.get("reclamationPenalty") == "2"

        assert await eventually(changed)


def picky_pod() -> Object:
    term = {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]}
    return pod(
        "picky",
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, term]}}
        },
    )


async def until_told(kube: KubeClient) -> Object:
    """The one Event about what a request does not say."""

    async def attempt() -> Object:
        items, _ = await kube.list(EVENTS, NAMESPACE, fields="reason=CapacityRequestIncomplete")
        assert len(items) == 1
        only: Object = items[0]
        return only

    return await eventually(attempt)


async def test_what_cannot_be_asked_for_is_told_on_the_pod(apiserver: ApiServer, kube: KubeClient) -> None:
    async with controller(apiserver):
        created = await kube.create(PODS, picky_pod(), NAMESPACE)
        told = await until_told(kube)
        assert told["involvedObject"]["uid"] == created["metadata"]["uid"]
        assert "operator Gt on cpus" in told["message"]
        assert "first of several nodeSelectorTerms" in told["message"]
        await until_requests_are(kube, "picky")


async def test_what_a_former_life_did_not_get_to_tell_is_told_by_the_next(
    apiserver: ApiServer, kube: KubeClient
) -> None:
    await kube.create(PODS, picky_pod(), NAMESPACE)
    async with controller(apiserver):
        await until_told(kube)
    # As after a crash between the request and its Event.
    await kube.raw("DELETE", EVENTS.path(NAMESPACE))
    async with controller(apiserver) as address:
        await until_told(kube)
        assert (await outcomes(address))["cr_created"] == 0


async def test_an_event_that_is_refused_is_tried_again(apiserver: ApiServer, kube: KubeClient) -> None:
    probe = {"metadata": {"generateName": "probe-"}, "involvedObject": {"namespace": NAMESPACE}, "reason": "Probe"}
    async with controller(apiserver) as address:
        async with refusing(kube, EVENTS, "CREATE", lambda: kube.create(EVENTS, probe, NAMESPACE)):
            before = await refusals(kube)
            await kube.create(PODS, picky_pod(), NAMESPACE)

            async def refused() -> bool:
                return await refusals(kube) > before

            assert await eventually(refused)
            await until_requests_are(kube, "picky")
        await until_told(kube)
        assert (await outcomes(address))["cr_created"] == 1


async def test_an_annotation_that_becomes_nonsense_is_told_too(apiserver: ApiServer, kube: KubeClient) -> None:
    await kube.create(PODS, pod("web"), NAMESPACE)
    async with controller(apiserver):
        await until_requests_are(kube, "web")
        nonsense = {"bigfleet.lucy.sh/interruption-penalty": "much"}
        await kube.patch(PODS, "web", {"metadata": {"annotations": nonsense}}, NAMESPACE)

        async def told() -> bool:
            events, _ = await kube.list(EVENTS, NAMESPACE, fields="reason=CapacityRequestIncomplete")
            return ["'much'" in event["message"] for event in events] == [True]

        await eventually(told)
        assert "interruptionPenalty" not in (await requests(kube))["web"]["spec"]


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def bound_to(*expressions: tuple[str, str, list[str]]) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in expressions]}]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


async def test_a_pods_node_affinity_is_asked_for_as_far_as_labels_can_be(
    apiserver: ApiServer, kube: KubeClient
) -> None:
    asked = bound_to(("tier", "In", [""]), ("disk", "DoesNotExist", []), ("cpus", "Gt", ["4"]), ("cpus", "Lt", ["64"]))
    await kube.create(PODS, pod("picky", affinity=asked), NAMESPACE)
    async with controller(apiserver):
        request = (await until_requests_are(kube, "picky"))["picky"]
        assert request["spec"]["requirements"] == [
            {"key": "disk", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "In", "values": [""]},
        ]

        async def told() -> str:
            events, _ = await kube.list(EVENTS, NAMESPACE)
            (message,) = [one["message"] for one in events if one["involvedObject"]["name"] == "picky"]
            return str(message)

        assert await eventually(told) == (
            "operator Gt on cpus cannot be asked for; operator Lt on cpus cannot be asked for"
        )


async def test_a_value_that_no_label_can_have_is_refused_before_it_comes_to_us(kube: KubeClient) -> None:
    """By this Kubernetes; older ones let such a Pod in, and the pod-controller leaves the requirement out."""
    with pytest.raises(KubeError, match="values") as refused:
        await kube.create(PODS, pod("wrong", affinity=bound_to(("tier", "In", ["a b"]))), NAMESPACE)
    assert refused.value.status == 422
