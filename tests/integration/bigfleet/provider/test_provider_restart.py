"""A provider that comes back: what it has acknowledged holds, what was in flight goes on."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import grpc
import msgspec
import pytest

from bigfleet.api.v1alpha1 import faults_pb2, faults_pb2_grpc, provider_pb2_grpc
from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.process.files import InUse
from bigfleet.provider.fake.latency import Latency
from bigfleet.provider.kit import Timeouts
from tests.integration.players.apiserver import free_ports
from tests.integration.players.provider_client import (
    CLUSTER,
    IDLE,
    INSTANT,
    SPECULATIVE,
    eventually,
    fleet_of,
    provider_at,
    refusal,
)

S = MachineState


async def test_machines_marks_operations_and_metadata_survive(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with provider_at(tmp_path, data_dir=data) as client:
        await client.create(SPECULATIVE, shard_epoch=9, sequence_number=1)
        await client.until(SPECULATIVE, S.IDLE)
        bound = await client.configure(IDLE, shard_metadata={"a\x00": "é"})
        async with client.phone_home(ready=[IDLE]):
            await client.until(IDLE, S.CONFIGURED)
        before = {machine.id: machine for machine in (await client.list()).machines}
        assert (await refusal(client.drain("nobody", shard_epoch=7)))[0] is grpc.StatusCode.NOT_FOUND

    async with provider_at(tmp_path, data_dir=data) as client:
        assert {machine.id: machine for machine in (await client.list()).machines} == before
        stale = client.create(SPECULATIVE, shard_epoch=9, sequence_number=1)
        assert (await refusal(stale))[0] is grpc.StatusCode.FAILED_PRECONDITION
        assert (await refusal(client.drain("nobody", shard_epoch=6)))[0] is grpc.StatusCode.FAILED_PRECONDITION
        assert (await client.configure(IDLE, shard_epoch=2)).operation_id == bound.operation_id
        fresh = await client.create("spec-small-1", shard_epoch=2)
        assert fresh.operation_id != bound.operation_id


async def test_cursors_survive_and_deltas_carry_tombstones_from_before(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with provider_at(tmp_path, data_dir=data) as client:
        cursor = (await client.list()).revision
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{client.provider.port}")
        strike = faults_pb2.StrikeRequest(kind=faults_pb2.STRIKE_VANISH, machine_ids=[IDLE], count=1)
        assert (await faults_pb2_grpc.FaultInjectionStub(channel).Strike(strike)).machine_ids == [IDLE]
        await channel.close()
    async with provider_at(tmp_path, data_dir=data) as client:
        await client.create(SPECULATIVE)
        await client.until(SPECULATIVE, S.IDLE)
        delta = await client.list(since_revision=cursor)
        assert [machine.id for machine in delta.machines] == [SPECULATIVE]
        assert (list(delta.removed_ids), delta.full) == ([IDLE], False)
        # The fleet file still names it; what has vanished stays away.
        assert (await refusal(client.get(IDLE)))[0] is grpc.StatusCode.NOT_FOUND


async def test_a_lost_directory_is_stated_on_the_wire(tmp_path: Path) -> None:
    async with provider_at(tmp_path, data_dir=tmp_path / "one") as client:
        cursor = (await client.list()).revision
    async with provider_at(tmp_path, data_dir=tmp_path / "other") as client:
        assert (await client.list(since_revision=cursor)).full


async def test_what_was_in_flight_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    slow = replace(INSTANT, create=Latency(3600, 3600))
    async with provider_at(tmp_path, latencies=slow, data_dir=data) as client:
        created = await client.create(SPECULATIVE)
        configured = await client.configure(IDLE, shard_metadata={"k": "v"}, bootstrap_blob=b"blob")
    async with provider_at(tmp_path, data_dir=data) as client:
        assert (await client.create(SPECULATIVE, shard_epoch=2)).operation_id == created.operation_id
        await client.until(SPECULATIVE, S.IDLE)
        waiting = await client.get(IDLE)
        assert (waiting.state, waiting.cluster, dict(waiting.shard_metadata)) == (S.CONFIGURING, CLUSTER, {"k": "v"})
        async with client.phone_home(ready=[IDLE]):
            await client.until(IDLE, S.CONFIGURED)
        assert (await client.configure(IDLE, shard_epoch=2)).operation_id == configured.operation_id


async def test_the_time_of_a_transition_goes_on_over_a_restart(tmp_path: Path) -> None:
    data, in_time = tmp_path / "data", Timeouts(configure_seconds=60, resumed_seconds=0.1)
    async with provider_at(tmp_path, data_dir=data, timeouts=in_time) as client:
        await client.configure(IDLE)
    out_of_time = replace(in_time, configure_seconds=0.2)
    async with provider_at(tmp_path, data_dir=data, timeouts=out_of_time) as client:
        failed = await client.until(IDLE, S.FAILED)
        assert "while waiting for its node to be Ready" in failed.last_error


async def test_seeded_machines_are_seeded_once_and_wait_for_their_cluster_again(tmp_path: Path) -> None:
    seeded = fleet_of({"idPrefix": "c", "kind": "small", "count": 2, "state": "Configured", "cluster": CLUSTER})
    data = tmp_path / "data"
    async with provider_at(tmp_path, seeded, data_dir=data) as client, client.phone_home(ready=["c-small-0"]):
        await client.until("c-small-0", S.CONFIGURED)
    async with provider_at(tmp_path, seeded, data_dir=data) as client:
        assert await client.metric("bigfleet_provider_waiting_for_node") == 1
        assert (await client.get("c-small-0")).state == S.CONFIGURED
        async with client.phone_home(ready=["c-small-0", "c-small-1"]):
            await client.until("c-small-1", S.CONFIGURED)


async def test_two_providers_cannot_share_a_directory(tmp_path: Path) -> None:
    async with provider_at(tmp_path, data_dir=tmp_path / "data"):
        with pytest.raises(InUse, match="belongs to another process"):
            async with provider_at(tmp_path, data_dir=tmp_path / "data"):
                pass


# --- as a process --------------------------------------------------------------------------------------------------

MANY = fleet_of({"idPrefix": "spec", "kind": "small", "count": 30, "state": "Speculative"})
# Where a disk ends, as far as this process can write.
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); "
RUN = "import sys; from bigfleet.cli import main; main()"


@asynccontextmanager
async def process(directory: Path, port: int, before: str = "") -> AsyncIterator[asyncio.subprocess.Process]:
    """A provider process that keeps its state in the directory; killed at the end of the block."""
    fleet = directory / "fleet.json"
    fleet.write_bytes(msgspec.json.encode(MANY))
    latencies = [f"--latencies-{kind}-{at}=0.02" for kind in ("create", "delete") for at in ("median", "p99")]
    arguments = [argument.replace("=", "-seconds=") for argument in latencies]
    (metrics,) = free_ports(1)
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", before + RUN, "provider", *arguments),
        *("--listen", f"127.0.0.1:{port}", "--metrics-addr", f"127.0.0.1:{metrics}"),
        *("--fleet", str(fleet), "--data-dir", str(directory / "data"), "--plaintext"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


class Shard:
    """Creates and deletes machines as fast as it can, and remembers every answer."""

    def __init__(self, stub: Any, random: Random) -> None:
        self._stub = stub
        self._random = random
        self._sequence = itertools.count(1)
        # The last acknowledged call of each machine: its kind, its token's sequence number, its operation.
        self.acknowledged: dict[str, tuple[str, int, str]] = {}
        # Machines with a later call that was never answered: it may have been taken or not.
        self.unanswered: set[str] = set()

    async def work(self, names: list[str]) -> None:
        """Until the provider is gone."""
        while True:
            name = self._random.choice(names)
            try:
                machine = await self._stub.Get(pb.MachineRef(id=name))
                kind = {S.SPECULATIVE: "Create", S.IDLE: "Delete"}.get(MachineState(machine.state))
                if kind:
                    await self.call(kind, name)
            except grpc.aio.AioRpcError as error:
                # A call that the end of the process cuts off is CANCELLED, a later one UNAVAILABLE.
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    return
                raise

    async def call(self, kind: str, name: str, sequence: int = 0) -> Any:
        sequence = sequence or next(self._sequence)
        self.unanswered.add(name)
        request = {"Create": pb.CreateRequest, "Delete": pb.DeleteRequest}[kind]
        ack = await getattr(self._stub, kind)(
            request(machine_id=name, shard_id="shard-0", shard_epoch=1, sequence_number=sequence)
        )
        self.unanswered.discard(name)
        self.acknowledged[name] = (kind, sequence, ack.operation_id)
        return ack


REACHED = {"Create": (S.CREATING, S.IDLE), "Delete": (S.DELETING, S.SPECULATIVE)}


async def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    random = Random(7)
    names = [f"spec-small-{number}" for number in range(30)]
    acknowledged: dict[str, tuple[str, int, str]] = {}
    unanswered: set[str] = set()
    sequence = checked = 0
    for _ in range(4):
        async with process(tmp_path, port) as provider, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.CapacityProviderStub(channel)
            await stub.List(pb.ListFilter(), wait_for_ready=True, timeout=30)
            shard = Shard(stub, random)
            shard.acknowledged = acknowledged
            shard._sequence = itertools.count(sequence + 1)
            for name, (kind, used, operation) in list(acknowledged.items()):
                assert (await refusal(shard.call(kind, name, used)))[0] is grpc.StatusCode.FAILED_PRECONDITION
                if name not in unanswered:
                    assert (await stub.Get(pb.MachineRef(id=name))).state in REACHED[kind], (name, kind)
                    assert (await shard.call(kind, name)).operation_id == operation
                    checked += 1
            shard.unanswered = unanswered
            work = [asyncio.create_task(shard.work(names[start::3])) for start in range(3)]
            await eventually(lambda: len(acknowledged) > 20, seconds=20)
            await asyncio.sleep(random.random() / 5)
            provider.kill()
            await asyncio.gather(*work)
            sequence = next(shard._sequence)
    assert checked > 40


async def test_a_full_disk_ends_the_process_with_a_reason_and_loses_nothing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with (
        process(tmp_path, port, FULL_DISK) as provider,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = provider_pb2_grpc.CapacityProviderStub(channel)
        await stub.List(pb.ListFilter(), wait_for_ready=True, timeout=30)
        shard = Shard(stub, Random(1))
        await asyncio.wait_for(shard.work([f"spec-small-{number}" for number in range(30)]), timeout=60)
        _, errors = await asyncio.wait_for(provider.communicate(), timeout=20)
        assert provider.returncode == 1
        assert "provider: state cannot be stored: [Errno 27] File too large" in errors.decode()
        assert "Traceback" not in errors.decode()
    assert shard.acknowledged
    async with process(tmp_path, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.CapacityProviderStub(channel)
        for name, (kind, _, _) in shard.acknowledged.items():
            if name in shard.unanswered:
                continue
            machine = await stub.Get(pb.MachineRef(id=name), wait_for_ready=True, timeout=30)
            assert machine.state in REACHED[kind]
