"""The coordinator on real etcd members, over real sockets with mutual TLS."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.api.v1alpha1.capacity_pb2 import NodeSelectorRequirement
from bigfleet.coordinator import CoordinatorOptions, serve
from bigfleet.coordinator.etcd import EtcdClient, EtcdUnavailable, put
from bigfleet.coordinator.leadership import claim_leadership
from bigfleet.coordinator.member import MemberDied
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.store import LEADER_KEY, Claim, Deposed, Domain, Store
from bigfleet.coordinator.tenure import Tenure
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests import patience
from tests.integration.apiserver import free_ports

pytestmark = pytest.mark.integration

eventually = partial(patience.eventually, seconds=30)
ZONE = Domain("topology.kubernetes.io/zone", "zone-a")


@pytest.fixture(scope="session")
def etcd_binary() -> str:
    return str(asyncio.run(toolchain.ensure(["etcd"])).path("etcd"))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test")


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


@dataclass
class Coordinator:
    """A coordinator's options, and how a test talks to it while it runs."""

    options: CoordinatorOptions
    identities: Path
    task: asyncio.Task[None] | None = field(default=None)

    @asynccontextmanager
    async def stub(self, identity: str) -> AsyncIterator[Any]:
        async with channel(self.options.listen, self.identities / identity, "coordinator") as dialled:
            yield rpc.CoordinatorStub(dialled)

    async def call(self, identity: str, method: str, request: Any) -> Any:
        async with self.stub(identity) as stub:
            return await getattr(stub, method)(request, timeout=10)

    async def refusal(self, identity: str, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.call(identity, method, request)
        return refused.value.code(), refused.value.details() or ""

    async def report(self, shard: str = "shard-0", **fields: Any) -> pb.ReportAck:
        request = pb.ShardReport(shard_id=shard, shard_address=f"{shard}:7780", **fields)
        answer: pb.ReportAck = await self.call(shard, "ReportShard", request)
        return answer

    async def assign(self, domain: Domain = ZONE, shard: str = "shard-0") -> None:
        await self.call("admin", "AssignDomain", assignment(domain, shard))

    async def domains(self) -> dict[Domain, str]:
        answer = await self.call("admin", "ListDomainAssignments", pb.ListDomainAssignmentsRequest())
        return {Domain(one.topology_key, one.topology_value): one.shard_id for one in answer.assignments}

    async def shards(self) -> list[pb.ShardRegistryEntry]:
        answer = await self.call("readonly", "ListShards", pb.ListShardsRequest())
        return list(answer.shards)

    async def leads(self) -> bool:
        try:
            await self.shards()
        except grpc.aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE):
                raise
            return False
        return True

    async def metric(self, name: str, **labels: str) -> float | None:
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.options.metrics_addr}/metrics") as response:
            text = await response.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    async def ready(self) -> bool:
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"http://{self.options.metrics_addr}/readyz") as response,
            ):
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def etcd(self) -> EtcdClient:
        return EtcdClient(self.options.etcd_client_addr, self.options.tls_dir)

    def member_pid(self) -> int:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        data_dir = str(self.options.data_dir).encode()
        (pid,) = [int(pid) for pid in children if data_dir in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return pid

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Coordinator"]:
        self.task = asyncio.create_task(serve(self.options))
        try:
            yield self
        finally:
            self.task.cancel()
            await asyncio.wait([self.task])


def assignment(domain: Domain = ZONE, shard: str = "shard-0") -> pb.AssignDomainRequest:
    return pb.AssignDomainRequest(topology_key=domain.key, topology_value=domain.value, shard_id=shard)


async def claim_of(client: EtcdClient) -> Claim:
    status = await client.status()
    return Claim(status.member_id, status.raft_term)


def counted() -> tuple[Metrics, Callable[[str], float | None]]:
    """Instruments of our own, and a way to read how many commands had an outcome."""
    registry = CollectorRegistry()
    return Metrics(registry), lambda outcome: registry.get_sample_value(
        "bigfleet_coordinator_apply_total", {"outcome": outcome}
    )


@pytest.fixture
def stopped(authority: Authority, tmp_path: Path, etcd_binary: str) -> Coordinator:
    """A coordinator that is not started yet, and certificates for everyone who may call it."""
    identities = tmp_path / "identities"
    for identity in (
        Identity("admin"),
        Identity("readonly"),
        Identity("shard", "shard-0"),
        Identity("shard", "shard-1"),
    ):
        authority.issue(identity).write(identities / (identity.name or identity.kind))
    server = authority.issue(
        Identity("coordinator", "c-0"), dns_names=["coordinator.bigfleet"], ip_addresses=["127.0.0.1"]
    )
    server.write(tmp_path / "tls")
    listen, metrics, client, peer = free_addresses(4)
    options = CoordinatorOptions(
        listen=listen,
        metrics_addr=metrics,
        id="c-0",
        data_dir=tmp_path / "data",
        etcd_binary=etcd_binary,
        etcd_client_addr=client,
        etcd_peer_addr=peer,
        tls_dir=tmp_path / "tls",
    )
    return Coordinator(options, identities)


@pytest.fixture
async def leader(stopped: Coordinator) -> AsyncIterator[Coordinator]:
    async with stopped.running():
        await eventually(stopped.leads)
        yield stopped


async def test_a_report_registers_the_shard_and_the_registration_survives_a_restart(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        first_ack = await stopped.report()
        (before,) = await stopped.shards()
    assert (before.shard_id, before.address) == ("shard-0", "shard-0:7780")
    assert before.last_heartbeat_unix_ns >= before.registered_at_unix_ns > 0
    async with stopped.running():
        await eventually(stopped.leads)
        assert await stopped.shards() == [before]
        second_ack = await stopped.report()
        assert second_ack.acknowledged
        assert second_ack.coordinator_term > first_ack.coordinator_term
        assert (await stopped.shards())[0].registered_at_unix_ns == before.registered_at_unix_ns
        assert await stopped.metric("bigfleet_coordinator_raft_term") == second_ack.coordinator_term


async def test_it_is_ready_once_a_leader_is_seen_and_its_series_are_there(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.ready)
        for outcome in ("success", "error", "fsm_error"):
            assert await stopped.metric("bigfleet_coordinator_apply_total", outcome=outcome) == 0


async def test_a_shard_speaks_for_itself_only(leader: Coordinator) -> None:
    report = pb.ShardReport(shard_id="shard-0")
    for identity in ("shard-1", "admin", "readonly"):
        code, _ = await leader.refusal(identity, "ReportShard", report)
        assert code == grpc.StatusCode.PERMISSION_DENIED, identity
    assert await leader.refusal("shard-0", "ReportShard", pb.ShardReport()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "shard_id must be set",
    )
    assert await leader.shards() == []


async def test_only_an_admin_changes_things(leader: Coordinator) -> None:
    domain = pb.UnassignDomainRequest(topology_key="a", topology_value="b")
    for method, request in (
        ("AssignDomain", assignment()),
        ("UnassignDomain", domain),
        ("RemoveShard", pb.RemoveShardRequest(shard_id="shard-0")),
        ("JoinRaftCluster", pb.JoinRaftClusterRequest()),
    ):
        for identity in ("readonly", "shard-0"):
            code, _ = await leader.refusal(identity, method, request)
            assert code == grpc.StatusCode.PERMISSION_DENIED, (method, identity)


async def test_shards_may_not_read_the_lists(leader: Coordinator) -> None:
    code, _ = await leader.refusal("shard-0", "ListShards", pb.ListShardsRequest())
    assert code == grpc.StatusCode.PERMISSION_DENIED


async def test_the_member_listens_to_its_own_coordinator_only(leader: Coordinator) -> None:
    for identity in ("shard-0", "admin"):
        async with EtcdClient(leader.options.etcd_client_addr, leader.identities / identity) as stranger:
            with pytest.raises(EtcdUnavailable):
                await stranger.status()
    async with leader.etcd() as own:
        assert (await own.status()).raft_term > 0


async def test_a_domain_has_one_owner(leader: Coordinator) -> None:
    code, _ = await leader.refusal("admin", "AssignDomain", assignment())
    assert code == grpc.StatusCode.NOT_FOUND
    await leader.report("shard-0")
    await leader.report("shard-1")
    await leader.assign()
    await leader.assign()
    assert await leader.refusal("admin", "AssignDomain", assignment(shard="shard-1")) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "domain topology.kubernetes.io/zone=zone-a belongs to shard 'shard-0'",
    )
    assert await leader.refusal("admin", "AssignDomain", pb.AssignDomainRequest(shard_id="x")) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "topology_key, topology_value must be set",
    )
    assert await leader.domains() == {ZONE: "shard-0"}
    assert await leader.metric("bigfleet_coordinator_apply_total", outcome="fsm_error") == 2

    for _ in range(2):
        await leader.call(
            "admin", "UnassignDomain", pb.UnassignDomainRequest(topology_key=ZONE.key, topology_value=ZONE.value)
        )
    await leader.assign(shard="shard-1")
    assert await leader.domains() == {ZONE: "shard-1"}


