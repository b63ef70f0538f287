"""The ledger over real sockets: what it sees of calls, nodes and strikes, and how it is read out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import faults_pb2, faults_pb2_grpc, phonehome_pb2, phonehome_pb2_grpc
from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.fleet_file import read_fleet
from bigfleet.provider.fake.ledger.file import count_ledger, read_entries
from bigfleet.provider.fake.ledger.reading import fetch_ledger
from bigfleet.provider.fake.server import FakeProvider, ProviderOptions, serving
from bigfleet.provider.kit import Timeouts
from bigfleet.provider.kit.inventory import ListAnswer, ProviderInventory
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from tests.integration.bigfleet.conformance.mutants.breaking import retouch
from tests.integration.players.apiserver import free_ports
from tests.integration.players.provider_client import (
    CLUSTER,
    FLEET,
    IDLE,
    INSTANT,
    SPECULATIVE,
    ProviderClient,
    eventually,
    fleet_of,
    provider_at,
)

LEDGER = "bigfleet_provider_ledger"
SEEDED = {"idPrefix": "conf", "kind": "small", "count": 2, "state": "Configured", "cluster": CLUSTER}
SEEDED_IDS = ["conf-small-0", "conf-small-1"]
RULES = (
    *("configured_before_ready", "blob_wrong", "node_vanished"),
    *("two_owners", "fence_broken", "shape_told_wrong", "left_out_of_list"),
)


# As a shard stamps a machine that it takes for a need without requirements.
STAMPS = {
    "bigfleet.lucy.sh/assigned-need-fingerprint": "p=7|ipb=0|rpb=0|reqs=|spr=",
    "bigfleet.lucy.sh/assigned-priority": "7",
    "bigfleet.lucy.sh/assigned-interruption-penalty-dollars": "0",
    "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": "0",
}


def blob(machine_id: str) -> bytes:
    return f"# bootstrap of machine {machine_id} for cluster {CLUSTER}".encode()


async def violations(client: ProviderClient) -> dict[str, float]:
    counts = {rule: await client.metric(f"{LEDGER}_violations_total", rule=rule) for rule in RULES}
    assert None not in counts.values()
    return {rule: count for rule, count in counts.items() if count}


async def bound_machines(client: ProviderClient, edge: str = "highest") -> float | None:
    return await client.metric(f"{LEDGER}_bound_machines", cluster=CLUSTER, edge=edge)


async def strike(client: ProviderClient, machine_id: str, kind: Any = faults_pb2.STRIKE_LOSE) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{client.provider.port}") as channel:
        request = faults_pb2.StrikeRequest(kind=kind, machine_ids=[machine_id], count=1)
        await faults_pb2_grpc.FaultInjectionStub(channel).Strike(request)


class Words:
    """A cluster's stream, and the machines that the provider has given it."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.given: dict[str, phonehome_pb2.MachineWord] = {}
        self.gone: list[phonehome_pb2.MachineWord] = []
        self.frames = 0

    async def read(self) -> None:
        while (frame := await self.call.read()) is not grpc.aio.EOF:
            self.frames += 1
            if frame.full:
                self.given = {}
            for word in frame.machines:
                self.given[word.machine_id] = word
                if word.gone:
                    self.gone.append(self.given.pop(word.machine_id))

    async def until(self, *machine_ids: str) -> None:
        await eventually(lambda: self.frames and self.given.keys() == set(machine_ids))

    async def report(self, **fields: Any) -> None:
        await self.call.write(phonehome_pb2.ReadyReport(cluster_id=CLUSTER, **fields))


@asynccontextmanager
async def cluster(client: ProviderClient, *ready: str) -> AsyncIterator[Words]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{client.provider.port}") as channel:
        words = Words(phonehome_pb2_grpc.PhoneHomeStub(channel).Report())
        reading = asyncio.ensure_future(words.read())
        await words.report(ready=ready, full=True)
        try:
            yield words
        finally:
            words.call.cancel()
            await asyncio.wait((reading,))


