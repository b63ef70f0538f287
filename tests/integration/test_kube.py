"""bigfleet.kube against a real kube-apiserver."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.kube import (
    AlreadyExists,
    Conflict,
    Gone,
    Informer,
    KubeClient,
    KubeError,
    NotFound,
    Object,
    TooManyRequests,
    Unreachable,
)
from bigfleet.kube.resources import CAPACITY_REQUESTS, CONFIG_MAPS, NODES, PODS, UPCOMING_NODES
from tests.integration.apiserver import DISRUPTION_BUDGETS, NAMESPACE, ApiServer

pytestmark = pytest.mark.integration


def config_map(name: str, value: str = "", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


@pytest.fixture
async def client(kube: KubeClient) -> AsyncIterator[KubeClient]:
    await kube.raw("DELETE", CONFIG_MAPS.path(NAMESPACE), params={"labelSelector": "test"})
    yield kube


class Journal:
    """What an informer's handler was told, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._news = asyncio.Condition()
        self._pending: set[asyncio.Task[None]] = set()

    def on_change(self, old: Object | None, new: Object | None) -> None:
        item = new or old or {}
        sign = "+" if old is None else "-" if new is None else "~"
        self.entries.append(f"{sign}{item['metadata']['name']}")
        task = asyncio.ensure_future(self._tell())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: condition(self.entries))
        return self.entries


@asynccontextmanager
async def informer(client: KubeClient, journal: Journal, **scope: Any) -> AsyncIterator[Informer]:
    following = Informer(client, CONFIG_MAPS, namespace=NAMESPACE, labels="test", on_change=journal.on_change, **scope)
    task = asyncio.create_task(following.run())
    try:
        await asyncio.wait_for(following.synced.wait(), 20)
        yield following
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_an_object_is_created_read_patched_replaced_and_deleted(client: KubeClient) -> None:
    created = await client.create(CONFIG_MAPS, config_map("one", "a", test="crud"), NAMESPACE)
    assert created["metadata"]["uid"]

    patched = await client.patch(CONFIG_MAPS, "one", {"data": {"more": "b"}}, NAMESPACE)
    assert patched["data"] == {"value": "a", "more": "b"}

    replaced = await client.replace(CONFIG_MAPS, "one", patched | {"data": {"value": "c"}}, NAMESPACE)
    assert (await client.get(CONFIG_MAPS, "one", NAMESPACE))["data"] == {"value": "c"} == replaced["data"]

    await client.delete(CONFIG_MAPS, "one", NAMESPACE)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "one", NAMESPACE)


async def test_errors_are_told_apart(client: KubeClient) -> None:
    stale = await client.create(CONFIG_MAPS, config_map("one", test="errors"), NAMESPACE)
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("one"), NAMESPACE)
    await client.patch(CONFIG_MAPS, "one", {"data": {"value": "newer"}}, NAMESPACE)
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, "one", stale, NAMESPACE)
    with pytest.raises(KubeError, match="Invalid value") as invalid:
        await client.create(CONFIG_MAPS, config_map("Not A Name"), NAMESPACE)
    assert invalid.value.status == 422


async def test_no_answer_is_a_kube_error_too(apiserver: ApiServer) -> None:
    async with KubeClient(replace(apiserver.config, server="https://127.0.0.1:1")) as nobody:
        with pytest.raises(Unreachable):
            await nobody.get(NODES, "one")
        assert not await nobody.ready(0.2)


async def test_the_server_must_prove_the_name_that_the_config_asks_for(apiserver: ApiServer) -> None:
    config = apiserver.config
    async with KubeClient(replace(config, tls_server_name="kubernetes.default.svc")) as right:
        assert await right.ready(5)
    async with KubeClient(replace(config, tls_server_name="elsewhere.example")) as wrong:
        with pytest.raises(Unreachable, match=r"elsewhere\.example"):
            await wrong.raw("GET", "/readyz")


async def test_a_wrong_token_is_refused(apiserver: ApiServer) -> None:
    async with KubeClient(replace(apiserver.config, token="wrong")) as stranger:
        with pytest.raises(KubeError) as refused:
            await stranger.get(NODES, "one")
    assert refused.value.status == 401


async def test_a_list_is_read_in_pages_and_from_the_cache_alike(client: KubeClient) -> None:
    for index in range(7):
        await client.create(CONFIG_MAPS, config_map(f"item-{index}", test="pages"), NAMESPACE)
    paged, version = await client.list(CONFIG_MAPS, NAMESPACE, labels="test=pages", page=3)
    cached, _ = await client.list(CONFIG_MAPS, NAMESPACE, labels="test=pages", from_cache=True)
    names = [item["metadata"]["name"] for item in paged]
    assert names == [f"item-{index}" for index in range(7)]
    assert sorted(item["metadata"]["name"] for item in cached) == names
    assert version.isdecimal()


