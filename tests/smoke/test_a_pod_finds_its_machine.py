"""The demand side on the real parts: Pods of two KWOK clusters get machines, keep, lose and give them back."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack

import pytest

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.requirements import RACK_KEY, ZONE_KEY
from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import DEPLOYMENTS, NODES, PODS
from scaletest.cluster.workloads.manifests import GROUP_LABEL
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from tests.smoke.fleet import PROVIDER, SHARD, Fleet
from tests.smoke.profiles import like_smoke, write_profile
from tests.smoke.up_fleet import UpFleet
from tests.smoke.workloads import (
    NAMESPACE,
    PATIENCE_SECONDS,
    deploy,
    following,
    guard,
    is_ready,
    node_of,
    pods_of,
    requests_equal_pods,
    scale,
    until,
    until_bound,
)

pytestmark = pytest.mark.smoke

PODS_PER_CLUSTER = 16
# A draw in which both clusters have Pods of every archetype: a gang, a hard spread, a plain service.
DRAW = ("--pods", str(2 * PODS_PER_CLUSTER), "--seed", "24")
# Shorter than the shard's own (30 and 10 s): a due reclaim comes sooner, and a wrong one more easily.
RECLAIM_AFTER_SECONDS, CYCLE_SECONDS = 5, 2
SETTINGS = (
    f"--set=shard.extraArgs=[--reclaim-after-seconds={RECLAIM_AFTER_SECONDS},--cycle-interval-seconds={CYCLE_SECONDS}]",
    "--set=prometheus.enabled=false",
)
# One machine of 6 cores; the draw's `api` lives on them, one Pod on each.
LARGE = "c6i.2xlarge"
# The priority of `api`: kube-scheduler lets neither push the other out.
AS_API = 1000
# As many machines as can be bought for each that is needed: so few that some racks have one of a kind only.
SPECULATIVE_MULTIPLIER = 3
# One machine of 2 cores. The racks below have one each, and the draw's Pods are on others.
SMALL = "m6i.xlarge"
SCARCE_RACK = "zone-c-rack-6"
SHARED_RACKS = ("zone-a-rack-5", "zone-a-rack-6")
# What the gap between these two priorities leaves a victim (docs/reference/engine.md#victims).
LOW, HIGH = 100, 1_000_000
GRACE_SECONDS = 10
# Within which Pods of a lost machine must be bound again: Kubernetes' own garbage collector takes 40 to 60 of them.
REBIND_SECONDS = 90
SLOWNESS = 5

CONFIGURED = provider_pb2.CONFIGURED


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    profile = like_smoke()
    profile["seed"]["speculativeMultiplier"] = SPECULATIVE_MULTIPLIER
    path = write_profile(tmp_path_factory.mktemp("profiles"), "scarce", profile)
    fleet = UpFleet(tmp_path_factory.mktemp("demand"))
    try:
        asyncio.run(fleet.up("--profile", str(path), *DRAW, *SETTINGS))
        yield Fleet(fleet)
    finally:
        fleet.down()


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_kube_scheduler_binds_every_pod_to_a_machine_that_bigfleet_provided(fleet: Fleet, ordinal: int) -> None:
    async def counted() -> bool:
        canary = 1
        return await fleet.scheduled(ordinal) == PODS_PER_CLUSTER + canary

    async with fleet.cluster(ordinal) as kube:
        pods = await until_bound(kube, PODS_PER_CLUSTER)
        assert await requests_equal_pods(kube)
    await until(counted)
    await until_configured(fleet, map(node_of, pods), ordinal)


async def test_the_shard_knows_what_the_provider_says(fleet: Fleet) -> None:
    async def agree() -> bool:
        machines = (await fleet.machines()).values()
        known = await fleet.count(SHARD, "bigfleet_shard_inventory_machines", state="Configured")
        return known == sum(machine.state == CONFIGURED for machine in machines)

    await until(agree)
    assert await fleet.count(SHARD, "bigfleet_shard_shortfalls") == 0


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_gang_lands_in_one_rack(fleet: Fleet, ordinal: int) -> None:
    async with fleet.cluster(ordinal) as kube:
        racks = await labels_of_nodes(kube, RACK_KEY)
        gangs = defaultdict(list)
        for pod in await until_bound(kube, PODS_PER_CLUSTER):
            if group := pod["metadata"]["labels"].get(GROUP_LABEL):
                gangs[group].append(racks[node_of(pod)])
    assert gangs
    for members in gangs.values():
        assert len(members) >= 3
        assert len(set(members)) == 1


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_hard_spread_is_honoured(fleet: Fleet, ordinal: int) -> None:
    async with fleet.cluster(ordinal) as kube:
        zones = await labels_of_nodes(kube, ZONE_KEY)
        spread = [
            pod
            for pod in await until_bound(kube, PODS_PER_CLUSTER)
            if any(
                term["whenUnsatisfiable"] == "DoNotSchedule" and (term["topologyKey"], term["maxSkew"]) == (ZONE_KEY, 1)
                for term in pod["spec"].get("topologySpreadConstraints") or []
            )
        ]
    assert {pod["metadata"]["labels"][ARCHETYPE_LABEL] for pod in spread} == {"api"}
    assert len(spread) >= 4
    counts = Counter({"zone-a": 0, "zone-b": 0, "zone-c": 0})
    counts.update(zones[node_of(pod)] for pod in spread)
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(
    ("program", "pod", "ordinal"),
    [
        pytest.param("operator", "kwok-cluster-0", 0, id="operator"),
        pytest.param("kube-apiserver", "kwok-cluster-1", 1, id="apiserver"),
        pytest.param("bigfleet", "bigfleet-shard-0", 0, id="shard"),
    ],
)
async def test_a_restart_in_the_middle_of_a_fill_loses_no_demand_and_reclaims_nothing(
    fleet: Fleet, program: str, pod: str, ordinal: int
) -> None:
    name, half, whole = f"fill-{program}", 4, 8
    drained, reclaimed = await drains(fleet), await reclaims(fleet)
    await fleet.set_slowness(SLOWNESS)
    async with fleet.cluster(ordinal) as kube:
        before = len(await pods_of(kube))
        await deploy(kube, name, half, cpu="6", instance_type=LARGE, priority=AS_API)

        async def some_are_bound() -> bool:
            return any(map(node_of, await pods_of(kube, name)))

        # Some Pods are bound, some machines are on their way, and half of the Pods have just been asked for.
        await until(some_are_bound)
        await scale(kube, name, whole)
        fleet.kill(program, pod)
        await fleet.set_slowness(1)
        assert await kube.ready(PATIENCE_SECONDS)
        await until_bound(kube, whole, name)
        assert len(await pods_of(kube)) == before + whole
        await until(lambda: requests_equal_pods(kube))
    # What is wrongly taken for excess is reclaimed after this time, at the next cycle or the one after it.
    await asyncio.sleep(RECLAIM_AFTER_SECONDS + 2 * CYCLE_SECONDS)
    assert await reclaims(fleet) == (0 if program == "bigfleet" else reclaimed)  # a new process counts from 0
    assert await drains(fleet) == drained


async def test_pods_of_a_machine_that_vanished_are_bound_on_a_new_one(fleet: Fleet) -> None:
    async with fleet.cluster(1) as kube:
        before = await pods_of(kube, archetype="api")
        nodes = set(await labels_of_nodes(kube, RACK_KEY))
        lost = node_of(before[0])
        known = {pod["metadata"]["uid"] for pod in before}

        async def replacements() -> list[Object]:
            pods = await pods_of(kube, archetype="api")
            return [pod for pod in pods if pod["metadata"]["uid"] not in known and node_of(pod)]

        await fleet.vanish(machine_of(lost))
        async with asyncio.timeout(REBIND_SECONDS):
            [found] = await until(replacements)
        assert node_of(found) not in nodes
    await until_configured(fleet, [node_of(found)], 1)
    assert machine_of(lost) not in await fleet.machines()


async def test_a_higher_priority_takes_a_machine_from_another_cluster_with_its_grace(fleet: Fleet) -> None:
    [machine] = [one.id for one in (await fleet.machines()).values() if is_in(one, SMALL, SCARCE_RACK)]
    node = f"fake-{machine}"
    story: list[str] = []
    async with AsyncExitStack() as stack:
        low = await stack.enter_async_context(fleet.cluster(0))
        high = await stack.enter_async_context(fleet.cluster(1))
        for name in ("willing", "stubborn"):
            await deploy(low, name, 1, cpu="1", instance_type=SMALL, racks=[SCARCE_RACK], priority=LOW)
        for name in ("willing", "stubborn"):
            [pod] = await until_bound(low, 1, name)
            assert node_of(pod) == node
        await guard(low, "stubborn", 1)
        count = await fleet.count(SHARD, "bigfleet_shard_drain_phase_seconds_count")
        seconds = await fleet.count(SHARD, "bigfleet_shard_drain_phase_seconds_sum")

        def tell_node(old: Object | None, new: Object | None) -> None:
            if old and old["metadata"]["name"] == node:
                if new is None:
                    story.append("node gone")
                elif new["spec"].get("unschedulable") and not old["spec"].get("unschedulable"):
                    story.append("cordoned")

        def tell_pod(old: Object | None, new: Object | None) -> None:
            name = (new or old or {})["metadata"]["labels"].get("app")
            if new and name in ("willing", "stubborn") and node_of(new) == node and is_evicted(new):
                story.append(f"{name} evicted")

        await stack.enter_async_context(following(low, NODES, tell_node))
        await stack.enter_async_context(following(low, PODS, tell_pod, labels="app in (willing,stubborn)"))
        await deploy(high, "urgent", 1, cpu="2", instance_type=SMALL, racks=[SCARCE_RACK], priority=HIGH)
        [urgent] = await until_bound(high, 1, "urgent")
        await until(lambda: "node gone" in story)
    assert node_of(urgent) == node
    await until_configured(fleet, [node], 1)
    # Who could leave was asked to; who could not, because of a budget, had the grace to the end.
    assert set(story) == {"cordoned", "willing evicted", "node gone"}
    assert story[-1] == "node gone"
    assert await fleet.count(SHARD, "bigfleet_shard_drain_phase_seconds_count") == count + 1
    assert await fleet.count(SHARD, "bigfleet_shard_drain_phase_seconds_sum") - seconds >= GRACE_SECONDS


async def test_a_scale_down_gives_a_machine_back_without_breaking_a_budget(fleet: Fleet) -> None:
    replicas, available = 4, 3
    readies: list[int] = []
    ready: set[str] = set()

    def note(old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new and is_ready(new) and "deletionTimestamp" not in new["metadata"]:
            ready.add(name)
        else:
            ready.discard(name)
        readies.append(len(ready))

    async with fleet.cluster(0) as kube:
        await two_machines_with_half_of_each(kube, replicas)
        nodes = {node_of(pod) for pod in await pods_of(kube, "guarded")}
        await guard(kube, "guarded", available)
        async with following(kube, PODS, note, labels="app=guarded"):
            readies.clear()
            await kube.delete(DEPLOYMENTS, "filler", NAMESPACE, propagation="Background")

            async def given_back() -> str:
                machines = await fleet.machines()
                idle = [one for one in map(machine_of, nodes) if machines[one].state == provider_pb2.IDLE]
                return idle[0] if idle else ""

            machine = await until(given_back)
            pods = await until_bound(kube, replicas, "guarded")
            await until(lambda: len(ready) == replicas)
        assert {node_of(pod) for pod in pods} == nodes - {f"fake-{machine}"}
        # Two Pods had to leave together; the budget let them go one after the other.
        assert min(readies) == available
        await until(lambda: is_gone(kube, f"fake-{machine}"))
    assert (await fleet.machines())[machine].cluster == ""


async def two_machines_with_half_of_each(kube: KubeClient, replicas: int) -> None:
    """Both machines are full: half of each belongs to `guarded`, half to `filler`."""
    quarter = "500m"
    await deploy(kube, "filler", 2 * replicas, cpu=quarter, instance_type=SMALL, racks=SHARED_RACKS)
    fillers = await until_bound(kube, 2 * replicas, "filler")
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in fillers:
        nodes[node_of(pod)].append(pod["metadata"]["name"])
    assert sorted(map(len, nodes.values())) == [replicas, replicas]
    # They leave first when the Deployment shrinks.
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    for names in nodes.values():
        for name in names[: replicas // 2]:
            await kube.patch(PODS, name, cost, NAMESPACE)
    # First who comes, then who goes: demand never falls, so nothing is reclaimed in between.
    await deploy(kube, "guarded", replicas, cpu=quarter, instance_type=SMALL, racks=SHARED_RACKS)
    await until(lambda: requests_equal_pods(kube))
    await scale(kube, "filler", replicas)
    guarded = await until_bound(kube, replicas, "guarded")
    assert Counter(map(node_of, guarded)) == dict.fromkeys(nodes, replicas // 2)


async def until_configured(fleet: Fleet, nodes: Iterable[str], ordinal: int) -> None:
    """Until the provider says so of every node's machine: it hears of a node a moment after the scheduler."""
    wanted = {machine_of(node) for node in nodes}

    async def all_are() -> bool:
        mine = {
            machine.id
            for machine in (await fleet.machines()).values()
            if (machine.state, machine.cluster) == (CONFIGURED, f"kwok-cluster-{ordinal}")
        }
        return wanted <= mine

    await until(all_are)


async def is_gone(kube: KubeClient, node: str) -> bool:
    return node not in await labels_of_nodes(kube, RACK_KEY)


async def reclaims(fleet: Fleet) -> float:
    return await fleet.count(SHARD, "bigfleet_shard_actions_total", kind="Reclaim")


async def drains(fleet: Fleet) -> float:
    """Machines that were taken from a cluster, by the provider's count."""
    return await fleet.count(PROVIDER, "bigfleet_provider_transitions_total", kind="drain")


async def labels_of_nodes(kube: KubeClient, key: str) -> dict[str, str]:
    nodes, _ = await kube.list(NODES)
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(key, "") for node in nodes}


def is_evicted(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(condition.get("reason") == "EvictionByEvictionAPI" for condition in conditions)


def is_in(machine: provider_pb2.Machine, instance_type: str, rack: str) -> bool:
    return machine.instance_type == instance_type and machine.labels[RACK_KEY] == rack


def machine_of(node: str) -> str:
    return node.removeprefix("fake-")
