"""Broken and hostile requests: each gets an error, none changes the state, and the leader goes on leading."""

import asyncio
import random
from collections import Counter
from typing import Any

import grpc
import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.etcd_client import read_prefix
from bigfleet.coordinator.ownership import Domain
from bigfleet.coordinator.store import PREFIX
from bigfleet.security import channel
from tests.integration.players.broken_requests import OVERSIZE, boundless, broken
from tests.integration.players.coordinators import Coordinator, assignment, unassignment
from tests.integration.players.provider_client import refusal

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

REQUESTS = 10_000
AT_ONCE = 50
REPORT = pb.ShardReport(
    shard_id="nobody",
    shard_address="x:1",
    summary=pb.ShardSummary(total_machines=2**31 - 1, per_zone_counts={"zone-a": -1}),
    shortfalls=[pb.Shortfall(priority=-(2**31), age_cycles=-1)] * 3,
    instruction_acks=[
        pb.InstructAck(
            instruction_id="2-1",
            outcome=77,  # type: ignore[arg-type]  # a number that the enum does not have
            reason="\0",
        )
    ],
)
# Whole, each of these is refused or finds nothing: there is no such shard, and nobody owns the domain.
NOWHERE = Domain("topology.bigfleet/rack", "nowhere")
SEEDS = {
    "ReportShard": REPORT,
    "AssignDomain": assignment(NOWHERE, "nobody"),
    "UnassignDomain": unassignment(NOWHERE),
    "RemoveShard": pb.RemoveShardRequest(shard_id="nobody"),
    "ListShardReports": pb.ListShardReportsRequest(shard_id="nobody"),
    "JoinRaftCluster": pb.JoinRaftClusterRequest(node_id="nobody", raft_address="nowhere"),
}
# What a shard sends: its report for another, and what is no business of its.
BY_A_SHARD = ("ReportShard", "JoinRaftCluster")
EXPECTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
}


async def everything(leader: Coordinator) -> dict[str, Any]:
    """Every key that the coordinators keep, with the revision that wrote it, and what the leader only remembers.

    Heartbeats are written down when their turn comes, so those are the leader's word.
    """
    async with leader.etcd() as member:
        (keys,) = (await member.txn([], [read_prefix(PREFIX)], [])).found
    return {
        "keys": [one for one in keys if not one.key.startswith(f"{PREFIX}heartbeats/")],
        "shards": await leader.shards(),
        "reports": await leader.call("admin", "ListShardReports", pb.ListShardReportsRequest()),
        "term": await leader.metric("bigfleet_coordinator_raft_term"),
        "instructions": await leader.metric("bigfleet_coordinator_pending_instructions", shard="shard-0"),
    }


async def refusals(leader: Coordinator) -> Counter[str]:
    """How often each method was sent what cannot be read, as the leader counts it."""
    name = "bigfleet_coordinator_malformed_total"
    return Counter({method: int(await leader.metric(name, method=method) or 0) for method in SEEDS})


async def test_ten_thousand_broken_requests_change_nothing(leader: Coordinator) -> None:
    source = random.Random(20261116)
    await leader.report("shard-0", shortfalls=[pb.Shortfall(priority=7)])
    await leader.assign()
    before, refused = await everything(leader), await refusals(leader)
    assert {key.key.split("/")[2] for key in before["keys"]} >= {"leader", "shards", "domains"}
    codes: Counter[grpc.StatusCode] = Counter()
    unreadable: Counter[str] = Counter()
    async with (
        channel(leader.options.listen, leader.identities / "admin", "coordinator") as admin,
        channel(leader.options.listen, leader.identities / "shard-0", "coordinator") as shard,
    ):

        async def send(method: str, payload: bytes) -> None:
            dialled = shard if method in BY_A_SHARD else admin
            call: Any = dialled.unary_unary(f"/bigfleet.v1alpha1.Coordinator/{method}", bytes, bytes)
            answer = call(payload, timeout=30)
            codes[await answer.code()] += 1
            unreadable[method] += "the request cannot be read" in (await answer.details() or "")

        for _ in range(REQUESTS // AT_ONCE):
            methods = source.choices(list(SEEDS), k=AT_ONCE)
            await asyncio.gather(
                *(send(method, broken(SEEDS[method].SerializeToString(), source)) for method in methods)
            )
    assert codes.total() == REQUESTS
    assert set(codes) == EXPECTED
    assert await everything(leader) == before
    assert await refusals(leader) - refused == unreadable
    assert min(unreadable[method] for method in SEEDS) > REQUESTS / len(SEEDS) / 10


@pytest.mark.parametrize(("size", "reason", "counted"), OVERSIZE.values(), ids=OVERSIZE)
async def test_a_request_that_is_too_large_is_refused_with_a_reason(
    leader: Coordinator, size: int, reason: str, counted: bool
) -> None:
    await leader.report("shard-0")
    before, refused = await everything(leader), await refusals(leader)
    async with boundless(leader.options.listen, leader.identities / "shard-0", "coordinator") as dialled:
        report: Any = dialled.unary_unary("/bigfleet.v1alpha1.Coordinator/ReportShard", bytes, bytes)
        code, words = await refusal(report(bytes(size), timeout=60))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason in words
    assert (await refusals(leader) - refused)["ReportShard"] == counted
    assert await everything(leader) == before


async def test_a_report_that_is_too_long_is_kept_only_so_far(leader: Coordinator) -> None:
    await leader.report("shard-0", shortfalls=[pb.Shortfall(priority=number) for number in range(5000)])
    answer = await leader.call("admin", "ListShardReports", pb.ListShardReportsRequest())
    assert [one.priority for one in answer.reports[0].shortfalls] == list(range(100))