async def test_instructions_are_sent_until_acknowledged(leader: Coordinator) -> None:
    async def pending() -> float | None:
        return await leader.metric("bigfleet_coordinator_pending_instructions", shard="shard-0")

    assert list((await leader.report()).instructions) == []
    assert await pending() == 0
    await leader.assign()
    (instruction,) = (await leader.report()).instructions
    assert (instruction.assign_domain.topology_key, instruction.assign_domain.topology_value) == (ZONE.key, ZONE.value)
    assert list((await leader.report()).instructions) == [instruction]
    assert await pending() == 1
    accepted = pb.InstructAck(instruction_id=instruction.instruction_id, outcome=pb.InstructAck.ACCEPTED)
    assert list((await leader.report(instruction_acks=[accepted])).instructions) == []
    assert await pending() == 0

    await leader.call(
        "admin", "UnassignDomain", pb.UnassignDomainRequest(topology_key=ZONE.key, topology_value=ZONE.value)
    )
    (release,) = (await leader.report()).instructions
    assert release.WhichOneof("payload") == "unassign_domain"
    assert release.sequence_number > instruction.sequence_number


async def test_a_new_leader_tells_a_shard_its_domains_again(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        await stopped.report()
        await stopped.assign()
    async with stopped.running():
        await eventually(stopped.leads)
        ack = await stopped.report()
        assert [one.assign_domain.topology_value for one in ack.instructions] == [ZONE.value]
        assert ack.instructions[0].coordinator_term == ack.coordinator_term


async def test_removing_a_shard_takes_all_its_domains_along(leader: Coordinator) -> None:
    await leader.report("shard-0")
    await leader.report("shard-1")
    async with leader.stub("admin") as stub:
        for rack in range(120):
            await stub.AssignDomain(assignment(Domain("rack", f"r-{rack}")))
    await leader.assign(shard="shard-1")
    await leader.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id="shard-0"))
    assert await leader.domains() == {ZONE: "shard-1"}
    assert [shard.shard_id for shard in await leader.shards()] == ["shard-1"]
    assert await leader.metric("bigfleet_coordinator_pending_instructions", shard="shard-0") is None
    code, _ = await leader.refusal("admin", "RemoveShard", pb.RemoveShardRequest(shard_id="shard-0"))
    assert code == grpc.StatusCode.NOT_FOUND


