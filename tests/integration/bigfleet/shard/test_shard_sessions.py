"""The session: who may speak, what is believed, and what a cluster hears after it was away."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from bigfleet.api.v1alpha1 import (
    capacity_pb2,
    provider_pb2,
    shard_pb2,
    shard_pb2_grpc,
    shardread_pb2,
    shardread_pb2_grpc,
)
from bigfleet.operator.availability import hint_spec
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from tests.integration.players.provider_client import CLUSTER, fleet_of, provider_at, refusal
from tests.integration.players.shard_client import Shard, cluster_at, shard_at, small_need

IDLE = {"idPrefix": "idle", "kind": "small", "count": 4, "state": "Idle"}
SPECULATIVE = {"idPrefix": "spec", "kind": "small", "count": 2, "state": "Speculative"}


async def first_answer(shard: Shard, message: shard_pb2.OperatorMessage, tls_dir: Path | None = None) -> Any:
    """What a session that opens with this message gets."""
    async with channel(shard.address, tls_dir, "shard") as connection:
        call = shard_pb2_grpc.ShardStub(connection).Session()
        await call.write(message)
        try:
            return await call.read()
        finally:
            call.cancel()


def hello(cluster: str) -> shard_pb2.OperatorMessage:
    return shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster))


@pytest.mark.parametrize(
    "message",
    [shard_pb2.OperatorMessage(rollup=capacity_pb2.ClusterCapacityNeeds()), hello("")],
    ids=["roll-up", "no id"],
)
async def test_a_session_opens_with_a_hello(tmp_path: Path, message: shard_pb2.OperatorMessage) -> None:
    async with provider_at(tmp_path) as provider, shard_at(tmp_path, provider) as shard:
        assert (await refusal(first_answer(shard, message)))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_with_tls_a_cluster_speaks_for_itself_only(tmp_path: Path) -> None:
    authority = Authority.create("test")
    authority.issue(Identity("shard", "shard-0"), dns_names=["shard.bigfleet"]).write(tmp_path / "shard-tls")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tmp_path / "provider-tls")
    for identity in (Identity("cluster", CLUSTER), Identity("admin"), Identity("readonly")):
        authority.issue(identity).write(tmp_path / identity.kind)
    async with (
        provider_at(tmp_path, tls_dir=tmp_path / "provider-tls") as provider,
        shard_at(tmp_path, provider, tls_dir=tmp_path / "shard-tls") as shard,
    ):
        for tls_dir, cluster in ((tmp_path / "cluster", "another"), (tmp_path / "admin", CLUSTER)):
            code, _ = await refusal(first_answer(shard, hello(cluster), tls_dir))
            assert code is grpc.StatusCode.PERMISSION_DENIED
        assert await shard.metric("session_identity_rejected_total") == 2
        answer = await first_answer(shard, hello(CLUSTER), tmp_path / "cluster")
        assert answer.ack.echo == "hello"
        assert answer.ack.shard_epoch == int((tmp_path / "shard" / "epoch").read_text())

        async def inspect(tls_dir: Path) -> Any:
            async with channel(shard.address, tls_dir, "shard") as connection:
                stub = shardread_pb2_grpc.ShardReadStub(connection)
                return [frame async for frame in stub.InspectNeeds(shardread_pb2.InspectNeedsRequest())]

        assert (await inspect(tmp_path / "readonly"))[0].header.total_needs == 0
        assert (await refusal(inspect(tmp_path / "cluster")))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_a_newer_session_takes_over(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path) as provider,
        shard_at(tmp_path, provider) as shard,
        channel(shard.address, None, "shard") as connection,
    ):
        older = shard_pb2_grpc.ShardStub(connection).Session()
        await older.write(hello(CLUSTER))
        await older.read()
        async with cluster_at(shard, provider) as newer:

            async def read_on() -> None:
                while await older.read():
                    pass

            assert (await refusal(read_on()))[0] is grpc.StatusCode.ABORTED
            await newer.roll_up()
            await newer.until(lambda: "rollup" in newer.acks)
            assert await shard.metric("active_sessions") == 1
            assert await shard.metric("session_lifecycle_total", event="replaced") == 1
        await shard.until_metric(0, "active_sessions")


async def test_a_bad_roll_up_is_rejected_whole_and_the_old_demand_stays(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=1))
        await cluster.until_configured(1)
        bad = small_need(machines=2)
        bad.aggregate_resources["cpu"] = "many"
        await cluster.roll_up(small_need(machines=3), bad)
        await shard.until_metric(1, "rollups_rejected_total", cluster=CLUSTER)
        assert cluster.acks.count("rollup") == 1
        assert await shard.metric("demand_machines") == 1
        assert len(cluster.in_state(provider_pb2.CONFIGURED)) == 1


async def test_a_roll_up_counts_for_the_cluster_of_its_session(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=1), cluster_id="somebody-else")
        (machine_id,) = await cluster.until_configured(1)
        assert (await provider.get(machine_id)).cluster == CLUSTER


async def test_a_hello_within_a_session_asks_again_where_machines_stand(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=1))
        (machine_id,) = await cluster.until_configured(1)
        told = len(cluster.frames)
        await cluster.send(hello=shard_pb2.Hello(cluster_id=CLUSTER))
        await cluster.until(lambda: cluster.acks.count("resync") == 2)
        again = [frame.node_state_update.machine_id for frame in cluster.frames[told:]]
        assert machine_id in again


async def test_a_cluster_that_was_away_hears_where_its_machines_stand_and_which_have_left(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
    ):
        async with cluster_at(shard, provider) as cluster:
            await cluster.roll_up(small_need(machines=2))
            gone, stays = sorted(await cluster.until_configured(2))
        await shard.until_metric(0, "active_sessions")
        # With a token of its own, so that the shard's next call is not fenced.
        await provider.drain(gone, shard_id="somebody", shard_epoch=1, sequence_number=1)
        await shard.until_metric(3, "inventory_machines", state="Idle")
        async with cluster_at(shard, provider) as cluster:
            heard = {
                frame.node_state_update.machine_id: frame.node_state_update
                for frame in cluster.frames
                if frame.WhichOneof("payload") == "node_state_update"
            }
            assert heard[gone].removed
            assert heard[stays].state == provider_pb2.CONFIGURED
            # Demand was not forgotten either: the machine is replaced now that the operator is back.
            assert len(await cluster.until_configured(2)) == 2


async def test_an_operator_that_cannot_render_a_blob_costs_no_machine(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        cluster.blob_error = "no such template"
        await cluster.roll_up(small_need(machines=1))
        await shard.until_at_least(1, "action_execute_outcomes_total", kind="Bootstrap", outcome="blob_error")
        assert await shard.metric("inventory_machines", state="Failed") == 0
        cluster.blob_error = ""
        await cluster.until_configured(1)


async def test_a_cluster_is_told_what_it_could_still_get(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE, SPECULATIVE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=1))
        await cluster.until(lambda: any(frame.HasField("available_capacity") for frame in cluster.frames))
        hint = next(frame.available_capacity for frame in cluster.frames if frame.HasField("available_capacity"))
        assert hint.supersedes_key.startswith("available:p=1000|")
        assert hint.confidence == shard_pb2.AvailableCapacityUpdate.HIGH
        assert hint.cost_per_hour == 1.0
        # As the operator writes it into the AvailableCapacity.
        assert hint_spec(hint)["resources"] == {"cpu": "4", "memory": str(8 * 2**30), "pods": "110"}


async def test_people_can_ask_why_a_need_is_unmet(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider) as cluster,
        channel(shard.address, None, "shard") as connection,
    ):
        await cluster.roll_up(small_need(machines=6), small_need(machines=0, priority=5))
        await shard.until_metric(1, "shortfalls")
        stub = shardread_pb2_grpc.ShardReadStub(connection)
        request = shardread_pb2.InspectNeedsRequest(cluster_id=CLUSTER, limit=1)
        header, row = [frame async for frame in stub.InspectNeeds(request)]
        assert header.header.total_needs == 2
        assert header.header.cycle > 0
        assert row.need.cluster_id == CLUSTER
        assert not row.need.satisfied
        assert row.need.residual_deficit.resources["cpu"] == "8"
        assert await shard.metric("shortfalls_by_priority", priority_class="service") == 1


async def test_the_shard_is_ready_once_it_knows_its_fleet(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as provider:
        nobody = {"provider_addr": "127.0.0.1:1", "cycle_interval_seconds": 0.1}
        async with shard_at(tmp_path / "alone", provider, **nobody) as shard:
            await shard.until_at_least(2, "reconcile_errors_total")
            assert (await shard.get("/readyz"))[0] == 503
            assert (await shard.get("/healthz"))[0] == 200
            assert await shard.metric("cycle_duration_seconds_count") == 0
        async with shard_at(tmp_path, provider) as shard:
            await shard.until_at_least(1, "cycle_duration_seconds_count")
            assert (await shard.get("/readyz"))[0] == 200


async def test_a_paused_shard_decides_and_does_nothing(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, actuation_paused=True, dry_run=True, audit_log=audit) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=2))
        await shard.until_metric(2, "actions_suppressed_total", kind="Bootstrap")
        assert await shard.metric("actions_total") == 0
        assert await shard.metric("actions_dryrun_total") == 0
        assert await shard.metric("actuation_paused") == 1
        assert await shard.metric("inventory_machines", state="Idle") == 4
        assert audit.read_text().count('"outcome": "suppressed"') == 2


async def test_a_dry_run_tells_every_reclaim_and_does_none(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    bound = {"idPrefix": "conf", "kind": "small", "count": 4, "state": "Configured", "cluster": CLUSTER}
    async with (
        provider_at(tmp_path, fleet_of(bound)) as provider,
        shard_at(tmp_path, provider, dry_run=True, audit_log=audit, reclaim_after_seconds=0) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await shard.until_metric(4, "inventory_machines", state="Configured")
        await cluster.roll_up()
        await shard.until_at_least(4, "actions_dryrun_total", kind="Reclaim")
        assert await shard.metric("reclaims_capped_total") == 0
        assert await shard.metric("actions_total") == 0
        assert await shard.metric("actions_suppressed_total") == 0
        assert await shard.metric("actuation_paused") == 0
        assert await shard.metric("inventory_machines", state="Configured") == 4
    told = [json.loads(line) for line in audit.read_text().splitlines()]
    first = {line["machine"] for line in told if line["cycle"] == told[0]["cycle"]}
    assert first == {f"conf-small-{number}" for number in range(4)}
    assert {line["outcome"] for line in told} == {"dryrun"}


async def test_a_demand_larger_than_the_limit_per_cycle_is_met_in_several_cycles_at_once(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, max_actions_per_cycle=1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=4))
        async with asyncio.timeout(5):  # half of what one timer would take
            await cluster.until_configured(4)
        assert await shard.metric("actions_deferred_total") == 3 + 2 + 1
        assert await shard.metric("actions_total", kind="Bootstrap") == 4


async def test_what_the_shard_says_of_a_cluster_is_what_it_asked_for_and_got(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=3))
        asked = {"cluster": CLUSTER, "resource": "cpu", "priority_class": "service", "kind": "plain"}
        await shard.until_metric(12, "cluster_demand", **asked)
        await shard.until_metric(3, "cluster_machines", cluster=CLUSTER)
        await shard.until_at_least(12, "cluster_allocatable", cluster=CLUSTER, resource="cpu")
        assert await shard.metric("cluster_sessions_total", cluster=CLUSTER) == 1
        assert await shard.metric("cluster_rollups_total", cluster=CLUSTER) == 1
        await cluster.roll_up(small_need(machines=2))
        await shard.until_metric(8, "cluster_demand", **asked)
