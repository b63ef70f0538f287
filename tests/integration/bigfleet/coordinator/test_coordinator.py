"""One coordinator on a real etcd member, over real sockets with mutual TLS: what its RPCs do and for whom."""

from collections.abc import Callable
from typing import Any

import grpc
import msgspec
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1.capacity_pb2 import NodeSelectorRequirement
from bigfleet.coordinator.etcd_client import EtcdClient, EtcdUnavailable
from bigfleet.coordinator.handing_out import Wanted
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.ownership import Domain
from bigfleet.coordinator.store import LEADER_KEY, CoordinatorStore, Deposed, LeaderClaim
from bigfleet.coordinator.tenure import Tenure
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from tests.integration.players.coordinators import ZONE, Coordinator, assignment, eventually, unassignment

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


async def recorded_claim(client: EtcdClient) -> LeaderClaim:
    recorded = await client.get(LEADER_KEY)
    assert recorded
    return msgspec.json.decode(recorded.value, type=LeaderClaim)


def counted() -> tuple[Metrics, Callable[[str], float | None]]:
    """Instruments of our own, and a way to read how many commands had an outcome."""
    registry = CollectorRegistry()
    return Metrics(registry), lambda outcome: registry.get_sample_value(
        "bigfleet_coordinator_apply_total", {"outcome": outcome}
    )


async def test_a_shard_speaks_for_itself_only(leader: Coordinator) -> None:
    assert await leader.refusal("shard-1", "ReportShard", pb.ShardReport(shard_id="shard-0")) == (
        grpc.StatusCode.PERMISSION_DENIED,
        "bigfleet://shard/shard-1 may not speak for 'shard-0'",
    )
    assert await leader.refusal("shard-0", "ReportShard", pb.ShardReport()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "shard_id must be set",
    )
    assert await leader.shards() == []
    assert await leader.metric("bigfleet_coordinator_shard_reports_total", shard="shard-0") is None
    await leader.report()
    await leader.report()
    assert await leader.metric("bigfleet_coordinator_shard_reports_total", shard="shard-0") == 2


# Who may call what; everyone else is denied (docs/reference/wire.md#identities).
TABLE = {
    "ReportShard": (pb.ShardReport(shard_id="shard-0"), {"shard-0"}),
    "AssignDomain": (assignment(), {"admin"}),
    "UnassignDomain": (unassignment(), {"admin"}),
    "RemoveShard": (pb.RemoveShardRequest(shard_id="shard-0"), {"admin"}),
    "JoinRaftCluster": (pb.JoinRaftClusterRequest(), {"admin"}),
    "ListShards": (pb.ListShardsRequest(), {"admin", "readonly"}),
    "ListDomainAssignments": (pb.ListDomainAssignmentsRequest(), {"admin", "readonly"}),
    "ListQuotas": (pb.ListQuotasRequest(), {"admin", "readonly"}),
    "ListClusters": (pb.ListClustersRequest(), {"admin", "readonly"}),
    "ListProviders": (pb.ListProvidersRequest(), {"admin", "readonly", "shard-0", "shard-1"}),
    "ListShardReports": (pb.ListShardReportsRequest(), {"admin", "readonly"}),
    "SnapshotSave": (pb.SnapshotSaveRequest(), {"admin"}),
    "SetQuota": (pb.SetQuotaRequest(), {"admin"}),
    "SetProvider": (pb.SetProviderRequest(), {"admin"}),
    "RemoveProvider": (pb.RemoveProviderRequest(), {"admin"}),
}


async def code_of(leader: Coordinator, caller: str, method: str, request: Any) -> grpc.StatusCode:
    async with leader.stub(caller) as stub:
        call = getattr(stub, method)(request, timeout=10)
        try:
            if hasattr(call, "read"):
                async for _ in call:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


async def test_every_rpc_is_open_to_those_of_the_table_and_to_nobody_else(leader: Coordinator) -> None:
    assert TABLE.keys() == {method.name for method in pb.DESCRIPTOR.services_by_name["Coordinator"].methods}
    for method, (request, allowed) in TABLE.items():
        for caller in ("admin", "readonly", "shard-0", "shard-1", "kwok-cluster-0"):
            denied = await code_of(leader, caller, method, request) == grpc.StatusCode.PERMISSION_DENIED
            assert denied == (caller not in allowed), (method, caller)


async def test_a_coordinator_may_join_for_itself_only(leader: Coordinator, authority: Authority) -> None:
    authority.issue(Identity("coordinator", "c-1")).write(leader.identities / "c-1")
    code, _ = await leader.refusal(
        "c-1", "JoinRaftCluster", pb.JoinRaftClusterRequest(node_id="c-2", raft_address="127.0.0.1:1")
    )
    assert code == grpc.StatusCode.PERMISSION_DENIED
    assert await leader.refusal("admin", "JoinRaftCluster", pb.JoinRaftClusterRequest(node_id="c-1")) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "raft_address must be set",
    )
    code, reason = await leader.refusal(
        "admin", "JoinRaftCluster", pb.JoinRaftClusterRequest(node_id="c-0", raft_address="127.0.0.1:1")
    )
    assert (code, "leads" in reason) == (grpc.StatusCode.INVALID_ARGUMENT, True)


async def test_health_over_grpc_and_http_agree(leader: Coordinator) -> None:
    async with channel(leader.options.listen, leader.identities / "readonly", "coordinator") as dialled:
        health = health_pb2_grpc.HealthStub(dialled)

        async def status(service: str) -> Any:
            return (await health.Check(health_pb2.HealthCheckRequest(service=service))).status

        assert await status("") == health_pb2.HealthCheckResponse.SERVING

        async def serving() -> bool:
            answer = await status("bigfleet.v1alpha1.Coordinator")
            return bool(answer == health_pb2.HealthCheckResponse.SERVING)

        await eventually(serving)
    assert await leader.ready()