async def test_a_shard_that_moved_is_found_at_its_new_address(leader: Coordinator) -> None:
    await leader.report()
    (before,) = await leader.shards()
    await leader.call("shard-0", "ReportShard", pb.ShardReport(shard_id="shard-0", shard_address="elsewhere:7780"))
    (after,) = await leader.shards()
    assert (after.address, after.registered_at_unix_ns) == ("elsewhere:7780", before.registered_at_unix_ns)


async def test_the_last_report_is_kept_and_a_cleared_shortfall_goes(leader: Coordinator) -> None:
    shortfall = pb.Shortfall(priority=7, age_cycles=3, requirements=[NodeSelectorRequirement(key="zone")])
    summary = pb.ShardSummary(total_machines=10, free_machines=4)
    await leader.report("shard-1", cycle=1)
    await leader.report("shard-0", cycle=1, summary=summary, shortfalls=[shortfall])
    answer = await leader.call("admin", "ListShardReports", pb.ListShardReportsRequest(shard_id="shard-0"))
    (kept,) = answer.reports
    assert (kept.cycle, kept.summary) == (1, summary)
    assert [(one.priority, one.age_cycles, len(one.requirements)) for one in kept.shortfalls] == [(7, 3, 0)]

    await leader.report("shard-0", cycle=2)
    everyone = await leader.call("admin", "ListShardReports", pb.ListShardReportsRequest())
    assert [(one.shard_id, one.cycle, len(one.shortfalls)) for one in everyone.reports] == [
        ("shard-0", 2, 0),
        ("shard-1", 1, 0),
    ]


