"""Configured means that the node was seen Ready in its cluster, and not before (BF-0056)."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from bigfleet.api.v1alpha1 import phonehome_pb2, phonehome_pb2_grpc
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.faults import FAULTS
from bigfleet.provider.kit import Timeouts
from tests.integration.players.provider_client import CLUSTER, IDLE, ProviderClient, fleet_of, provider_at, refusal

SEEDED = {
    "idPrefix": "conf-c0",
    "kind": "small",
    "count": 3,
    "state": "Configured",
    "cluster": CLUSTER,
    "metadata": {"bigfleet.lucy.sh/assigned-priority": "1000"},
}
SEEDED_IDS = [f"conf-c0-small-{number}" for number in range(3)]


async def stays_configuring(client: ProviderClient, machine_id: str) -> None:
    """A machine that is ready to land would have done so many times over by the end of this."""
    for _ in range(20):
        assert (await client.get(machine_id)).state == MachineState.CONFIGURING


async def test_a_machine_is_configuring_until_its_node_phones_home(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE)
        await client.until_metric(1, "bigfleet_provider_waiting_for_node")
        await stays_configuring(client, IDLE)
        async with client.phone_home() as report:
            await client.until_metric(1, "bigfleet_provider_phone_home_streams")
            await report(ready=["somebody-else"])
            await client.until_metric(1, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
            await stays_configuring(client, IDLE)
            await report(ready=[IDLE])
            await client.until(IDLE, MachineState.CONFIGURED)
        assert await client.metric("bigfleet_provider_waiting_for_node") == 0


async def test_another_clusters_word_does_not_count(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path) as client,
        client.phone_home(CLUSTER, ready=[IDLE]) as other,
        client.phone_home("kwok-cluster-1") as report,
    ):
        await client.until_metric(1, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
        await client.configure(IDLE, cluster_id="kwok-cluster-1")
        await client.until_metric(1, "bigfleet_provider_waiting_for_node")
        await other(ready=[IDLE, "one-more"])
        await client.until_metric(2, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
        await stays_configuring(client, IDLE)
        await report(ready=[IDLE])
        await client.until(IDLE, MachineState.CONFIGURED)


async def test_a_node_that_leaves_is_counted_and_its_machine_left_alone(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE)
        async with client.phone_home(ready=[IDLE]) as report:
            await client.until(IDLE, MachineState.CONFIGURED)
            await report(not_ready=[IDLE])
            await client.until_metric(1, "bigfleet_provider_ready_departures_total")
            await report(ready=[IDLE])
            await report(full=True)
            await client.until_metric(2, "bigfleet_provider_ready_departures_total")
        assert (await client.get(IDLE)).state == MachineState.CONFIGURED


async def test_a_node_that_outlives_its_drain_does_not_vouch_for_the_next_binding(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE)
        async with client.phone_home(ready=[IDLE]) as report:
            await client.until(IDLE, MachineState.CONFIGURED)
            await client.drain(IDLE)
            await client.until(IDLE, MachineState.IDLE)
            await client.configure(IDLE)
            await client.until_metric(1, "bigfleet_provider_waiting_for_node")
            await stays_configuring(client, IDLE)
            await report(ready=[IDLE])
            await client.until(IDLE, MachineState.CONFIGURED)


async def test_a_node_that_lingers_in_the_whole_set_does_not_vouch_either(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE)
        async with client.phone_home(ready=[IDLE]) as report:
            await client.until(IDLE, MachineState.CONFIGURED)
            await client.drain(IDLE)
            await client.until(IDLE, MachineState.IDLE)
            await client.configure(IDLE)
            await report(ready=[IDLE, "another"], full=True)
            await client.until_metric(1, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
            await stays_configuring(client, IDLE)
            await report(ready=["another"], full=True)
            await report(ready=[IDLE, "another"], full=True)
            await client.until(IDLE, MachineState.CONFIGURED)


async def test_the_last_word_of_a_stream_outlives_it_for_a_while(tmp_path: Path) -> None:
    async with provider_at(tmp_path, ready_keep_seconds=0.3) as client:
        async with client.phone_home(ready=[IDLE]):
            await client.until_metric(1, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
        await client.until_metric(0, "bigfleet_provider_phone_home_streams")
        assert await client.metric("bigfleet_provider_ready_nodes", cluster=CLUSTER) == 1
        await client.configure(IDLE)
        await client.until(IDLE, MachineState.CONFIGURED)
        await client.until_metric(0, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
        assert (await client.get(IDLE)).state == MachineState.CONFIGURED


async def test_the_newest_stream_speaks_for_its_cluster(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client, client.phone_home(ready=["a"]) as old:
        await client.until_metric(1, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
        async with client.phone_home(ready=["a", "b"]):
            await client.until_metric(2, "bigfleet_provider_ready_nodes", cluster=CLUSTER)
            await old(full=True)
            assert (await refusal(old.call))[0] is grpc.StatusCode.ABORTED
            assert await client.metric("bigfleet_provider_ready_nodes", cluster=CLUSTER) == 2
            assert await client.metric("bigfleet_provider_phone_home_streams") == 1


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([{"cluster_id": "", "full": True}], "cluster_id is empty"),
        ([{"cluster_id": CLUSTER, "ready": ["a"]}], "first frame must carry the whole Ready set"),
        ([{"cluster_id": CLUSTER, "full": True}, {"cluster_id": "other"}], "'other' on a stream that speaks for"),
    ],
)
async def test_a_malformed_frame_ends_its_stream(tmp_path: Path, frames: list[dict[str, Any]], words: str) -> None:
    async with provider_at(tmp_path) as client:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{client.provider.port}") as channel:
            stub = phonehome_pb2_grpc.PhoneHomeStub(channel)
            call = stub.Report(phonehome_pb2.ReadyReport(**frame) for frame in frames)
            with pytest.raises(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            code, details = await refusal(call)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert words in details


async def test_seeded_machines_wait_for_their_node_like_any_other(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(SEEDED)) as client:
        assert await client.metric("bigfleet_provider_ready_nodes", cluster=CLUSTER) == 0
        assert await client.metric("bigfleet_provider_waiting_for_node") == 3
        seeded = await client.get(SEEDED_IDS[0])
        assert (seeded.state, seeded.cluster) == (MachineState.CONFIGURING, CLUSTER)
        assert dict(seeded.shard_metadata) == SEEDED["metadata"]

        async with client.phone_home(ready=SEEDED_IDS[:2]) as report:
            await client.until(SEEDED_IDS[0], MachineState.CONFIGURED)
            await client.until(SEEDED_IDS[1], MachineState.CONFIGURED)
            await stays_configuring(client, SEEDED_IDS[2])
            await report(ready=SEEDED_IDS, full=True)
            await client.until(SEEDED_IDS[2], MachineState.CONFIGURED)
        assert await client.metric("bigfleet_provider_waiting_for_node") == 0
        assert await client.metric("bigfleet_provider_transition_seconds_count", kind="configure") == 0


async def test_the_time_of_a_seeded_machine_runs_from_its_clusters_first_stream(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(SEEDED), timeouts=Timeouts(configure_seconds=0.2)) as client:
        await asyncio.sleep(0.4)  # twice the time-out: only the passing of time shows that it does not run
        await stays_configuring(client, SEEDED_IDS[0])
        async with client.phone_home("kwok-cluster-1"):
            await client.until_metric(1, "bigfleet_provider_phone_home_streams")
            await stays_configuring(client, SEEDED_IDS[0])
        async with client.phone_home(ready=SEEDED_IDS[1:]):
            await client.until(SEEDED_IDS[1], MachineState.CONFIGURED)
            failed = await client.until(SEEDED_IDS[0], MachineState.FAILED)
        assert "waiting for its node" in failed.last_error


async def test_every_series_exists_at_zero_from_the_start(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(), data_dir=tmp_path / "data") as client:
        for state in MachineState:
            if state is not MachineState.UNSPECIFIED:
                assert await client.metric("bigfleet_provider_machines", state=state.label) == 0
        for kind in ("create", "configure", "drain", "delete"):
            assert await client.metric("bigfleet_provider_transition_seconds_count", kind=kind) == 0
            assert await client.metric("bigfleet_provider_transitions_total", kind=kind) == 0
            assert await client.metric("bigfleet_provider_rpcs_total", rpc=kind.capitalize(), code="OK") == 0
            assert await client.metric("bigfleet_provider_rpc_seconds_count", rpc=kind.capitalize()) == 0
        for fault in FAULTS:
            assert await client.metric("bigfleet_provider_faults_total", fault=fault) == 0
        for name in ("losses_total", "waiting_for_node", "phone_home_streams", "ready_departures_total"):
            assert await client.metric(f"bigfleet_provider_{name}") == 0
        assert await client.metric("bigfleet_provider_transitions_in_flight") == 0
        # The first writing of the journal.
        assert await client.metric("bigfleet_provider_compactions_total") == 1
        assert await client.metric("bigfleet_provider_commit_seconds_count") == 1