async def test_the_member_listens_to_its_own_coordinator_only(leader: Coordinator) -> None:
    for identity in ("shard-0", "admin"):
        async with EtcdClient(leader.options.etcd_client_addr, leader.identities / identity) as stranger:
            with pytest.raises(EtcdUnavailable):
                await stranger.status()
    async with leader.etcd() as own:
        assert (await own.status()).raft_term > 0


async def test_a_domain_has_one_owner(leader: Coordinator) -> None:
    refused_before = await leader.metric("bigfleet_coordinator_apply_total", outcome="fsm_error") or 0
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
    assert await leader.metric("bigfleet_coordinator_apply_total", outcome="fsm_error") == refused_before + 2

    for _ in range(2):
        await leader.call("admin", "UnassignDomain", unassignment())
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

    await leader.call("admin", "UnassignDomain", unassignment())
    (release,) = (await leader.report()).instructions
    assert release.WhichOneof("payload") == "unassign_domain"
    assert release.sequence_number > instruction.sequence_number


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


async def test_a_quota_is_shared_out_by_shard_and_taken_back(leader: Coordinator) -> None:
    async def quotas() -> list[tuple[str, str, dict[str, int]]]:
        answer = await leader.call("readonly", "ListQuotas", pb.ListQuotasRequest())
        return [(one.provider, one.region, dict(one.per_shard)) for one in answer.allocations]

    async def set_quota(shard: str, slots: int) -> None:
        request = pb.SetQuotaRequest(provider="aws", region="eu/west", shard_id=shard, slots=slots)
        await leader.call("admin", "SetQuota", request)

    assert await quotas() == []
    unknown = pb.SetQuotaRequest(provider="aws", region="eu/west", shard_id="shard-0", slots=5)
    assert (await leader.refusal("admin", "SetQuota", unknown))[0] == grpc.StatusCode.NOT_FOUND
    for shard, slots in (("shard-0", 5), ("shard-1", 7)):
        await leader.report(shard)
        await set_quota(shard, slots)
    await set_quota("shard-0", 6)
    assert await quotas() == [("aws", "eu/west", {"shard-0": 6, "shard-1": 7})]
    assert [one.slots for one in (await leader.report("shard-0")).quotas.slices] == [6], "each shard is told its slice"
    negative = pb.SetQuotaRequest(provider="aws", region="eu/west", shard_id="shard-0", slots=-1)
    assert await leader.refusal("admin", "SetQuota", negative) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "slots is -1, it must not be negative",
    )
    await leader.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id="shard-0"))
    for shard in ("shard-0", "shard-1"):
        await set_quota(shard, 0)
    assert await quotas() == []
    answer = await leader.report("shard-0")
    assert (answer.HasField("quotas"), list(answer.quotas.slices)) == (True, [])


async def test_a_shard_has_nothing_of_a_region_of_which_only_others_have_a_quota(leader: Coordinator) -> None:
    for shard in ("shard-0", "shard-1"):
        await leader.report(shard)
    entry = pb.ProviderEntry(name="aws", address="aws:7800", region="eu")
    await leader.call("admin", "SetProvider", pb.SetProviderRequest(provider=entry))
    request = pb.SetQuotaRequest(provider="aws", region="eu", shard_id="shard-0", slots=5)
    await leader.call("admin", "SetQuota", request)
    told = (await leader.report("shard-1")).quotas
    assert told == pb.QuotaSlices(
        slices=[pb.QuotaSlice(provider="aws", region="eu", slots=0)], provider_regions={"aws": "eu"}
    )
    await leader.call("admin", "SetQuota", pb.SetQuotaRequest(provider="aws", region="eu", shard_id="shard-0"))
    await leader.call("admin", "RemoveProvider", pb.RemoveProviderRequest(name="aws"))


async def test_a_provider_is_registered_moved_and_forgotten(leader: Coordinator) -> None:
    async def providers() -> list[tuple[str, str, str]]:
        answer = await leader.call("readonly", "ListProviders", pb.ListProvidersRequest())
        return [(one.name, one.address, one.region) for one in answer.providers]

    for address in ("aws:7800", "aws:7801"):
        entry = pb.ProviderEntry(name="aws", address=address, region="eu")
        await leader.call("admin", "SetProvider", pb.SetProviderRequest(provider=entry))
        assert await providers() == [("aws", address, "eu")]
    nameless = pb.SetProviderRequest(provider=pb.ProviderEntry(name="aws"))
    assert await leader.refusal("admin", "SetProvider", nameless) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "address, region must be set",
    )
    gone = pb.RemoveProviderRequest(name="aws")
    await leader.call("admin", "RemoveProvider", gone)
    assert await providers() == []
    assert await leader.refusal("admin", "RemoveProvider", gone) == (
        grpc.StatusCode.NOT_FOUND,
        "provider 'aws' is not registered",
    )


async def test_heartbeats_are_saved_together_and_once(leader: Coordinator) -> None:
    async with leader.etcd() as client:
        claim, (metrics, applied) = await recorded_claim(client), counted()
        store = CoordinatorStore(client, claim, metrics.applied)
        tenure = Tenure(claim, store, metrics.pending_instructions, Wanted())
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
        claim, (metrics, applied) = await recorded_claim(client), counted()
        stale = CoordinatorStore(client, msgspec.structs.replace(claim, term=claim.term - 1), metrics.applied)
        with pytest.raises(Deposed):
            await stale.assign(ZONE, "shard-0")
        with pytest.raises(Deposed):
            await stale.persist_heartbeats({"shard-0": 1})
        with pytest.raises(Deposed):
            await stale.domains()
    assert await leader.domains() == {}
    assert applied("error") == 2