async def test_quotas_and_providers_come_from_the_state(leader: Coordinator) -> None:
    assert not (await leader.call("readonly", "ListQuotas", pb.ListQuotasRequest())).allocations
    async with leader.etcd() as client:
        quota = put("/bigfleet/quotas/aws/eu%2Fwest", b'{"shard-0": 5}')
        provider = put("/bigfleet/providers/aws", b'{"address": "aws:7800", "region": "eu"}')
        await client.txn([], [quota, provider])
    (allocation,) = (await leader.call("readonly", "ListQuotas", pb.ListQuotasRequest())).allocations
    assert (allocation.provider, allocation.region, dict(allocation.per_shard)) == ("aws", "eu/west", {"shard-0": 5})
    (entry,) = (await leader.call("readonly", "ListProviders", pb.ListProvidersRequest())).providers
    assert (entry.name, entry.address, entry.region) == ("aws", "aws:7800", "eu")


async def test_what_is_not_built_says_so(leader: Coordinator) -> None:
    code, reason = await leader.refusal("admin", "JoinRaftCluster", pb.JoinRaftClusterRequest())
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "--initial-cluster" in reason


async def test_heartbeats_are_saved_together_and_once(leader: Coordinator) -> None:
    async with leader.etcd() as client:
        claim, (metrics, applied) = await claim_of(client), counted()
        store = Store(client, claim, metrics.applied)
        tenure = Tenure(claim, store, metrics.pending_instructions)
        for now, shard in enumerate(("shard-0", "shard-1", "shard-0"), start=1):
            await tenure.report(pb.ShardReport(shard_id=shard), now_unix_ns=now)
        registrations = applied("success")
        await tenure.save_heartbeats()
        await tenure.save_heartbeats()
        assert registrations is not None
        assert applied("success") == registrations + 1
        assert {shard.id: shard.last_heartbeat_unix_ns for shard in await store.shards()} == {
            "shard-0": 3,
            "shard-1": 2,
        }


async def test_a_write_of_an_earlier_term_is_refused(leader: Coordinator) -> None:
    await leader.report()
    async with leader.etcd() as client:
        claim, (metrics, applied) = await claim_of(client), counted()
        stale = Store(client, Claim(claim.member, claim.term - 1), metrics.applied)
        with pytest.raises(Deposed):
            await stale.assign(ZONE, "shard-0")
        with pytest.raises(Deposed):
            await stale.persist_heartbeats({"shard-0": 1})
        with pytest.raises(Deposed):
            await stale.domains()
    assert await leader.domains() == {}
    assert applied("error") == 2


