"""A KWOK cluster on the real binaries: it comes up, refuses strangers, makes Nodes of machines, and leaves nothing."""

import asyncio
import os
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.kube import KubeClient, NotFound, Resource
from bigfleet.kube.resources import (
    CAPACITY_REQUESTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    UPCOMING_NODES,
)
from scaletest.cluster.control_plane.exposition import read_samples
from scaletest.cluster.load.load_driver import LoadDriver
from scaletest.cluster.nodes.node_creator import NodeCreator, NodeCreatorOptions
from scaletest.cluster.ports import HEALTH_PORT, LOAD_DRIVER_PORT
from scaletest.cluster.workloads.manifests import STATE_LABEL, WORKLOAD_LABEL
from scaletest.model.documents.loadprofile import LoadProfile
from scaletest.model.documents.profile import Burst, DemandMode, DemandStep, ScaleDown
from tests.integration.scaletest.cluster import kwok_containers
from tests.integration.scaletest.cluster.kwok_containers import (
    PROCESSES,
    Container,
    running,
    start,
    start_workload,
    stop,
)
from tests.integration.scaletest.cluster.load_drivers import archetype, ask_for, load_driver
from tests.patience import eventually
from tests.soaking import soak

pytestmark = pytest.mark.integration

LEASES = Resource("leases", "coordination.k8s.io")
# What runs in container `workload`, and who waits there; the kernel keeps 15 characters of a name.
RUNNING = ("load-driver", "node-creator", "operator", "pod-controller")
SPARES = ("spare-load-driv", "spare-node-crea")

tools, addresses, client = kwok_containers.tools, kwok_containers.addresses, kwok_containers.client


def program_of(pid: int) -> str:
    return Path(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]).name


