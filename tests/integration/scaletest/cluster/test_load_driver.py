"""The load-driver in a real cluster whose scheduler rests: what it binds, where, and what a second life of it does."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, RACK_KEY, ZONE_KEY
from bigfleet.kube import KubeClient
from bigfleet.kube.resources import DEPLOYMENTS, NODES, PODS, STATEFUL_SETS
from scaletest.cluster.workloads.manifests import GROUP_LABEL, WORKLOAD_LABEL
from scaletest.model.demand.happenings import Course
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.documents.catalog import Gang
from scaletest.model.documents.loadprofile import LoadProfile
from scaletest.model.documents.profile import Burst, ScaleDown
from tests.integration.scaletest.cluster import kwok_containers
from tests.integration.scaletest.cluster.kwok_containers import Container, running, start, stop
from tests.integration.scaletest.cluster.load_drivers import archetype, ask_for, load_driver
from tests.patience import eventually
from tests.soaking import soak

pytestmark = pytest.mark.integration

tools, addresses, client = kwok_containers.tools, kwok_containers.addresses, kwok_containers.client

CORES = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, addresses: tuple[str, str]) -> Iterator[Container]:
    """Nobody touches its marker of a bound fill, so nobody but the load-driver binds."""
    started = start(tmp_path_factory.mktemp("cluster") / "shared", addresses[0], rest_scheduler=True)
    try:
        asyncio.run(started.until_ready())
        yield started
    finally:
        stop(started)


def gang_of(pods: int) -> Gang:
    return Gang(scope="sameRack", group_size_range=(pods, pods))


async def add_node(client: KubeClient, name: str) -> None:
    """Its name is `<archetype>-<rack>-<number>`."""
    kind, rack, _ = name.split("-")
    labels = {INSTANCE_TYPE_KEY: "m6i.large", ZONE_KEY: "zone-a", RACK_KEY: rack, ARCHETYPE_LABEL: kind}
    room = {"cpu": str(CORES), "memory": "8Gi", "pods": "1100"}
    await client.create(
        NODES, {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}}
    )


async def demanded(client: KubeClient, kind: str = "") -> list[dict[str, Any]]:
    """Pods that stay: all, or those of one archetype."""
    pods, _ = await client.list(PODS, "default", labels=f"{ARCHETYPE_LABEL}={kind}" if kind else WORKLOAD_LABEL)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def node_of(pod: dict[str, Any]) -> str:
    return str(pod["spec"].get("nodeName", ""))


async def test_the_first_fill_is_bound_whole_where_it_was_seeded_for(client: KubeClient, tmp_path: Path) -> None:
    profile = LoadProfile(
        target=14,
        seed=6,  # eight Pods of `web`, two gangs of three
        pre_bind_fraction=1.0,
        archetypes=(archetype("web", cpu="1"), archetype("trainer", cpu="3", weight=3, gang=gang_of(3))),
    )
    driver, read = load_driver(client, tmp_path / "demand-ready", profile)
    filled = tmp_path / "first-fill-bound"

    async def all_exist() -> bool:
        return len(await demanded(client)) == 14

    async with running(driver.run()):
        await eventually(all_exist)
        await ask_for(client, 14)
        await eventually((tmp_path / "demand-ready").exists)
        for name in ("web-a-0", "web-a-1", "trainer-a-0", "trainer-a-1", "trainer-b-0", "trainer-b-1"):
            await add_node(client, name)
        await eventually(lambda: read("scaletest_loadgen_prebound_total") == 8)
        assert not filled.exists(), "no rack takes a whole gang yet"
        for name in ("trainer-a-2", "trainer-b-2"):
            await add_node(client, name)
        await eventually(filled.exists)
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in await demanded(client):
        places[pod["metadata"]["labels"].get(GROUP_LABEL, "web")][node_of(pod)] += 1
    assert places.pop("web") == {"web-a-0": CORES, "web-a-1": CORES}
    racks = [{f"trainer-{rack}-{number}": 1 for number in range(3)} for rack in "ab"]
    assert sorted(places.values(), key=str) == racks
    assert read("scaletest_loadgen_prebound_total") == 14


async def test_a_gang_of_the_soak_is_anchored_where_there_is_room(client: KubeClient, tmp_path: Path) -> None:
    profile = LoadProfile(
        target=2,
        pre_bind_fraction=1.0,
        anchors=True,
        archetypes=(archetype("web", cpu="3"), archetype("trainer", cpu="2", burst_only=True, gang=gang_of(2))),
        bursts=(Burst(at_seconds=0, archetype="trainer", extra_target=1),),
    )
    driver, read = load_driver(client, tmp_path / "demand-ready", profile)
    for name in ("web-a-0", "web-a-1", "trainer-b-0", "trainer-b-1"):
        await add_node(client, name)
    await ask_for(client, 2)
    async with running(driver.run()):
        await eventually((tmp_path / "first-fill-bound").exists)
        driver.run_watch.on_change(None, soak())
        await eventually(lambda: read("scaletest_loadgen_anchors_bound_total") == 1)
    places = defaultdict(list)
    for pod in await demanded(client):
        places[pod["metadata"]["labels"][ARCHETYPE_LABEL]].append(node_of(pod))
    assert sorted(places["web"]) == ["web-a-0", "web-a-1"]
    assert sorted(places["trainer"]) in (["", "trainer-b-0"], ["", "trainer-b-1"])


async def test_a_second_life_in_the_soak_goes_on_with_what_is_due(client: KubeClient, tmp_path: Path) -> None:
    profile = LoadProfile(
        target=6,
        seed=17,  # two workloads of three
        pre_bind_fraction=1.0,
        archetypes=(archetype("web"), archetype("memory-cache", burst_only=True)),
        scale_downs=(ScaleDown(at_seconds=30, target_multiplier=0.5),),
        bursts=(
            Burst(at_seconds=20, archetype="memory-cache", extra_target=2, duration_seconds=20),
            Burst(at_seconds=50, archetype="memory-cache", extra_target=3),
        ),
    )
    await add_node(client, "web-a-0")
    await ask_for(client, 6)
    first, read = load_driver(client, tmp_path / "demand-ready", profile)
    async with running(first.run()):
        await eventually(lambda: read("scaletest_loadgen_steady_state"))
        assert read("scaletest_loadgen_prebound_total") == 6
        first.run_watch.on_change(None, soak(seconds_ago=35))
        await eventually(lambda: read("scaletest_loadgen_demand_changes_total") == 2)

    async def one_waits() -> bool:
        return sorted(map(node_of, await demanded(client, "web"))) == ["", "web-a-0", "web-a-0"]

    async def is_there(at_seconds: float) -> bool:
        found = [*(await client.list(DEPLOYMENTS, "default"))[0], *(await client.list(STATEFUL_SETS, "default"))[0]]
        return {one["metadata"]["name"] for one in found} == set(Course(profile, 0).due(at_seconds))

    # While nobody drives, a Pod is replaced, the burst should end, and another one begin.
    await eventually(partial(is_there, 35))
    left = Course(profile, 0).due(45)
    [pod, *_] = [one for one in await demanded(client, "web") if one["metadata"]["labels"][WORKLOAD_LABEL] in left]
    await client.delete(PODS, pod["metadata"]["name"], "default", grace_seconds=0)
    await eventually(one_waits)
    second, read = load_driver(client, tmp_path / "demand-ready", profile)
    second.run_watch.on_change(None, soak(seconds_ago=60))
    async with running(second.run()):
        await eventually(lambda: read("scaletest_loadgen_steady_state"))
        await eventually(partial(is_there, 60))
    assert read("scaletest_loadgen_cr_target") == 6, "half of the six, and a burst that never drains"
    assert read("scaletest_loadgen_cr_created_total") == 1, "the burst that is on, and nothing that was shed"
    assert read("scaletest_loadgen_cr_deleted_total") == 1, "the burst that is over"
    assert read("scaletest_loadgen_prebound_total") == 0
    assert await one_waits(), "the fill was bound once; the rest is kube-scheduler's"
