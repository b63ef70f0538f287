"""bigfleet.kube against a real kube-apiserver."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.kube import (
    AlreadyExists,
    Conflict,
    Gone,
    KubeClient,
    KubeError,
    NotFound,
    Object,
    TooManyRequests,
    Unreachable,
)
from bigfleet.kube.resources import CAPACITY_REQUESTS, CONFIG_MAPS, NODES, PODS, UPCOMING_NODES
from tests.integration.bigfleet.kube.following import Journal, config_map, informer, typed_informer
from tests.integration.players.apiserver import DISRUPTION_BUDGETS, NAMESPACE, ApiServer

pytestmark = pytest.mark.integration


async def test_an_object_is_created_read_patched_replaced_and_deleted(kube: KubeClient) -> None:
    created = await kube.create(CONFIG_MAPS, config_map("one", "a", test="crud"), NAMESPACE)
    assert created["metadata"]["uid"]

    patched = await kube.patch(CONFIG_MAPS, "one", {"data": {"more": "b"}}, NAMESPACE)
    assert patched["data"] == {"value": "a", "more": "b"}

    replaced = await kube.replace(CONFIG_MAPS, "one", patched | {"data": {"value": "c"}}, NAMESPACE)
    assert (await kube.get(CONFIG_MAPS, "one", NAMESPACE))["data"] == {"value": "c"} == replaced["data"]

    await kube.delete(CONFIG_MAPS, "one", NAMESPACE)
    with pytest.raises(NotFound):
        await kube.get(CONFIG_MAPS, "one", NAMESPACE)


async def test_errors_are_told_apart(kube: KubeClient) -> None:
    stale = await kube.create(CONFIG_MAPS, config_map("one", test="errors"), NAMESPACE)
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIG_MAPS, config_map("one"), NAMESPACE)
    await kube.patch(CONFIG_MAPS, "one", {"data": {"value": "newer"}}, NAMESPACE)
    with pytest.raises(Conflict):
        await kube.replace(CONFIG_MAPS, "one", stale, NAMESPACE)
    with pytest.raises(KubeError, match="Invalid value") as invalid:
        await kube.create(CONFIG_MAPS, config_map("Not A Name"), NAMESPACE)
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


async def test_a_list_is_read_in_pages_and_from_the_cache_alike(kube: KubeClient) -> None:
    for index in range(7):
        await kube.create(CONFIG_MAPS, config_map(f"item-{index}", test="pages"), NAMESPACE)
    paged, version = await kube.list(CONFIG_MAPS, NAMESPACE, labels="test=pages", page=3)
    cached, _ = await kube.list(CONFIG_MAPS, NAMESPACE, labels="test=pages", from_cache=True)
    names = [item["metadata"]["name"] for item in paged]
    assert names == [f"item-{index}" for index in range(7)]
    assert sorted(item["metadata"]["name"] for item in cached) == names
    assert version.isdecimal()


async def test_server_side_apply_creates_then_owns(kube: KubeClient) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "labels": {"test": "apply"}}}
    for value in ("a", "b"):
        answer = await kube.patch(
            CONFIG_MAPS, "applied", body | {"data": {"value": value}}, NAMESPACE, kind="apply", field_manager="tester"
        )
        assert answer["data"] == {"value": value}


async def test_our_crds_keep_status_apart_and_refuse_unknown_phases(kube: KubeClient) -> None:
    record = {
        "apiVersion": UPCOMING_NODES.api_version,
        "kind": "UpcomingNode",
        "metadata": {"name": "un-one"},
        "spec": {"resources": {"cpu": "4"}},
        "status": {"phase": "Ready"},
    }
    created = await kube.create(UPCOMING_NODES, record)
    assert "status" not in created, "a create must not set the status"
    patched = await kube.patch(UPCOMING_NODES, "un-one", {"status": {"phase": "Ready"}}, subresource="status")
    assert patched["status"] == {"phase": "Ready"}
    with pytest.raises(KubeError, match="Unsupported value"):
        await kube.patch(UPCOMING_NODES, "un-one", {"status": {"phase": "Sleepy"}}, subresource="status")


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"requirements": [{"key": "example.com/rack", "operator": "In", "values": ["r-1", ""]}]}, ""),
        ({"coLocation": {"topologyKey": "topology.bigfleet/rack"}}, ""),
        ({"requirements": [{"key": "a b", "operator": "Exists"}]}, r"spec\.requirements\[0\]\.key"),
        ({"requirements": [{"key": "Upper/rack", "operator": "Exists"}]}, r"spec\.requirements\[0\]\.key"),
        ({"requirements": [{"key": "x" * 64, "operator": "Exists"}]}, r"spec\.requirements\[0\]\.key"),
        (
            {"requirements": [{"key": "a", "operator": "In", "values": ["r1", "$(x)"]}]},
            r"spec\.requirements\[0\]\.values\[1\]",
        ),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["x" * 64]}]}, r"\.values\[0\]: Too long"),
        ({"coLocation": {"topologyKey": "a\nb"}}, r"spec\.coLocation\.topologyKey"),
        (
            {"topologySpread": [{"topologyKey": "a/b/c", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            r"spec\.topologySpread\[0\]\.topologyKey",
        ),
    ],
)
async def test_a_request_asks_for_labels_only_as_labels_are_written(
    kube: KubeClient, fields: dict[str, Any], refusal: str
) -> None:
    body = {
        "apiVersion": CAPACITY_REQUESTS.api_version,
        "kind": "CapacityRequest",
        "metadata": {"generateName": "labelled-"},
        "spec": {"priority": 0, "resources": {"cpu": 1}} | fields,
    }
    if not refusal:
        await kube.create(CAPACITY_REQUESTS, body, NAMESPACE)
        return
    with pytest.raises(KubeError, match=refusal) as refused:
        await kube.create(CAPACITY_REQUESTS, body, NAMESPACE)
    assert refused.value.status == 422


async def test_requests_are_selected_by_phase(kube: KubeClient) -> None:
    for name in ("waiting", "done"):
        body = {
            "apiVersion": CAPACITY_REQUESTS.api_version,
            "kind": "CapacityRequest",
            "metadata": {"name": name},
            "spec": {"priority": 0, "resources": {"cpu": 1}},
        }
        await kube.create(CAPACITY_REQUESTS, body, NAMESPACE)
    await kube.patch(CAPACITY_REQUESTS, "done", {"status": {"phase": "Acknowledged"}}, NAMESPACE, "status")
    found, _ = await kube.list(CAPACITY_REQUESTS, fields="status.phase=Acknowledged")
    assert [item["metadata"]["name"] for item in found] == ["done"]
    found, _ = await kube.list(CAPACITY_REQUESTS, fields="status.phase=")
    assert [item["metadata"]["name"] for item in found] == ["waiting"], "as ADR-33 has it"


async def test_an_eviction_waits_for_the_budget(kube: KubeClient) -> None:
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
    await kube.create(PODS, pod, NAMESPACE)
    await kube.patch(PODS, "guarded", {"status": {"phase": "Running"}}, NAMESPACE, "status")
    await kube.create(DISRUPTION_BUDGETS, budget, NAMESPACE)
    with pytest.raises(TooManyRequests):
        await kube.evict("guarded", NAMESPACE)
    await kube.delete(DISRUPTION_BUDGETS, "guard", NAMESPACE)
    await kube.evict("guarded", NAMESPACE)
    with pytest.raises(NotFound):
        await kube.get(PODS, "guarded", NAMESPACE)


async def test_a_watch_from_a_forgotten_version_is_gone(kube: KubeClient) -> None:
    with pytest.raises(Gone):
        async for _ in kube.watch(CAPACITY_REQUESTS, version="1"):
            pass


async def test_an_informer_lists_then_follows(kube: KubeClient) -> None:
    await kube.create(CONFIG_MAPS, config_map("early", test="follow"), NAMESPACE)
    journal = Journal()
    async with informer(kube, journal) as following:
        await kube.create(CONFIG_MAPS, config_map("late", test="follow"), NAMESPACE)
        await kube.patch(CONFIG_MAPS, "late", {"data": {"value": "b"}}, NAMESPACE)
        await kube.delete(CONFIG_MAPS, "early", NAMESPACE)
        assert await journal.until(lambda told: "-early" in told) == ["+early", "+late", "~late", "-early"]
        assert [item["data"]["value"] for item in following] == ["b"]
        assert following.get(f"{NAMESPACE}/late") is not None


async def test_an_informer_keeps_what_trim_leaves(kube: KubeClient) -> None:
    await kube.create(CONFIG_MAPS, config_map("one", "kept", test="trim"), NAMESPACE)
    journal = Journal()
    trimmed: Callable[[Object], Object] = lambda item: {"metadata": {"name": item["metadata"]["name"]}}  # noqa: E731
    async with informer(kube, journal, trim=trimmed) as following:
        assert list(following) == [{"metadata": {"name": "one"}}]


async def test_a_typed_informer_knows_what_its_type_names_and_no_more(kube: KubeClient) -> None:
    await kube.create(CONFIG_MAPS, config_map("one", "a", test="typed"), NAMESPACE)
    journal = Journal()
    async with typed_informer(kube, journal) as following:
        before = following.get(f"{NAMESPACE}/one")
        assert before is not None
        assert (before.metadata.labels, before.data) == ({"test": "typed"}, {"value": "a"})
        await kube.patch(CONFIG_MAPS, "one", {"metadata": {"annotations": {"nobody": "reads"}}}, NAMESPACE)
        await journal.until(lambda told: "~one" in told)
        assert following.get(f"{NAMESPACE}/one") == before
        await kube.delete(CONFIG_MAPS, "one", NAMESPACE)
        assert await journal.until(lambda told: "-one" in told) == ["+one", "~one", "-one"]


async def test_an_index_follows_what_comes_moves_and_goes(kube: KubeClient) -> None:
    for name, color in (("one", "red"), ("two", "red"), ("three", "blue")):
        await kube.create(CONFIG_MAPS, config_map(name, test="index", color=color), NAMESPACE)
    await kube.create(CONFIG_MAPS, config_map("colorless", test="index"), NAMESPACE)
    journal = Journal()
    by_color = {"color": lambda item: item.metadata.labels.get("color")}
    async with typed_informer(kube, journal, indexes=by_color) as following:

        def colored(color: str) -> set[str]:
            return {item.metadata.name for item in following.by("color", color)}

        assert (colored("red"), colored("blue"), colored("green")) == ({"one", "two"}, {"three"}, set())
        await kube.patch(CONFIG_MAPS, "two", {"metadata": {"labels": {"color": "blue"}}}, NAMESPACE)
        await kube.delete(CONFIG_MAPS, "one", NAMESPACE)
        await kube.patch(CONFIG_MAPS, "three", {"metadata": {"labels": {"color": None}}}, NAMESPACE)
        await journal.until(lambda told: "~three" in told)
        assert (colored("red"), colored("blue")) == (set(), {"two"})
