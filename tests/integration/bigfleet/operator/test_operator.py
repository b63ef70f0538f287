"""The operator between a real kube-apiserver and a shard on a real socket."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import faults_pb2, faults_pb2_grpc
from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.api.v1alpha1.shard_pb2 import (
    Acknowledgement,
    AvailableCapacityUpdate,
    BootstrapRequest,
    NodeStateUpdate,
)
from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import AVAILABLE_CAPACITIES, CAPACITY_REQUESTS, UPCOMING_NODES
from bigfleet.operator.metrics import SESSION_ENDERS, OperatorMetrics
from bigfleet.operator.nodestates import NodeStates
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.bigfleet.operator.operator_world import CLUSTER, World, operator, until_gone, until_phase
from tests.integration.players.apiserver import NAMESPACE, ApiServer, eventually
from tests.integration.players.provider_client import fleet_of, provider_at
from tests.integration.players.scripted_shard import ShardSide, serving
from tests.integration.players.shard_client import shard_at

pytestmark = pytest.mark.integration

ZONE = "topology.kubernetes.io/zone"


async def ask(kube: KubeClient, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": CAPACITY_REQUESTS.api_version,
        "kind": "CapacityRequest",
        "metadata": {"name": name},
        "spec": {"priority": 1000, "resources": {"cpu": "500m"}} | spec,
    }
    await kube.create(CAPACITY_REQUESTS, body, NAMESPACE)


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


async def test_an_empty_resync_is_believed_the_third_time(apiserver: ApiServer, kube: KubeClient) -> None:
    async with operator(apiserver, kube) as world:
        async with serving(world.shard, world.shard_addr):
            side = await world.shard.session()
            side.tell("m1", "CONFIGURED")
            await until_phase(kube, "m1", "Ready")
        async with serving(world.shard, world.shard_addr):
            side = await world.shard.session()
            for _ in range(2):
                side.send(ack=Acknowledgement(echo="resync"))
                await side.receive("hello")  # it asks again
                await until_phase(kube, "m1", "Ready")
            side.send(ack=Acknowledgement(echo="resync"))
            await until_gone(kube, "m1")


async def test_the_record_of_a_last_machine_that_left_while_all_were_down_goes(
    tmp_path: Path, apiserver: ApiServer, kube: KubeClient
) -> None:
    fleet = fleet_of({"idPrefix": "c", "kind": "small", "count": 1, "state": "Configured", "cluster": CLUSTER})
    async with provider_at(tmp_path, fleet) as provider:
        async with shard_at(tmp_path, provider) as shard, operator(apiserver, kube, shard.address):
            await until_phase(kube, "c-small-0", "Registered")
        strike = faults_pb2.StrikeRequest(kind=faults_pb2.STRIKE_VANISH, machine_ids=["c-small-0"], count=1)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{provider.provider.port}") as dialled:
            await faults_pb2_grpc.FaultInjectionStub(dialled).Strike(strike)
        async with shard_at(tmp_path, provider) as shard, operator(apiserver, kube, shard.address):
            await until_gone(kube, "c-small-0")


async def test_capacity_hints_become_objects(world: World, side: ShardSide) -> None:
    for count in (3, 5):
        update = AvailableCapacityUpdate(
            supersedes_key="available:x",
            available_count=count,
            confidence=AvailableCapacityUpdate.HIGH,
            cost_per_hour=0.5,
            resources=Resources(resources={"cpu": "4"}),
        )
        side.send(available_capacity=update)

    async def hint() -> Object:
        items, _ = await world.kube.list(AVAILABLE_CAPACITIES)
        assert [item["spec"]["availableCount"] for item in items] == [5]
        spec: Object = items[0]["spec"]
        return spec

    spec = await eventually(hint)
    assert (spec["availability"], spec["cost"], spec["resources"]) == ("High", "0.5", {"cpu": "4"})


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
        assert await world.metric("bigfleet_operator_blob_requests_total") == 1


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
        assert await ended(world) == {"operator": 1}


async def ended(world: World) -> dict[str, float]:
    """The sessions that have ended, by the side that did it."""
    series = {side: f'bigfleet_operator_sessions_ended_total{{by="{side}"}}' for side in SESSION_ENDERS}
    counts = {side: await world.metric(name) for side, name in series.items()}
    return {side: count for side, count in counts.items() if count}


async def test_a_session_that_the_shard_ends_is_told_from_one_that_breaks(
    apiserver: ApiServer, kube: KubeClient
) -> None:
    async with operator(apiserver, kube) as world:
        async with serving(world.shard, world.shard_addr):
            (await world.shard.session()).hang_up()
            await world.shard.session()
            assert await ended(world) == {"shard": 1}

        # Until the shard is back, dials fail.
        async def broke() -> bool:
            return (await ended(world)).get("connection", 0) > 0

        assert await eventually(broke)


async def test_a_machine_that_is_called_away_while_it_is_configured_is_counted(world: World, side: ShardSide) -> None:
    for machine in ("stays", "drained"):
        side.tell(machine, "CONFIGURED")
        await until_phase(world.kube, machine, "Ready")
    side.tell("drained", "DRAINING")
    await until_phase(world.kube, "drained", "Draining")
    side.tell("drained", "IDLE", removed=True)
    await until_gone(world.kube, "drained")
    assert await world.metric("bigfleet_operator_removed_in_service_total") == 0
    side.tell("stays", "IDLE", removed=True)
    await until_gone(world.kube, "stays")
    assert await world.metric("bigfleet_operator_removed_in_service_total") == 1


async def nothing_to_open(node: str) -> None:
    raise AssertionError(f"{node} was never closed")


async def test_a_failed_machines_record_goes_after_a_while_unless_it_recovers(kube: KubeClient) -> None:
    states = NodeStates(
        kube,
        OperatorMetrics(CollectorRegistry()),
        CLUSTER,
        on_recovered=nothing_to_open,
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