async def test_a_machines_life_leaves_no_violation_and_every_call_in_the_file(tmp_path: Path) -> None:
    async with provider_at(tmp_path, data_dir=tmp_path / "data") as client, client.phone_home() as report:
        await client.create(SPECULATIVE)
        await client.until(SPECULATIVE, MachineState.IDLE)
        await client.configure(SPECULATIVE, bootstrap_blob=blob(SPECULATIVE))
        await client.until_metric(1, "bigfleet_provider_waiting_for_node")
        assert await bound_machines(client) == 0
        await report(ready=[SPECULATIVE])
        await client.until(SPECULATIVE, MachineState.CONFIGURED)
        assert await bound_machines(client) == 1
        cpu = await client.metric(f"{LEDGER}_bound_allocatable", cluster=CLUSTER, resource="cpu", edge="highest")
        price = await client.metric(f"{LEDGER}_bound_price_per_hour", cluster=CLUSTER, edge="highest")
        assert (cpu, price) == (4, 1.0)
        await client.drain(SPECULATIVE)
        await client.until(SPECULATIVE, MachineState.IDLE)
        assert await bound_machines(client, "lowest") == 0
        await client.delete(SPECULATIVE)
        await client.until(SPECULATIVE, MachineState.SPECULATIVE)
        with pytest.raises(grpc.aio.AioRpcError):
            await client.drain(SPECULATIVE)
        await client.list()
        assert await violations(client) == {}
        assert await client.metric(f"{LEDGER}_calls_total", call="Drain", code="OK") == 1
        assert await client.metric(f"{LEDGER}_configures_total", cluster=CLUSTER) == 1
        assert await client.metric(f"{LEDGER}_list_seconds_count") == 1
        assert await client.metric(f"{LEDGER}_calls_total", call="Drain", code="INTERNAL") == 1
        for call in ("Create", "Configure", "Drain", "Delete"):
            assert await client.metric(f"{LEDGER}_oldest_seconds", call=call) == 0
    calls = [entry for entry in read_entries(tmp_path / "data" / "ledger.jsonl") if "call" in entry]
    assert [(entry["call"], entry["cluster"], entry["answer"]) for entry in calls] == [
        ("Create", "", "OK"),
        ("Configure", CLUSTER, "OK"),
        ("Drain", CLUSTER, "OK"),
        ("Delete", "", "OK"),
        ("Drain", "", "INTERNAL"),
    ]
    assert {(entry["shard"], entry["epoch"], entry["machine"]) for entry in calls} == {("shard-0", 1, SPECULATIVE)}
    assert [entry["sequence"] for entry in calls] == [1, 2, 3, 4, 5]


async def test_a_call_is_open_until_an_answer_tells_its_end(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        cursor = (await client.list()).revision
        await client.configure(IDLE, bootstrap_blob=blob(IDLE))
        await client.until_metric(1, "bigfleet_provider_waiting_for_node")

        async def oldest() -> float:
            return await client.metric(f"{LEDGER}_oldest_seconds", call="Configure") or 0

        async def waiting() -> float:
            return await client.metric(f"{LEDGER}_waiting_for_node_oldest_seconds", cluster=CLUSTER) or 0

        await eventually(lambda: oldest())
        assert await waiting() > 0
        async with client.phone_home(ready=[IDLE]):
            await client.until_metric(1, "bigfleet_provider_machines", state="Configured")
            assert await waiting() == 0
            assert await oldest() > 0  # nobody has been told
            await client.list(since_revision=cursor)
            assert await oldest() == 0


async def test_a_kit_that_says_configured_too_early_is_found_out(tmp_path: Path) -> None:
    def early(machine: pb.Machine) -> None:
        if machine.state == pb.CONFIGURING:
            machine.state = pb.CONFIGURED

    async with _broken(tmp_path, early) as client:
        await client.configure(IDLE, bootstrap_blob=blob(IDLE))
        await client.rpc.Get(pb.MachineRef(id=IDLE))
        await client.list()
        assert await violations(client) == {"configured_before_ready": 1}


async def test_a_kit_that_shows_another_shape_is_found_out(tmp_path: Path) -> None:
    async with _broken(tmp_path, lambda machine: machine.labels.update({"more": "labels"})) as client:
        await client.list()
        await client.list()
        assert await violations(client) == {"shape_told_wrong": 5}


async def test_a_kit_that_does_not_echo_what_a_shard_stamped_is_found_out(tmp_path: Path) -> None:
    stamped = {"priority": "7"}
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE, bootstrap_blob=blob(IDLE), shard_metadata=stamped)
        await client.list()
        assert await violations(client) == {}
    async with _broken(tmp_path, lambda machine: machine.shard_metadata.clear()) as client:
        await client.configure(IDLE, bootstrap_blob=blob(IDLE), shard_metadata=stamped)
        await client.list()
        assert await violations(client) == {"shape_told_wrong": 1}


