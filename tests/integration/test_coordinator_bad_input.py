"""Broken and hostile requests: each gets an error, none changes the state, and the leader goes on leading."""

import asyncio
import random
from typing import Any

import grpc
import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.security import channel
from tests.integration.broken_requests import broken
from tests.integration.coordinators import Coordinator, assignment, unassignment

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

REQUESTS = 10_000
AT_ONCE = 50
REPORT = pb.ShardReport(
    shard_id="shard-1",
    shard_address="x:1",
    summary=pb.ShardSummary(total_machines=2**31 - 1, per_zone_counts={"zone-a": -1}),
    shortfalls=[pb.Shortfall(priority=-(2**31), age_cycles=-1)] * 3,
    instruction_acks=[pb.InstructAck(instruction_id="2-1", outcome=77, reason="\0")],  # type: ignore[arg-type]
)
# Whole, each of these is refused: the shard is another's, or unknown.
SEEDS = {
    "ReportShard": REPORT,
    "AssignDomain": assignment(),
    "UnassignDomain": unassignment(),
    "RemoveShard": pb.RemoveShardRequest(shard_id="shard-9"),
    "ListShardReports": pb.ListShardReportsRequest(shard_id="shard-9"),
}
EXPECTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
}


async def test_ten_thousand_broken_requests_change_nothing(leader: Coordinator) -> None:
    source = random.Random(20261116)
    await leader.report("shard-0")
    term = await leader.metric("bigfleet_coordinator_raft_term")
    codes: dict[grpc.StatusCode, int] = {}
    unreadable: list[bool] = []
    async with (
        channel(leader.options.listen, leader.identities / "admin", "coordinator") as admin,
        channel(leader.options.listen, leader.identities / "shard-0", "coordinator") as shard,
    ):

        async def send(method: str, payload: bytes) -> None:
            dialled = shard if method == "ReportShard" else admin
            call: Any = dialled.unary_unary(f"/bigfleet.v1alpha1.Coordinator/{method}", bytes, bytes)
            try:
                await call(payload, timeout=30)
            except grpc.aio.AioRpcError as error:
                unreadable.append("the request cannot be read" in (error.details() or ""))
                codes[error.code()] = codes.get(error.code(), 0) + 1
            else:
                codes[grpc.StatusCode.OK] = codes.get(grpc.StatusCode.OK, 0) + 1

        for _ in range(REQUESTS // AT_ONCE):
            methods = source.choices(list(SEEDS), k=AT_ONCE)
            await asyncio.gather(
                *(send(method, broken(SEEDS[method].SerializeToString(), source)) for method in methods)
            )
    assert sum(codes.values()) == REQUESTS
    assert set(codes) == EXPECTED
    assert [one.shard_id for one in await leader.shards()] == ["shard-0"]
    assert not {owner for owner in (await leader.domains()).values() if owner != "shard-0"}
    assert await leader.metric("bigfleet_coordinator_raft_term") == term
    counted = [await leader.metric("bigfleet_coordinator_malformed_total", method=method) for method in SEEDS]
    assert sum(filter(None, counted)) == sum(unreadable) > REQUESTS / 10


async def test_a_report_that_is_too_long_is_kept_only_so_far(leader: Coordinator) -> None:
    await leader.report("shard-0", shortfalls=[pb.Shortfall(priority=number) for number in range(5000)])
    answer = await leader.call("admin", "ListShardReports", pb.ListShardReportsRequest())
    assert [one.priority for one in answer.reports[0].shortfalls] == list(range(100))