async def test_server_side_apply_creates_then_owns(client: KubeClient) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "labels": {"test": "apply"}}}
    for value in ("a", "b"):
        answer = await client.patch(
            CONFIG_MAPS, "applied", body | {"data": {"value": value}}, NAMESPACE, kind="apply", field_manager="tester"
        )
        assert answer["data"] == {"value": value}


async def test_our_crds_keep_status_apart_and_refuse_unknown_phases(client: KubeClient) -> None:
    record = {
        "apiVersion": UPCOMING_NODES.api_version,
        "kind": "UpcomingNode",
        "metadata": {"name": "un-one"},
        "spec": {"resources": {"cpu": "4"}},
        "status": {"phase": "Ready"},
    }
    created = await client.create(UPCOMING_NODES, record)
    assert "status" not in created, "a create must not set the status"
    patched = await client.patch(UPCOMING_NODES, "un-one", {"status": {"phase": "Ready"}}, subresource="status")
    assert patched["status"] == {"phase": "Ready"}
    with pytest.raises(KubeError, match="Unsupported value"):
        await client.patch(UPCOMING_NODES, "un-one", {"status": {"phase": "Sleepy"}}, subresource="status")


async def test_requests_are_selected_by_phase(client: KubeClient) -> None:
    for name in ("waiting", "done"):
        body = {
            "apiVersion": CAPACITY_REQUESTS.api_version,
            "kind": "CapacityRequest",
            "metadata": {"name": name},
            "spec": {"priority": 0, "resources": {"cpu": 1}},
        }
        await client.create(CAPACITY_REQUESTS, body, NAMESPACE)
    await client.patch(CAPACITY_REQUESTS, "done", {"status": {"phase": "Acknowledged"}}, NAMESPACE, "status")
    found, _ = await client.list(CAPACITY_REQUESTS, fields="status.phase=Acknowledged")
    assert [item["metadata"]["name"] for item in found] == ["done"]


async def test_an_eviction_waits_for_the_budget(client: KubeClient) -> None:
    pod = {
        "metadata": {"name": "guarded", "labels": {"app": "guarded"}},
        "spec": {
            "nodeName": "somewhere",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await client.create(PODS, pod, NAMESPACE)
    await client.patch(PODS, "guarded", {"status": {"phase": "Running"}}, NAMESPACE, "status")
    await client.create(DISRUPTION_BUDGETS, budget, NAMESPACE)
    with pytest.raises(TooManyRequests):
        await client.evict("guarded", NAMESPACE)
    await client.delete(DISRUPTION_BUDGETS, "guard", NAMESPACE)
    await client.evict("guarded", NAMESPACE)
    with pytest.raises(NotFound):
        await client.get(PODS, "guarded", NAMESPACE)


async def test_a_watch_from_a_forgotten_version_is_gone(client: KubeClient) -> None:
    with pytest.raises(Gone):
        async for _ in client.watch(CAPACITY_REQUESTS, version="1"):
            pass


async def test_an_informer_lists_then_follows(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, config_map("early", test="follow"), NAMESPACE)
    journal = Journal()
    async with informer(client, journal) as following:
        await client.create(CONFIG_MAPS, config_map("late", test="follow"), NAMESPACE)
        await client.patch(CONFIG_MAPS, "late", {"data": {"value": "b"}}, NAMESPACE)
        await client.delete(CONFIG_MAPS, "early", NAMESPACE)
        assert await journal.until(lambda told: "-early" in told) == ["+early", "+late", "~late", "-early"]
        assert [item["data"]["value"] for item in following] == ["b"]
        assert following.get(f"{NAMESPACE}/late") is not None


async def test_an_informer_keeps_what_trim_leaves(client: KubeClient) -> None:
    await client.create(CONFIG_MAPS, config_map("one", "kept", test="trim"), NAMESPACE)
    journal = Journal()
    trimmed: Callable[[Object], Object] = lambda item: {"metadata": {"name": item["metadata"]["name"]}}  # noqa: E731
    async with informer(client, journal, trim=trimmed) as following:
        assert list(following) == [{"metadata": {"name": "one"}}]


async def test_an_informer_survives_a_crash_of_the_apiserver(client: KubeClient, apiserver: ApiServer) -> None:
    for name in ("stays", "leaves"):
        await client.create(CONFIG_MAPS, config_map(name, test="crash"), NAMESPACE)
    journal = Journal()
    async with informer(client, journal) as following:
        await asyncio.to_thread(apiserver.stop_apiserver)
        apiserver.launch_apiserver()
        await asyncio.to_thread(apiserver.await_ready)
        await client.delete(CONFIG_MAPS, "leaves", NAMESPACE)
        await client.create(CONFIG_MAPS, config_map("comes", test="crash"), NAMESPACE)
        told = await journal.until(lambda told: "+comes" in told and "-leaves" in told)
        assert sorted(told) == ["+comes", "+leaves", "+stays", "-leaves"], "what did not change is not told again"
        assert sorted(item["metadata"]["name"] for item in following) == ["comes", "stays"]