async def test_a_deposed_leader_neither_writes_nor_leads_again_in_its_term(leader: Coordinator) -> None:
    await leader.report()
    async with leader.etcd() as client:
        term = (await client.status()).raft_term
        await client.txn([], [put(LEADER_KEY, Claim(member=1, term=term + 1).record())])
        not_leader = (grpc.StatusCode.FAILED_PRECONDITION, "not leader")
        assert await leader.refusal("admin", "AssignDomain", assignment()) == not_leader
        recorded = await client.get(LEADER_KEY)
        assert recorded is not None
        assert recorded.value == Claim(member=1, term=term + 1).record()
        assert await leader.refusal("shard-0", "ReportShard", pb.ShardReport(shard_id="shard-0")) == not_leader
        assert await client.get("/bigfleet/domains/topology.kubernetes.io%2Fzone/zone-a") is None
        assert not await claim_leadership(client, Claim(member=2, term=term))
        assert await claim_leadership(client, Claim(member=2, term=term + 2))


async def test_the_death_of_the_member_ends_the_coordinator(leader: Coordinator) -> None:
    os.kill(leader.member_pid(), signal.SIGKILL)
    assert leader.task
    with pytest.raises(ExceptionGroup) as ended:
        await asyncio.wait_for(leader.task, timeout=10)
    assert ended.group_contains(MemberDied, match="status -9")


async def test_the_member_dies_with_its_coordinator(stopped: Coordinator) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from bigfleet.coordinator import CoordinatorOptions, serve\n"
        "names = ('listen', 'metrics_addr', 'etcd_binary', 'etcd_client_addr', 'etcd_peer_addr')\n"
        "options = dict(zip(names, sys.argv[2:]))\n"
        "asyncio.run(serve(CoordinatorOptions(data_dir=Path(sys.argv[1]), **options)))"
    )
    options = stopped.options
    addresses = (
        options.listen,
        options.metrics_addr,
        options.etcd_binary,
        options.etcd_client_addr,
        options.etcd_peer_addr,
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(options.data_dir), *addresses)
    try:
        await eventually(stopped.ready)
    finally:
        process.kill()
        await process.wait()

    async def member_is_gone() -> bool:
        async with EtcdClient(options.etcd_client_addr, tls_dir=None) as client:
            try:
                await client.status()
            except EtcdUnavailable:
                return True
            return False

    await eventually(member_is_gone, seconds=5)
    assert await member_is_gone()


async def test_of_three_coordinators_one_leads_and_another_takes_over(stopped: Coordinator) -> None:
    peers = free_addresses(3)
    initial_cluster = ",".join(f"c-{index}={peer}" for index, peer in enumerate(peers))
    trio = []
    for index, peer in enumerate(peers):
        listen, metrics, client = free_addresses(3)
        options = replace(
            stopped.options,
            id=f"c-{index}",
            data_dir=stopped.options.data_dir / str(index),
            listen=listen,
            metrics_addr=metrics,
            etcd_client_addr=client,
            etcd_peer_addr=peer,
            initial_cluster=initial_cluster,
        )
        trio.append(Coordinator(options, stopped.identities))

    async def leader_of(candidates: list[Coordinator]) -> Coordinator:
        async def somebody_leads() -> bool:
            return any([await one.leads() for one in candidates])

        await eventually(somebody_leads)
        (leading,) = [one for one in candidates if await one.leads()]
        return leading

    async with trio[0].running(), trio[1].running(), trio[2].running():
        first = await leader_of(trio)
        term = (await first.report()).coordinator_term
        (registered,) = await first.shards()
        for follower in (one for one in trio if one is not first):
            await eventually(follower.ready)
            assert (await follower.refusal("shard-0", "ReportShard", pb.ShardReport(shard_id="shard-0")))[
                1
            ] == "not leader"
        assert first.task
        first.task.cancel()
        await asyncio.wait([first.task])
        second = await leader_of([one for one in trio if one is not first])
        assert (await second.report()).coordinator_term > term
        assert (await second.shards())[0].registered_at_unix_ns == registered.registered_at_unix_ns