async def test_a_walk_that_leaves_machines_out_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(client: ProviderClient) -> None:
        page = await client.list(max_results=2)
        while page.more:
            page = await client.list(max_results=2, since_revision=page.revision)

    async with provider_at(tmp_path) as client:
        await client.list()
        await walk(client)
        assert await violations(client) == {}
        whole = ProviderInventory.page

        def forgetful(inventory: ProviderInventory, *arguments: Any) -> ListAnswer:
            page = whole(inventory, *arguments)
            return replace(page, records=page.records[1:])

        monkeypatch.setattr(ProviderInventory, "page", forgetful)
        await walk(client)
        assert await violations(client) == {"left_out_of_list": 1}


@asynccontextmanager
async def _broken(directory: Path, change: Any) -> AsyncIterator[ProviderClient]:
    """A provider whose kit retouches every machine that it shows."""
    file = directory / "fleet.json"
    file.write_bytes(msgspec.json.encode(FLEET))
    options = ProviderOptions("127.0.0.1:0", "127.0.0.1:0", file, plaintext=True, latencies=INSTANT)
    provider = FakeProvider(options, CollectorRegistry())
    provider.seed(read_fleet(file))
    retouch(provider, change)
    async with (
        serving(provider, options) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        yield ProviderClient(running, channel, "shard-0")


async def test_a_blob_for_another_machine_is_found_out_unless_templates_are_free(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        await client.configure(IDLE, bootstrap_blob=blob("another"))
        assert await violations(client) == {"blob_wrong": 1}
    async with provider_at(tmp_path, check_blobs=False) as client:
        await client.configure(IDLE)
        assert await violations(client) == {}


async def test_losses_of_machines_in_service_are_counted_until_another_one_joins(tmp_path: Path) -> None:
    fleet = fleet_of(SEEDED, {"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"})
    async with provider_at(tmp_path, fleet, data_dir=tmp_path / "data") as client:
        assert await client.metric(f"{LEDGER}_waiting_for_node_oldest_seconds", cluster=CLUSTER) == 0
        async with cluster(client, *SEEDED_IDS) as words:
            await client.until_metric(2, "bigfleet_provider_machines", state="Configured")
            await words.until(*SEEDED_IDS)
            assert await bound_machines(client) == 2
            await strike(client, SEEDED_IDS[0])
            await words.until(SEEDED_IDS[1])
            assert await bound_machines(client, "lowest") == 0  # before the first stream, within ten seconds
            assert await client.metric(f"{LEDGER}_losses_total", cluster=CLUSTER) == 1
            assert await client.metric(f"{LEDGER}_unreplaced", cluster=CLUSTER) == 1
            await strike(client, IDLE, faults_pb2.STRIKE_VANISH)
            assert await client.metric(f"{LEDGER}_losses_total", cluster=CLUSTER) == 1
            await client.configure("idle-metal-1", bootstrap_blob=blob("idle-metal-1"), shard_metadata=STAMPS)
            await words.until(SEEDED_IDS[1], "idle-metal-1")
            await words.report(ready=["idle-metal-1"])
            await client.until_metric(0, f"{LEDGER}_unreplaced", cluster=CLUSTER)
            assert await client.metric(f"{LEDGER}_replacement_seconds_count", cluster=CLUSTER) == 1
        assert await violations(client) == {}
    events = [entry for entry in read_entries(tmp_path / "data" / "ledger.jsonl") if "event" in entry]
    assert [(entry["event"], entry["machine"], entry["cluster"]) for entry in events[2:]] == [
        ("lost", SEEDED_IDS[0], CLUSTER),
        ("vanished", IDLE, ""),
        ("ready", "idle-metal-1", CLUSTER),
    ]


async def test_a_cluster_is_told_what_it_was_given_and_what_is_gone(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(SEEDED, *FLEET["machines"])) as client, cluster(client) as words:
        await words.until(*SEEDED_IDS)
        word = words.given[SEEDED_IDS[0]]
        small = FLEET["kinds"]["small"]
        assert (word.instance_type, word.zone) == (small["instanceType"], small["zone"])
        assert (dict(word.allocatable), dict(word.labels)) == (small["allocatable"], small["labels"])
        await client.configure(IDLE)
        await words.until(*SEEDED_IDS, IDLE)
        first = words.given[IDLE].binding
        await words.report(ready=[IDLE])
        await client.until(IDLE, MachineState.CONFIGURED)
        await client.drain(IDLE)
        await words.until(*SEEDED_IDS)
        await client.until(IDLE, MachineState.IDLE)
        await client.configure(IDLE)
        await words.until(*SEEDED_IDS, IDLE)
        assert words.given[IDLE].binding != first
        await words.call.write(phonehome_pb2.ReadyReport(cluster_id=CLUSTER, full=True))
        async with cluster(client) as newer:
            await newer.until(*SEEDED_IDS, IDLE)


async def test_a_cluster_is_told_whether_a_machine_that_is_gone_was_drained_or_lost(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(SEEDED, *FLEET["machines"])) as client, cluster(client) as words:
        await words.until(*SEEDED_IDS)
        await words.report(ready=SEEDED_IDS)
        for machine_id in SEEDED_IDS:
            await client.until(machine_id, MachineState.CONFIGURED)
        await client.drain(SEEDED_IDS[0])
        await words.until(SEEDED_IDS[1])
        await strike(client, SEEDED_IDS[1])
        await words.until()
        assert [(word.machine_id, word.drained) for word in words.gone] == [
            (SEEDED_IDS[0], True),
            (SEEDED_IDS[1], False),
        ]


async def test_a_configure_that_fails_takes_the_word_back(tmp_path: Path) -> None:
    async with provider_at(tmp_path, timeouts=Timeouts(configure_seconds=0.3)) as client, cluster(client) as words:
        await client.configure(IDLE)
        await words.until(IDLE)
        await client.until(IDLE, MachineState.FAILED)
        await words.until()
        assert await client.metric(f"{LEDGER}_waiting_for_node_oldest_seconds", cluster=CLUSTER) == 0


async def test_words_and_books_survive_a_restart_and_the_file_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with provider_at(tmp_path, data_dir=data) as client, cluster(client, IDLE) as words:
        await client.configure(IDLE, bootstrap_blob=blob(IDLE))
        await client.until(IDLE, MachineState.CONFIGURED)
        await words.until(IDLE)
        before = words.given[IDLE]
    counted = count_ledger(tmp_path / "data" / "ledger.jsonl")
    async with provider_at(tmp_path, data_dir=data) as client:
        assert await bound_machines(client) == 1
        async with cluster(client, IDLE) as words:
            await words.until(IDLE)
            assert words.given[IDLE] == before
        await client.list()
        assert await violations(client) == {}
        # The same token again: the kit's memory and the ledger's agree that it is stale.
        with pytest.raises(grpc.aio.AioRpcError):
            await client.configure(IDLE, sequence_number=1)
        assert await violations(client) == {}
    assert count_ledger(tmp_path / "data" / "ledger.jsonl")["calls"] == counted["calls"] + 1


async def test_admins_read_the_ledger_and_nobody_else(tmp_path: Path) -> None:
    authority = Authority.create("test")
    identities = {
        "provider": authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]),
        "admin": authority.issue(Identity("admin")),
        "readonly": authority.issue(Identity("readonly")),
    }
    for name, identity in identities.items():
        identity.write(tmp_path / name)
    (port,) = free_ports(1)
    options: dict[str, Any] = {
        "data_dir": tmp_path / "data",
        "tls_dir": tmp_path / "provider",
        "also_listen": (f"127.0.0.1:{port}",),
    }
    target = tmp_path / "evidence.jsonl"
    async with provider_at(tmp_path, fleet_of(SEEDED), **options) as client:
        for address in (f"127.0.0.1:{client.provider.port}", f"127.0.0.1:{port}"):
            assert await fetch_ledger(address, tmp_path / "admin", target) == 0
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await fetch_ledger(address, tmp_path / "readonly", tmp_path / "other.jsonl")
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["evidence.jsonl"]


async def test_a_ledger_of_many_chunks_arrives_whole(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    line = b'{"time":1.0,"event":"ready","machine":"m","cluster":"c"}\n'
    (tmp_path / "data" / "ledger.jsonl").write_bytes(line * 20_000 + b'{"time":')
    async with provider_at(tmp_path, data_dir=tmp_path / "data") as client:
        address = f"127.0.0.1:{client.provider.port}"
        assert await fetch_ledger(address, None, tmp_path / "copy.jsonl") == 20_000
    assert (tmp_path / "copy.jsonl").read_bytes() == line * 20_000


async def test_without_a_directory_there_is_no_ledger_to_read(tmp_path: Path) -> None:
    async with provider_at(tmp_path) as client:
        with pytest.raises(grpc.aio.AioRpcError, match="without --data-dir"):
            await fetch_ledger(f"127.0.0.1:{client.provider.port}", None, tmp_path / "copy.jsonl")
    assert not list(tmp_path.glob("copy*"))