def name_of(pid: int) -> str:
    """Forked processes have a name of their own."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def programs_of(container: Container) -> set[str]:
    return {program_of(pid) for pid in container.children()}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, addresses: tuple[str, str]) -> Iterator[Container]:
    started = start(tmp_path_factory.mktemp("cluster") / "shared", addresses[0])
    try:
        asyncio.run(started.until_ready())
        yield started
    finally:
        stop(started)


async def status_of(url: str, context: ssl.SSLContext | bool) -> int:
    async with aiohttp.ClientSession() as http, http.get(url, ssl=context) as response:
        return response.status


def machine(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "UpcomingNode",
        "metadata": {"name": f"un-{name}"},
        "spec": {"resources": {"cpu": "4", "memory": "8Gi"}, "labels": {"pool": "test"}},
    }


async def set_phase(client: KubeClient, name: str, phase: str) -> None:
    await client.patch(UPCOMING_NODES, f"un-{name}", {"status": {"phase": phase}}, subresource="status")


async def add_machine(client: KubeClient, name: str, phase: str) -> None:
    await client.create(UPCOMING_NODES, machine(name))
    await set_phase(client, name, phase)


def deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"priority": 1000, "nodeSelector": {"pool": "test"}, "containers": [container]},
            },
        },
    }


async def test_the_canary_was_bound_once_and_left_no_trace(cluster: Container, client: KubeClient) -> None:
    assert await status_of(f"{cluster.metrics_url}/readyz", True) == 200
    assert (await client.list(NODES))[0] == []
    assert (await client.list(PODS))[0] == []


async def test_strangers_are_refused_by_every_process_that_could_be_asked_for_more_than_its_health(
    cluster: Container,
) -> None:
    trusting = ssl.create_default_context(cafile=str(cluster.shared_dir / "certs" / "ca.crt"))
    assert await status_of(f"https://{cluster.pod_ip}:6443/api", trusting) == 401
    assert await status_of(f"https://{cluster.pod_ip}:10257/metrics", trusting) == 403
    assert await status_of(f"https://{cluster.pod_ip}:10259/metrics", trusting) == 403
    assert await status_of(f"http://{cluster.pod_ip}:10247/debug/pprof/", True) == 405
    etcd = ssl.create_default_context(cafile=str(cluster.shared_dir / "certs" / "etcd-ca.crt"))
    with pytest.raises(aiohttp.ClientError):
        await status_of(f"https://{cluster.pod_ip}:2379/v3/kv/range", etcd)


async def test_machines_become_ready_nodes_and_their_pods_run(cluster: Container, client: KubeClient) -> None:
    options = NodeCreatorOptions("kwok-cluster-0", cluster.shared_dir / "admin.kubeconfig", "")
    registry = CollectorRegistry()
    creator = NodeCreator(client, options, registry)

    def gauge(name: str) -> float:
        return registry.get_sample_value(f"bigfleet_scaletest_node_creator_{name}") or 0.0

    async def all_run() -> bool:
        return (gauge("ready_nodes"), gauge("bound_pods"), gauge("running_pods")) == (2, 5, 5)

    async def exported() -> bool:
        async with aiohttp.ClientSession() as http, http.get(f"{cluster.metrics_url}/metrics") as response:
            text = await response.text()
        attempts = read_samples(text, "scheduler_schedule_attempts_total")
        scheduled = [sample.value for sample in attempts if sample.labels["result"] == "scheduled"]
        requests = read_samples(text, "apiserver_request_total")
        bound = [sample.value for sample in requests if sample.labels["subresource"] == "binding"]
        # The canary and five more, each bound by the scheduler: nobody else has posted a Binding.
        return scheduled == bound == [6.0]

    await client.create(DEPLOYMENTS, deployment("web", 5), "default")
    await add_machine(client, "early", "Provisioning")
    for name in ("a", "b"):
        await add_machine(client, name, "Registered")
    async with running(creator.run()):
        await eventually(all_run)
        node = await client.get(NODES, "fake-a")
        assert node["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "1100"}
        assert node["metadata"]["labels"].items() >= {"pool": "test", "kubernetes.io/hostname": "fake-a"}.items()
        pods, _ = await client.list(PODS, "default", labels="app=web")
        assert {condition["type"] for condition in pods[0]["status"]["conditions"]} >= {"PodScheduled", "Ready"}
        assert gauge("fake_nodes_created_total") == 2
        with pytest.raises(NotFound):
            await client.get(NODES, "fake-early")

        await set_phase(client, "a", "Failed")
        await client.delete(UPCOMING_NODES, "un-b")

        async def gone() -> bool:
            return gauge("ready_nodes") == 0 and (await client.list(NODES))[0] == []

        await eventually(gone)
    await eventually(exported, 40)


async def test_the_pods_of_a_lost_machine_end_before_the_collector_takes_them_in_one_batch(
    cluster: Container, client: KubeClient
) -> None:
    options = NodeCreatorOptions(
        "kwok-cluster-0", cluster.shared_dir / "admin.kubeconfig", "", lost_pods_after_seconds=1
    )
    creator = NodeCreator(client, options, CollectorRegistry())

    async def uids(node: str) -> set[str]:
        pods, _ = await client.list(PODS, "default", labels="app=web", fields=f"spec.nodeName={node}")
        return {pod["metadata"]["uid"] for pod in pods}

    async def all_on(node: str) -> bool:
        return len(await uids(node)) == 4

    await client.create(DEPLOYMENTS, deployment("web", 4), "default")
    await add_machine(client, "lost", "Registered")
    async with running(creator.run()):
        await eventually(partial(all_on, "fake-lost"))
        await client.delete(UPCOMING_NODES, "un-lost")
        await add_machine(client, "new", "Registered")
        # The collector waits for 40 s.
        await eventually(partial(all_on, "fake-new"), 35)
        assert not await uids("fake-lost")


async def test_a_pod_that_kwok_sees_before_its_node_runs_all_the_same(client: KubeClient) -> None:
    def pod(name: str, node: str) -> dict[str, Any]:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "pause"}]}
        return {"metadata": {"name": name}, "spec": spec}

    async def runs(name: str) -> bool:
        return bool((await client.get(PODS, name, "default"))["status"]["phase"] == "Running")

    await client.create(PODS, pod("early", "late-node"), "default")
    # When a later Pod runs, kwok has seen the early one, and passed it over.
    await client.create(NODES, {"metadata": {"name": "node"}})
    await client.create(PODS, pod("later", "node"), "default")
    await eventually(partial(runs, "later"))
    await client.create(NODES, {"metadata": {"name": "late-node"}})
    await eventually(partial(runs, "early"))


def load_driver_of_six(
    client: KubeClient, ready_file: Path, mode: DemandMode = "pod", **changes: Any
) -> tuple[LoadDriver, Callable[[str], float]]:
    """One that asks for six small replicas."""
    fields = {"target": 6, "mode": mode, "churn_per_minute": 30, "archetypes": (archetype("web"),)} | changes
    return load_driver(client, ready_file, LoadProfile(**fields))


async def test_the_load_driver_builds_the_demand_and_churns_only_in_the_soak(
    cluster: Container, client: KubeClient, tmp_path: Path
) -> None:
    ready_file = tmp_path / "demand-ready"
    driver, read = load_driver_of_six(client, ready_file)

    async def pods_exist() -> bool:
        pods, _ = await client.list(PODS, "default", labels="scaletest.bigfleet/workload")
        return len(pods) == 6

    async def demand_ready() -> bool:
        return ready_file.exists()

    async def has_churned() -> bool:
        return read("scaletest_loadgen_cr_deleted_total") >= 3

    async def rebound() -> bool:
        return read("bigfleet_scaletest_pod_bind_latency_steady_seconds_count") >= 1

    labels = {"node.kubernetes.io/instance-type": "m6i.large", "topology.kubernetes.io/zone": "zone-a"}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"metadata": {"name": "room", "labels": labels}, "status": {"capacity": room, "allocatable": room}}
    await client.create(NODES, node)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "scaletest-run"}, "data": {"phase": "settle"}}, "default")
    async with running(driver.run()), running(driver.run_watch.run(client, "default")):
        await eventually(pods_exist)
        assert read("scaletest_loadgen_cr_target") == 6
        assert read("scaletest_loadgen_cr_active") == 0 and not ready_file.exists()
        await ask_for(client, 6)
        await eventually(demand_ready)
        assert read("scaletest_loadgen_cr_active") == 6
        assert read("scaletest_loadgen_cr_deleted_total") == 0
        soak = {"data": {"phase": "soak", "soakStart": str(time.time())}}
        await client.patch(CONFIG_MAPS, "scaletest-run", soak, "default")
        await eventually(has_churned)
        await eventually(rebound)
        assert read("scaletest_loadgen_anchors_bound_total") == 0


@pytest.mark.parametrize("mode", ["pod", "cr"])
async def test_demand_moves_in_the_soak_as_it_was_planned(client: KubeClient, tmp_path: Path, mode: DemandMode) -> None:
    driver, read = load_driver_of_six(
        client,
        tmp_path / "demand-ready",
        mode,
        churn_per_minute=0,
        seed=17,  # two workloads of three
        archetypes=(archetype("web"), archetype("memory-cache", burst_only=True)),
        open_loop_demand_multiplier=1.5,
        bursts=(Burst(at_seconds=0, archetype="memory-cache", extra_target=3),),
        demand_steps=(DemandStep(at_seconds=0.1, target_multiplier=2),),
        scale_downs=(ScaleDown(at_seconds=0.2, target_multiplier=0.5),),
    )
    demanded = PODS if mode == "pod" else CAPACITY_REQUESTS

    async def all_there() -> bool:
        found, _ = await client.list(demanded, "default", labels=WORKLOAD_LABEL)
        return len(found) == read("scaletest_loadgen_cr_target")

    async with running(driver.run()):
        await eventually(lambda: read("scaletest_loadgen_cr_created_total") > 0)
        if mode == "pod":
            await ask_for(client, 6)
        await eventually(lambda: read("scaletest_loadgen_steady_state"))
        assert read("scaletest_loadgen_cr_target") == 9, "six, and half as many that nothing was seeded for"
        driver.run_watch.on_change(None, soak())
        await eventually(lambda: read("scaletest_loadgen_demand_changes_total") == 3)
        assert read("scaletest_loadgen_cr_target") == 6, "half of the six, and a burst that never drains"
        await eventually(all_there)
    if mode == "pod":
        [burst], _ = await client.list(STATEFUL_SETS, "default")
        assert burst["spec"]["replicas"] == 3
        assert burst["spec"]["template"]["metadata"]["labels"][STATE_LABEL] == "steady"


async def test_demand_without_pods_is_requests_alone_and_churns_too(client: KubeClient, tmp_path: Path) -> None:
    ready_file = tmp_path / "demand-ready"
    driver, read = load_driver_of_six(client, ready_file, mode="cr")

    async with running(driver.run()):
        await eventually(ready_file.exists)
        before, _ = await client.list(CAPACITY_REQUESTS, "default")
        assert {request["spec"]["resources"]["cpu"] for request in before} == {"100m"}
        driver.run_watch.on_change(None, soak())
        await eventually(lambda: read("scaletest_loadgen_cr_created_total") >= 9)
        after, _ = await client.list(CAPACITY_REQUESTS, "default")
    assert len(before) == 6
    assert len(after) in (5, 6), "one may be between leaving and coming again"
    assert {item["metadata"]["uid"] for item in after} - {item["metadata"]["uid"] for item in before}
    assert (await client.list(PODS))[0] == []
    assert read("bigfleet_scaletest_pod_bind_latency_steady_seconds_count") == 0


async def test_the_workload_container_starts_the_operator_only_after_the_demand_exists(
    cluster: Container, client: KubeClient, tmp_path: Path
) -> None:
    stale = cluster.shared_dir / "demand-ready"
    stale.touch()
    workload = start_workload(cluster.shared_dir, cluster.pod_ip, tmp_path, pods=20)
    log = workload.log

    async def operator_lives() -> bool:
        assert workload.process.poll() is None, log.read_text()
        return "all processes run" in log.read_text()

    try:
        await eventually(operator_lives, 60)
        lines = log.read_text()
        assert lines.index("load-driver |") < lines.index("demand is built") < lines.index("all processes run")
        requests, _ = await client.list(CAPACITY_REQUESTS, "default")
        assert len(requests) == 20
        children = workload.children()
        assert sorted(map(name_of, children)) == sorted([*RUNNING, *SPARES, *SPARES])
        await _the_witness_agrees(workload)
        await _one_that_hangs_is_found_out(workload)
        await _one_of_ours_that_dies_is_replaced(workload)
        workload.process.terminate()
        assert await workload.exit_code() == 0
        assert not any(is_alive(pid) for pid in children)
    finally:
        stop(workload)


async def _one_that_hangs_is_found_out(workload: Container) -> None:
    url = f"http://{workload.pod_ip}:{HEALTH_PORT}"

    async def is_ready() -> bool:
        return await status_of(f"{url}/readyz", True) == 200

    await eventually(is_ready)
    for pid in (pid for pid in workload.children() if name_of(pid) in RUNNING):
        os.kill(pid, signal.SIGSTOP)
        assert not await is_ready()
        assert await status_of(f"{url}/healthz", True) == 200, "it may only be busy"
        os.kill(pid, signal.SIGCONT)
        await eventually(is_ready)


async def _the_witness_agrees(workload: Container) -> None:
    """Twenty Pods, each with a request that says what was drawn; and no Node is there."""
    url = f"http://{workload.pod_ip}:{LOAD_DRIVER_PORT}/metrics"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        text = await response.text()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def figure(name: str, **labels: str) -> float:
        wanted = (f"scaletest_witness_{name}", labels)
        [value] = [sample.value for sample in samples if (sample.name, sample.labels) == wanted]
        return value

    wrong = {sample.labels["field"]: sample.value for sample in samples if "requests_wrong" in sample.name}
    assert len(wrong) == 8 and not any(wrong.values()), wrong
    assert figure("pods", edge="highest") == figure("requests", edge="highest") == figure("pods_due") == 20
    assert figure("pods_without_request") == figure("requests_without_pod") == 0
    for resource, each in (("cpu", 1), ("memory", 1500 * 2**20)):
        part = {"resource": resource, "priority_class": "service", "kind": "spread"}
        assert figure("largest_pod", **part) == each
        assert figure("demand", edge="highest", **part) == 20 * each
        assert figure("uncovered", resource=resource) == 20 * each
    assert figure("uncovered_seconds") > 0
    assert figure("pods_lacking_capacity") == 20
    assert figure("requests_unacknowledged") <= 20


async def _one_of_ours_that_dies_is_replaced(workload: Container) -> None:
    before = {name_of(pid): pid for pid in workload.children()}
    os.kill(before["load-driver"], signal.SIGKILL)

    async def answers_again() -> bool:
        now = {name_of(pid): pid for pid in workload.children()}
        running = now.get("load-driver", before["load-driver"]) != before["load-driver"]
        return running and await status_of(f"http://{workload.pod_ip}:{HEALTH_PORT}/readyz", True) == 200

    await eventually(answers_again)
    after = {name_of(pid): pid for pid in workload.children()}
    assert (after["operator"], after["pod-controller"]) == (before["operator"], before["pod-controller"])
    assert "a spare takes its place" in workload.log.read_text()


async def test_a_container_that_restarts_keeps_its_cluster_and_those_who_work_in_it(
    tmp_path: Path, addresses: tuple[str, str]
) -> None:
    shared_dir, pod_ip = tmp_path / "shared", addresses[1]
    first = start(shared_dir, pod_ip, rest_scheduler=True)
    workload = None
    try:
        await first.until_ready()
        assert programs_of(first) == set(PROCESSES) - {"kube-scheduler"}
        workload = start_workload(shared_dir, pod_ip, tmp_path, pods=5)

        async def demand_is_built() -> bool:
            assert workload.process.poll() is None, workload.log.read_text()
            return "all processes run" in workload.log.read_text()

        await eventually(demand_is_built, 60)

        async def scheduler_is_back() -> bool:
            return programs_of(first) == set(PROCESSES)

        await eventually(scheduler_is_back)
        (apiserver,) = [pid for pid in first.children() if program_of(pid) == "kube-apiserver"]
        os.kill(apiserver, signal.SIGKILL)
        assert await first.exit_code() == 1
        lines = first.log.read_text()
        assert "control-plane: kube-apiserver was killed by signal 9; its last lines:" in lines
        assert "\nkube-apiserver | " in lines and "\netcd | " in lines
        assert not first.marker.exists()

        second = start(shared_dir, pod_ip, node_lease_seconds=40, rest_scheduler=True)
        try:
            await second.until_ready()
            await _is_as_it_was(second, workload)
            assert programs_of(second) == set(PROCESSES)  # the fill of its former life is bound: nothing to rest for
            children = second.children()
            second.process.terminate()
            assert await second.exit_code() == 0
            assert not any(is_alive(pid) for pid in children)
            assert not second.marker.exists()
        finally:
            stop(second)
    finally:
        stop(first)
        if workload:
            stop(workload)


async def _is_as_it_was(cluster: Container, workload: Container) -> None:
    """The Pods are still there, and a Pod that is replaced is still asked for by the same pod-controller."""
    async with KubeClient(cluster.config) as client:
        pods, _ = await client.list(PODS, "default")
        assert len(pods) == 5
        gone = pods[0]["metadata"]["name"]
        await client.delete(PODS, gone, "default", grace_seconds=0)
        left = {pod["metadata"]["name"] for pod in pods[1:]}

        async def asked_for_anew() -> bool:
            assert workload.process.poll() is None, workload.log.read_text()
            requests, _ = await client.list(CAPACITY_REQUESTS, "default")
            owners = {request["metadata"]["ownerReferences"][0]["name"] for request in requests}
            return len(owners) == 5 and gone not in owners and owners > left

        await eventually(asked_for_anew, 40)
        # This life of the container was asked for Node leases.
        room = {"cpu": "1", "memory": "1Gi", "pods": "1"}
        await client.create(NODES, {"metadata": {"name": "leased"}, "status": {"capacity": room, "allocatable": room}})

        async def leased() -> bool:
            leases, _ = await client.list(LEASES, "kube-node-lease")
            return [lease["metadata"]["name"] for lease in leases] == ["leased"]

        await eventually(leased)
