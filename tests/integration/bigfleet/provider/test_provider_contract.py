"""The provider contract over a real socket (docs/reference/wire.md#provider-rpcs)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.faults import Faults
from bigfleet.provider.fake.latency import Latency
from bigfleet.provider.kit import Timeouts
from tests.integration.players.provider_client import (
    CLUSTER,
    IDLE,
    INSTANT,
    SPECULATIVE,
    ProviderClient,
    provider_at,
    refusal,
)

HOSTILE_METADATA = {
    "bigfleet.lucy.sh/assigned-group": "topology.kubernetes.io/zone\x00app=web",
    "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": "+Inf",
    "unicode/ключ": "値 🚀",
    "empty": "",
    "": "no key",
    "spaces ": " \t\r\n",
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[ProviderClient]:
    async with provider_at(tmp_path) as client:
        yield client


async def test_a_machine_goes_round_the_whole_life_cycle_and_leaves_no_residue(client: ProviderClient) -> None:
    before = await client.get(SPECULATIVE)
    assert not before.HasField("host")
    assert before.instance_type == "m6i.large"
    assert dict(before.allocatable.resources) == {"cpu": "4", "memory": "8Gi", "pods": "110"}

    for _ in range(2):
        ack = await client.create(SPECULATIVE)
        assert ack.operation_id
        assert ack.machine.state == MachineState.CREATING
        idle = await client.until(SPECULATIVE, MachineState.IDLE)
        assert (idle.host.provider, idle.host.ref) == ("fake", f"host-{SPECULATIVE}")

        ack = await client.configure(SPECULATIVE, shard_metadata={"k": "v"}, bootstrap_blob=b"#!/bin/sh\x00")
        assert ack.machine.state == MachineState.CONFIGURING
        async with client.phone_home(ready=[SPECULATIVE]):
            configured = await client.until(SPECULATIVE, MachineState.CONFIGURED)
        assert (configured.cluster, dict(configured.shard_metadata)) == (CLUSTER, {"k": "v"})

        ack = await client.drain(SPECULATIVE, grace_period_seconds=600)
        assert ack.machine.state == MachineState.DRAINING
        assert ack.machine.cluster == CLUSTER
        idle = await client.until(SPECULATIVE, MachineState.IDLE)
        assert not idle.cluster

        ack = await client.delete(SPECULATIVE)
        assert ack.machine.state == MachineState.DELETING
        assert await client.until(SPECULATIVE, MachineState.SPECULATIVE) == before

    assert await client.metric("bigfleet_provider_transition_seconds_count", kind="configure") == 2
    assert await client.metric("bigfleet_provider_rpcs_total", rpc="Drain", code="OK") == 2
    assert await client.metric("bigfleet_provider_machines", state="Speculative") == 3


async def test_a_repeated_call_has_the_same_operation_id_until_the_next_cycle(client: ProviderClient) -> None:
    first = await client.configure(IDLE)
    assert (await client.configure(IDLE)).operation_id == first.operation_id
    async with client.phone_home(ready=[IDLE]):
        await client.until(IDLE, MachineState.CONFIGURED)
    assert (await client.configure(IDLE)).operation_id == first.operation_id

    drained = await client.drain(IDLE)
    assert drained.operation_id != first.operation_id
    await client.until(IDLE, MachineState.IDLE)
    assert (await client.drain(IDLE)).operation_id == drained.operation_id

    assert (await client.configure(IDLE)).operation_id not in (first.operation_id, drained.operation_id)


async def test_parallel_identical_calls_are_one_operation(client: ProviderClient) -> None:
    acks = await asyncio.gather(
        *(client.create(SPECULATIVE, shard_id="", shard_epoch=0, sequence_number=0) for _ in range(20))
    )
    assert len({ack.operation_id for ack in acks}) == 1
    await client.until(SPECULATIVE, MachineState.IDLE)
    assert await client.metric("bigfleet_provider_transition_seconds_count", kind="create") == 1


async def test_a_call_for_the_state_a_machine_began_in_gets_a_lasting_operation_id(client: ProviderClient) -> None:
    first = await client.create(IDLE)
    assert first.operation_id
    assert first.machine.state == MachineState.IDLE
    assert (await client.create(IDLE)).operation_id == first.operation_id


@pytest.mark.parametrize(
    ("epoch", "sequence", "accepted"),
    [(5, 10, False), (5, 9, False), (4, 11, False), (5, 11, True), (6, 1, True), (2**63 - 1, 2**63 - 1, True)],
)
async def test_only_a_newer_token_passes(client: ProviderClient, epoch: int, sequence: int, accepted: bool) -> None:
    await client.create(SPECULATIVE, shard_epoch=5, sequence_number=10)
    again = client.create(SPECULATIVE, shard_epoch=epoch, sequence_number=sequence)
    if accepted:
        assert (await again).operation_id
    else:
        code, words = await refusal(again)
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "epoch 5 sequence 10 was seen" in words


async def test_fences_stand_per_shard_and_machine_and_not_before_reads(client: ProviderClient) -> None:
    await client.create(SPECULATIVE, shard_epoch=9, sequence_number=9)
    assert (await client.create("spec-small-1", shard_epoch=1, sequence_number=1)).operation_id
    assert (await client.create(SPECULATIVE, shard_id="shard-1", shard_epoch=1, sequence_number=1)).operation_id
    assert (await client.create(SPECULATIVE, shard_id="", shard_epoch=0, sequence_number=0)).operation_id
    assert (await client.get(SPECULATIVE)).id == SPECULATIVE
    assert len((await client.list()).machines) == 5


@pytest.mark.parametrize("rpc", ["create", "configure", "drain", "delete"])
async def test_the_fence_comes_before_not_found_and_advances_even_so(client: ProviderClient, rpc: str) -> None:
    call = getattr(client, rpc)
    code, _ = await refusal(call("nobody", shard_epoch=2, sequence_number=1))
    assert code is grpc.StatusCode.NOT_FOUND
    code, _ = await refusal(call("nobody", shard_epoch=1, sequence_number=99))
    assert code is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("rpc", ["create", "configure", "drain", "delete"])
@pytest.mark.parametrize("fields", [{"machine_id": ""}, {"shard_epoch": -1}, {"sequence_number": -1}])
async def test_a_malformed_call_is_refused_before_the_fence(
    client: ProviderClient, rpc: str, fields: dict[str, int]
) -> None:
    arguments = {"machine_id": SPECULATIVE, "shard_epoch": 7, "sequence_number": 7} | fields
    code, words = await refusal(getattr(client, rpc)(**arguments))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert next(iter(fields)) in words
    assert (await client.create(SPECULATIVE, shard_epoch=1, sequence_number=1)).operation_id


async def test_arguments_of_single_rpcs_are_checked_too(client: ProviderClient) -> None:
    for call, word in (
        (client.drain(IDLE, grace_period_seconds=-1), "grace_period_seconds"),
        (client.configure(IDLE, cluster_id=""), "cluster_id"),
        (client.get(""), "id"),
        (client.list(max_results=-1), "max_results"),
        (client.list(states=[99]), "99"),
    ):
        code, words = await refusal(call)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert word in words
    assert (await refusal(client.get("nobody")))[0] is grpc.StatusCode.NOT_FOUND
    assert await client.metric("bigfleet_provider_rpcs_total", rpc="Get", code="NOT_FOUND") == 1


async def test_a_call_out_of_position_is_refused_and_changes_nothing(client: ProviderClient) -> None:
    configured = await client.configured(IDLE)
    for call in (client.drain(SPECULATIVE), client.configure(SPECULATIVE), client.create(IDLE)):
        assert (await refusal(call))[0] is grpc.StatusCode.INTERNAL
    code, words = await refusal(client.configure(IDLE, cluster_id="kwok-cluster-1"))
    assert code is grpc.StatusCode.INTERNAL
    assert f"is Configured for cluster '{CLUSTER}'" in words
    assert (await refusal(client.delete(IDLE)))[0] is grpc.StatusCode.UNIMPLEMENTED
    assert await client.get(IDLE) == configured


async def test_metadata_is_echoed_to_the_byte_and_cleared_with_the_binding(client: ProviderClient) -> None:
    ack = await client.configure(IDLE, shard_metadata=HOSTILE_METADATA)
    assert dict(ack.machine.shard_metadata) == HOSTILE_METADATA
    configuring = await client.get(IDLE)
    assert configuring.state == MachineState.CONFIGURING
    assert dict(configuring.shard_metadata) == HOSTILE_METADATA

    async with client.phone_home(ready=[IDLE]):
        await client.until(IDLE, MachineState.CONFIGURED)
    listed = (await client.list(states=[MachineState.CONFIGURED])).machines
    assert [(machine.cluster, dict(machine.shard_metadata)) for machine in listed] == [(CLUSTER, HOSTILE_METADATA)]

    await client.drain(IDLE)
    idle = await client.until(IDLE, MachineState.IDLE)
    assert not idle.cluster
    assert not idle.shard_metadata


async def test_a_failed_machine_comes_back_by_the_call_that_failed(tmp_path: Path) -> None:
    async with provider_at(tmp_path, timeouts=Timeouts(configure_seconds=0.1)) as client:
        first = await client.configure(IDLE)
        failed = await client.until(IDLE, MachineState.FAILED)
        assert failed.last_error == "configure: timed out after 0.1 s while waiting for its node to be Ready"
        assert await client.metric("bigfleet_provider_transition_failures_total", kind="configure") == 1
        assert await client.metric("bigfleet_provider_waiting_for_node") == 0

        assert (await refusal(client.create(IDLE)))[0] is grpc.StatusCode.INTERNAL
        async with client.phone_home(ready=[IDLE]):
            again = await client.configure(IDLE)
            assert again.operation_id != first.operation_id
            assert not again.machine.last_error
            assert not (await client.until(IDLE, MachineState.CONFIGURED)).last_error


async def test_a_drain_takes_no_longer_than_its_grace(tmp_path: Path) -> None:
    slow_drains = replace(INSTANT, drain=Latency(3600, 3600))
    async with provider_at(tmp_path, latencies=slow_drains) as client:
        await client.configured(IDLE)
        await client.drain(IDLE, grace_period_seconds=0)
        assert (await client.until(IDLE, MachineState.IDLE)).cluster == ""


async def test_configure_can_be_refused_on_purpose(tmp_path: Path) -> None:
    async with provider_at(tmp_path, faults=Faults(refuse_configure=True)) as client:
        code, words = await refusal(client.configure(IDLE))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "refused by fault injection" in words
        assert (await client.get(IDLE)).state == MachineState.IDLE


async def test_configure_can_fail_on_purpose(tmp_path: Path) -> None:
    async with provider_at(tmp_path, faults=Faults(configure_failure_ratio=1.0)) as client:
        await client.configure(IDLE)
        failed = await client.until(IDLE, MachineState.FAILED)
        assert failed.last_error == "configure: failed by fault injection"


async def test_list_filters_caps_and_pages_without_a_gap(client: ProviderClient) -> None:
    idle = await client.list(states=[MachineState.IDLE])
    assert {machine.id for machine in idle.machines} == {"idle-metal-0", "idle-metal-1"}

    seen: list[str] = []
    page = await client.list(max_results=2)
    while page.machines:
        assert len(page.machines) <= 2
        assert not page.full
        seen += [machine.id for machine in page.machines]
        page = await client.list(max_results=2, since_revision=page.revision)
    assert sorted(seen) == sorted(machine.id for machine in (await client.list()).machines)


async def test_a_delta_has_what_changed_and_nothing_else(client: ProviderClient) -> None:
    cursor = (await client.list()).revision
    quiet = await client.list(since_revision=cursor)
    assert (list(quiet.machines), list(quiet.removed_ids), quiet.revision) == ([], [], cursor)

    await client.create(SPECULATIVE)
    await client.until(SPECULATIVE, MachineState.IDLE)
    delta = await client.list(since_revision=cursor)
    assert [(machine.id, machine.state) for machine in delta.machines] == [(SPECULATIVE, MachineState.IDLE)]
    assert not delta.full
    assert int(delta.revision) > int(cursor)


@pytest.mark.parametrize("cursor", [b"garbage", b"-1", b"0", b"9" * 20, b"9" * 9999, b"\xff\x00", "١٢".encode()])
async def test_a_cursor_that_is_not_ours_is_answered_in_full(client: ProviderClient, cursor: bytes) -> None:
    answer = await client.list(since_revision=cursor)
    assert answer.full
    assert len(answer.machines) == 5


async def test_a_cursor_from_before_a_restart_is_answered_in_full(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        cursor = (await client.list()).revision
    async with provider_at(tmp_path) as client:
        assert (await client.list(since_revision=cursor)).full


async def test_a_shard_is_listed_its_own_domains_when_the_provider_knows_them(tmp_path: Path) -> None:
    domains = ("shard-0:topology.kubernetes.io/zone=zone-a", "shard-1:topology.bigfleet/rack=nowhere")
    async with provider_at(tmp_path, shard_domains=domains) as client:
        whole = await client.list()
        assert len(whole.machines) == 5
        assert {machine.zone for machine in (await client.list(shard_id="shard-0")).machines} == {"zone-a"}
        assert not (await client.list(shard_id="shard-1")).machines
        assert len((await client.list(shard_id="shard-2")).machines) == 5

        await client.configure(IDLE)
        delta = await client.list(shard_id="shard-0", since_revision=whole.revision)
        assert (list(delta.machines), list(delta.removed_ids)) == ([], [])
        assert delta.revision == (await client.list()).revision
