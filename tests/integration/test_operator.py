"""The operator between a real kube-apiserver and a shard on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from google.protobuf import json_format
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1.shard_pb2 import (
    Acknowledgement,
    AvailableCapacityUpdate,
    BootstrapRequest,
    NodeStateUpdate,
    ReclaimInstruction,
)
from bigfleet.kube import KubeClient, NotFound, Object
from bigfleet.kube.resources import AVAILABLE_CAPACITIES, CAPACITY_REQUESTS, NODES, PODS, UPCOMING_NODES
from bigfleet.operator import OperatorOptions, serve
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.nodestates import NodeStates
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.apiserver import DISRUPTION_BUDGETS, NAMESPACE, ApiServer, eventually, free_ports
from tests.integration.scripted_shard import ScriptedShard, ShardSide, serving

pytestmark = pytest.mark.integration

CLUSTER = "kwok-cluster-7"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class World:
    """A running operator and both its neighbours."""

    kube: KubeClient
    shard: ScriptedShard
    shard_addr: str
    metrics_addr: str

    async def metric(self, series: str) -> float:
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.metrics_addr}/metrics") as response:
            lines = (await response.text()).splitlines()
        return next(float(line.split()[-1]) for line in lines if line.rsplit(" ", 1)[0] == series)


@asynccontextmanager
async def operator(
    apiserver: ApiServer, kube: KubeClient, shard_addr: str = "", **options: Any
) -> AsyncIterator[World]:
    """Run an operator for the length of the context; it must live until the end."""
    shard_port, metrics_port = free_ports(2)
    shard_addr = shard_addr or f"127.0.0.1:{shard_port}"
    settings = OperatorOptions(
        cluster_id=CLUSTER,
        shard_addr=shard_addr,
        kubeconfig=apiserver.kubeconfig,
        metrics_addr=f"127.0.0.1:{metrics_port}",
        **options,
    )
    task = asyncio.create_task(serve(settings))
    try:
        yield World(kube, ScriptedShard(), shard_addr, settings.metrics_addr)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def world(apiserver: ApiServer, kube: KubeClient) -> AsyncIterator[World]:
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        yield world


@pytest.fixture
async def side(world: World) -> ShardSide:
    return await world.shard.session()


async def ask(kube: KubeClient, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": CAPACITY_REQUESTS.api_version,
        "kind": "CapacityRequest",
        "metadata": {"name": name},
        "spec": {"priority": 1000, "resources": {"cpu": "500m"}} | spec,
    }
    await kube.create(CAPACITY_REQUESTS, body, NAMESPACE)


async def until_phase(kube: KubeClient, machine: str, phase: str) -> Object:
    async def attempt() -> Object:
        record: Object = await kube.get(UPCOMING_NODES, f"un-{machine}")
        assert record.get("status", {}).get("phase") == phase
        return record

    return await eventually(attempt)


async def until_gone(kube: KubeClient, machine: str) -> None:
    async def attempt() -> bool:
        try:
            await kube.get(UPCOMING_NODES, f"un-{machine}")
        except NotFound:
            return True
        return False

    await eventually(attempt)


async def test_the_first_words_are_hello_and_the_whole_demand(apiserver: ApiServer, kube: KubeClient) -> None:
    in_zone = [{"key": ZONE, "operator": "In", "values": ["zone-a"]}]
    for index in range(3):
        await ask(kube, f"web-{index}", requirements=in_zone, interruptionPenalty="8")
    await ask(kube, "odd", requirements=[{"key": "cpus", "operator": "Gt", "values": ["4"]}])
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        side = await world.shard.session()
        assert side.first_payload == "hello"
        assert side.hello is not None
        assert (side.hello.hello.cluster_id, side.hello.hello.protocol_version) == (CLUSTER, "v1alpha1")

        rollup = await side.receive("rollup")
        assert rollup.cluster_id == CLUSTER
        assert rollup.timestamp_unix_nanos > 0
        assert [json_format.MessageToDict(need, preserving_proto_field_name=True) for need in rollup.needs] == [
            {
                "requirements": [{"key": ZONE, "operator": "IN", "values": ["zone-a"]}],
                "aggregate_resources": {"cpu": "1500m"},
                "min_unit": {"cpu": "500m"},
                "priority": 1000,
                "interruption_penalty_bucket": "UP_TO_8",
            }
        ]

        async def acknowledged() -> set[str]:
            items, _ = await kube.list(CAPACITY_REQUESTS, fields="status.phase=Acknowledged")
            assert all(item["status"]["acknowledgedAt"] for item in items)
            names = {item["metadata"]["name"] for item in items}
            assert len(names) == 3
            return names

        assert await eventually(acknowledged) == {"web-0", "web-1", "web-2"}
        assert await world.metric("bigfleet_operator_capacity_requests_skipped_total") == 1

        async def counted() -> bool:
            return await world.metric("bigfleet_operator_acknowledged_total") == 3

        assert await eventually(counted)
        assert await world.metric("bigfleet_operator_acknowledge_duration_seconds_count") == 1
        assert await world.metric("bigfleet_operator_session_connected") == 1


async def test_changed_demand_is_sent_before_the_interval_is_over(world: World, side: ShardSide) -> None:
    assert not (await side.receive("rollup")).needs
    await ask(world.kube, "late")
    rollup = await asyncio.wait_for(side.receive("rollup"), 5)
    assert [dict(need.aggregate_resources) for need in rollup.needs] == [{"cpu": "500m"}]
    await world.kube.delete(CAPACITY_REQUESTS, "late", NAMESPACE)
    assert not (await asyncio.wait_for(side.receive("rollup"), 5)).needs


async def test_demand_is_repeated_at_every_interval(apiserver: ApiServer, kube: KubeClient) -> None:
    async with (
        operator(apiserver, kube, rollup_interval_seconds=1.0) as world,
        serving(world.shard, world.shard_addr),
    ):
        side = await world.shard.session()
        times = [(await side.receive("rollup")).timestamp_unix_nanos for _ in range(3)]
        assert times[2] - times[0] >= 1.9e9


async def test_a_machine_is_followed_from_configuring_to_its_end(world: World, side: ShardSide) -> None:
    side.tell("m1", "CONFIGURING")
    registered = await until_phase(world.kube, "m1", "Registered")
    assert registered["spec"] == {"resources": {"cpu": "4", "memory": "8Gi"}, "labels": {ZONE: "zone-a"}}
    assert registered["status"]["nodeRef"] == {"apiVersion": "v1", "kind": "Node", "name": "fake-m1"}
    assert registered["status"]["providerID"] == "fake://m1"

    side.tell("m1", "CONFIGURED")
    ready = await until_phase(world.kube, "m1", "Ready")
    assert ready["status"]["provisioningStartTime"] == registered["status"]["provisioningStartTime"]

    side.tell("m1", "DRAINING")
    await until_phase(world.kube, "m1", "Draining")
    side.tell("m1", "IDLE")
    await until_gone(world.kube, "m1")

    duration = "bigfleet_operator_node_state_update_duration_seconds_count"

    async def measured() -> bool:
        phases = ("Registered", "Ready", "Draining", "Drained")
        return [await world.metric(f'{duration}{{phase="{phase}"}}') for phase in phases] == [1, 1, 1, 1]

    assert await eventually(measured)
    writes = 'bigfleet_operator_upcoming_node_writes_total{op="%s",outcome="success"}'
    assert [await world.metric(writes % op) for op in ("create", "status_update", "delete")] == [1, 3, 1]


@pytest.mark.parametrize("last_words", [{"state": "IDLE"}, {"state": "CONFIGURED", "removed": True}])
async def test_a_machine_that_leaves_otherwise_takes_its_record_along(
    world: World, side: ShardSide, last_words: dict[str, Any]
) -> None:
    side.tell("m1", "CONFIGURING")
    await until_phase(world.kube, "m1", "Registered")
    side.tell("m1", **last_words)
    await until_gone(world.kube, "m1")


async def test_a_frame_that_says_nothing_new_is_not_written(world: World, side: ShardSide) -> None:
    side.tell("m1", "CONFIGURED")
    before = await until_phase(world.kube, "m1", "Ready")
    side.tell("m1", "CONFIGURED")

    async def noticed() -> bool:
        return (
            await world.metric('bigfleet_operator_upcoming_node_writes_total{op="status_update",outcome="noop"}') == 1
        )

    assert await eventually(noticed)
    assert await world.kube.get(UPCOMING_NODES, "un-m1") == before


async def test_a_record_that_somebody_deleted_is_written_again(world: World, side: ShardSide) -> None:
    side.tell("m1", "CONFIGURING")
    await until_phase(world.kube, "m1", "Registered")
    await world.kube.delete(UPCOMING_NODES, "un-m1")
    side.tell("m1", "CONFIGURED")
    record = await until_phase(world.kube, "m1", "Ready")
    assert record["status"]["nodeRef"]["name"] == "fake-m1"
    conflicts = 'bigfleet_operator_upcoming_node_writes_total{op="status_update",outcome="conflict"}'
    assert await world.metric(conflicts) == 1


async def test_a_failure_is_shown_with_its_reason(world: World, side: ShardSide) -> None:
    side.tell("m1", "CONFIGURING")
    side.tell("m1", "FAILED", last_error="no boot in 300 s")
    record = await until_phase(world.kube, "m1", "Failed")
    assert record["status"]["lastError"] == "no boot in 300 s"


async def test_a_resync_removes_the_records_of_machines_that_left_meanwhile(
    apiserver: ApiServer, kube: KubeClient
) -> None:
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        side = await world.shard.session()
        for machine in ("stays", "left"):
            side.tell(machine, "CONFIGURED")
            await until_phase(kube, machine, "Ready")
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        side = await world.shard.session()
        side.tell("stays", "CONFIGURED")
        side.send(ack=Acknowledgement(echo="resync"))
        await until_gone(kube, "left")
        await until_phase(kube, "stays", "Ready")


async def test_an_empty_resync_removes_nothing(apiserver: ApiServer, kube: KubeClient) -> None:
    async with operator(apiserver, kube) as world:
        async with serving(world.shard, world.shard_addr):
            side = await world.shard.session()
            side.tell("m1", "CONFIGURED")
            await until_phase(kube, "m1", "Ready")
        async with serving(world.shard, world.shard_addr):
            side = await world.shard.session()
            side.send(ack=Acknowledgement(echo="resync"))
            # A later frame that has been written shows that the resync was dealt with.
            side.tell("m2", "CONFIGURED")
            await until_phase(kube, "m2", "Ready")
            await until_phase(kube, "m1", "Ready")


async def test_capacity_hints_become_objects(world: World, side: ShardSide) -> None:
    for count in (3, 5):
        update = AvailableCapacityUpdate(
            supersedes_key="available:x",
            available_count=count,
            confidence=AvailableCapacityUpdate.HIGH,
            cost_per_hour=0.5,
        )
        side.send(available_capacity=update)

    async def hint() -> Object:
        items, _ = await world.kube.list(AVAILABLE_CAPACITIES)
        assert [item["spec"]["availableCount"] for item in items] == [5]
        spec: Object = items[0]["spec"]
        return spec

    spec = await eventually(hint)
    assert (spec["availability"], spec["cost"]) == ("High", "0.5")


async def test_bootstrap_requests_are_answered(apiserver: ApiServer, kube: KubeClient, tmp_path: Path) -> None:
    template = tmp_path / "bootstrap.tmpl"
    template.write_text("join {{ .ClusterID }} as {{ .MachineID }}")
    async with (
        operator(apiserver, kube, bootstrap_template_file=template) as world,
        serving(world.shard, world.shard_addr),
    ):
        side = await world.shard.session()
        side.send(bootstrap_request=BootstrapRequest(request_id="r1", cluster_id=CLUSTER, machine_id="m1"))
        answer = await side.receive("bootstrap_response")
        assert (answer.request_id, answer.user_data) == ("r1", b"join kwok-cluster-7 as m1")


async def test_a_shard_that_comes_back_gets_the_whole_demand_again(apiserver: ApiServer, kube: KubeClient) -> None:
    await ask(kube, "web")
    async with operator(apiserver, kube) as world:
        for _ in range(2):
            async with serving(world.shard, world.shard_addr):
                side = await world.shard.session()
                rollup = await side.receive("rollup")
                assert [dict(need.aggregate_resources) for need in rollup.needs] == [{"cpu": "500m"}]

        async def counted() -> bool:
            return await world.metric("bigfleet_operator_session_reconnects_total") >= 1

        assert await eventually(counted)


async def test_a_renewed_certificate_is_taken_up_without_a_restart(
    apiserver: ApiServer, kube: KubeClient, tmp_path: Path
) -> None:
    authority = Authority.create("test")
    authority.issue(Identity("shard", "shard-0"), dns_names=["shard.bigfleet"]).write(tmp_path / "shard")

    def enrol() -> None:
        authority.issue(Identity("cluster", CLUSTER)).write(tmp_path / "operator")

    enrol()
    async with (
        operator(apiserver, kube, tls_dir=tmp_path / "operator") as world,
        serving(world.shard, world.shard_addr, tmp_path / "shard"),
    ):
        side = await world.shard.session()
        assert side.peer == Identity("cluster", CLUSTER)
        await side.receive("rollup")
        enrol()
        await (await world.shard.session()).receive("rollup")


async def test_a_failed_machines_record_goes_after_a_while_unless_it_recovers(kube: KubeClient) -> None:
    states = NodeStates(
        kube,
        OperatorMetrics(CollectorRegistry()),
        CLUSTER,
        on_recovered=lambda node: None,
        failed_record_seconds=0.5,
    )
    running = asyncio.create_task(states.run())
    try:
        for machine in ("dies", "recovers"):
            states.receive(NodeStateUpdate(machine_id=machine, state="FAILED", last_error="no boot"))
            await until_phase(kube, machine, "Failed")
        states.receive(NodeStateUpdate(machine_id="recovers", state="CONFIGURED"))
        await until_gone(kube, "dies")
        record = await until_phase(kube, "recovers", "Ready")
        assert "lastError" not in record["status"]
    finally:
        running.cancel()
        await asyncio.wait([running])


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
    side.tell("m1", "IDLE")
    await until_gone(world.kube, "m1")


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
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["fake-m1"], grace_period_seconds=30))
    await side.receive("reclaim_ack")
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


async def test_a_machine_that_stays_after_all_takes_pods_again(world: World, side: ShardSide) -> None:
    await node_with_pods(world.kube)
    for state, phase in (("CONFIGURED", "Ready"), ("DRAINING", "Draining")):
        side.tell("m1", state)
        await until_phase(world.kube, "m1", phase)
    side.send(reclaim_instruction=ReclaimInstruction(instruction_id="i1", nodes=["m1"], grace_period_seconds=30))
    await side.receive("drain_report")
    side.tell("m1", "CONFIGURED")

    async def uncordoned() -> bool:
        node = await world.kube.get(NODES, "fake-m1")
        return not node["spec"].get("unschedulable")

    assert await eventually(uncordoned)
    await until_phase(world.kube, "m1", "Ready")
