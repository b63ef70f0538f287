"""Broken and hostile input to a shard: a clear error and a count each, no machine moves, nobody else notices."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from bigfleet.api.v1alpha1 import capacity_pb2 as capacity
from bigfleet.api.v1alpha1 import shard_pb2 as pb
from bigfleet.api.v1alpha1 import shard_pb2_grpc, shardread_pb2
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from bigfleet.shard import message_limits as limits
from tests.integration.players.broken_requests import OVERSIZE, boundless, broken
from tests.integration.players.provider_client import CLUSTER, ProviderClient, fleet_of, provider_at, refusal
from tests.integration.players.shard_client import Cluster, Shard, cluster_at, shard_at, small_need

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUESTS = 10_000
AT_ONCE = 50
MALLORY = "mallory"
IN = capacity.NodeSelectorRequirement.IN
# Whole, each of these is refused or answers nothing that was asked; and no machine is large enough for the demand.
HUGE = {"cpu": "1E"}
DEMAND = capacity.CapacityNeed(
    requirements=[capacity.NodeSelectorRequirement(key="zone", operator=IN, values=["a", "b"])],
    aggregate_resources=HUGE,
    min_unit=HUGE,
    spread=[capacity.TopologySpread(topology_key="rack", max_skew=-1)],
    interruption_penalty_bucket=99,  # type: ignore[arg-type]  # a number that the enum does not have
    group="g\0",
)
FRAMES = (
    pb.OperatorMessage(rollup=capacity.ClusterCapacityNeeds(cluster_id=CLUSTER, needs=[DEMAND, DEMAND])),
    pb.OperatorMessage(bootstrap_response=pb.BootstrapBlobResponse(request_id="1", user_data=b"x", ttl_seconds=-1)),
    pb.OperatorMessage(drain_report=pb.DrainReport(instruction_id="1", error="\0")),
    pb.OperatorMessage(reclaim_ack=pb.ReclaimAck(instruction_id="1", nodes_started=-1)),
    pb.OperatorMessage(hello=pb.Hello(cluster_id=MALLORY)),
)
INSPECT = shardread_pb2.InspectNeedsRequest(cluster_id=CLUSTER, limit=-1)
HELLO = pb.OperatorMessage(hello=pb.Hello(cluster_id=MALLORY, protocol_version="v0"))


@dataclass
class World:
    """A shard with one honest cluster that has a machine."""

    provider: ProviderClient
    shard: Shard
    cluster: Cluster
    dialled: grpc.aio.Channel

    async def standing(self) -> dict[str, Any]:
        """What nobody else may change."""
        listed = await self.provider.list()
        return {
            "revision": listed.revision,
            "machines": {machine.id: (machine.state, machine.cluster) for machine in listed.machines},
            "actions": await self.shard.metric("actions_total"),
            "told": set(self.cluster.machines),
        }

    async def still_serves(self) -> None:
        """The honest cluster is heard as ever."""
        before = self.cluster.acks.count("rollup")
        await self.cluster.roll_up(small_need(machines=1))
        await self.cluster.until(lambda: self.cluster.acks.count("rollup") == before + 1)

    async def converse(self, *frames: bytes) -> grpc.StatusCode:
        """How a stream ends that sends these frames."""
        call: Any = self.dialled.stream_stream("/bigfleet.v1alpha1.Shard/Session", bytes, bytes)(timeout=30)
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it may be over before we have sent all
            for frame in frames:
                await call.write(frame)
            await call.done_writing()
        return await end_of(call)

    async def inspect(self, request: bytes) -> grpc.StatusCode:
        call: Any = self.dialled.unary_stream("/bigfleet.v1alpha1.ShardRead/InspectNeeds", bytes, bytes)
        return await end_of(call(request, timeout=30))


async def end_of(call: Any) -> grpc.StatusCode:
    with suppress(grpc.aio.AioRpcError):
        async for _ in call:
            pass
    code: grpc.StatusCode = await call.code()
    return code


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    directory = tmp_path_factory.mktemp("hostile")
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": 4, "state": "Idle"})
    async with (
        provider_at(directory, fleet) as provider,
        shard_at(directory, provider, cycle_interval_seconds=0.2) as shard,
        cluster_at(shard, provider) as cluster,
        channel(shard.address, None, "shard") as dialled,
    ):
        await cluster.roll_up(small_need(machines=1))
        await cluster.until_configured(1)
        yield World(provider, shard, cluster, dialled)


async def test_ten_thousand_broken_requests_change_nothing(world: World) -> None:
    source = random.Random(20261117)
    before = await world.standing()
    codes: Counter[tuple[str, grpc.StatusCode]] = Counter()

    async def send(draw: int) -> None:
        if draw < 3:
            codes["InspectNeeds", await world.inspect(broken(INSPECT.SerializeToString(), source))] += 1
        elif draw < 5:
            codes["Session", await world.converse(broken(HELLO.SerializeToString(), source))] += 1
        else:
            frame = source.choice(FRAMES).SerializeToString()
            codes["Session", await world.converse(HELLO.SerializeToString(), broken(frame, source))] += 1

    for _ in range(REQUESTS // AT_ONCE):
        await asyncio.gather(*(send(source.randrange(10)) for _ in range(AT_ONCE)))
    assert codes.total() == REQUESTS
    # ABORTED: mallory's own next stream took over.
    assert {code for _, code in codes} == {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.ABORTED,
    }
    for method in ("InspectNeeds", "Session"):
        refused = await world.shard.metric("malformed_total", method=method) or 0
        assert REQUESTS / 20 < refused <= codes[method, grpc.StatusCode.INVALID_ARGUMENT]
    assert await world.standing() == before
    await world.still_serves()


def demand(**fields: Any) -> capacity.CapacityNeed:
    return capacity.CapacityNeed(**({"aggregate_resources": {"cpu": "4"}, "min_unit": {"cpu": "1"}} | fields))


def requirement(
    key: str = "zone", operator: int = IN, values: Sequence[str] = ("a",)
) -> capacity.NodeSelectorRequirement:
    return capacity.NodeSelectorRequirement(
        key=key,
        operator=operator,  # type: ignore[arg-type]  # also numbers that the enum does not have
        values=values,
    )


HOSTILE = {
    "not a number": [demand(aggregate_resources={"cpu": "NaN"})],
    "infinite": [demand(min_unit={"cpu": "Inf"})],
    "negative": [demand(aggregate_resources={"cpu": "-1"})],
    "resources without end": [demand(aggregate_resources={f"r{n}": "1" for n in range(limits.MAX_RESOURCES + 1)})],
    "a name without end": [demand(min_unit={"r" * 10_000: "1"})],
    "an unknown operator": [demand(requirements=[requirement(operator=77)])],
    "no operator": [demand(requirements=[requirement(operator=0)])],
    "no key": [demand(requirements=[requirement(key="")])],
    "requirements without end": [demand(requirements=[requirement()] * (limits.MAX_REQUIREMENTS + 1))],
    "values without end": [demand(requirements=[requirement(values=["v"] * (limits.MAX_VALUES + 1))])],
    "two values in one": [demand(requirements=[requirement(values=["a,b"])])],
    "a fingerprint in a key": [demand(requirements=[requirement(key="a:1:b;c")])],
    "a bucket too many": [demand(interruption_penalty_bucket=28)],
    "a skew below zero": [demand(spread=[capacity.TopologySpread(topology_key="zone", max_skew=-1)])],
    "a group without end": [demand(group="g" * (limits.MAX_GROUP + 1))],
    "rows without end": [demand(priority=n) for n in range(limits.MAX_ROWS + 1)],
}


@pytest.mark.parametrize("needs", HOSTILE.values(), ids=HOSTILE)
async def test_demand_that_makes_no_sense_is_rejected_whole(world: World, needs: list[capacity.CapacityNeed]) -> None:
    rejected = await world.shard.metric("rollups_rejected_total", cluster=MALLORY) or 0
    async with cluster_at(world.shard, world.provider, cluster=MALLORY) as mallory:
        await mallory.roll_up(small_need(machines=1), *needs, cluster_id=CLUSTER)
        await world.shard.until_metric(rejected + 1, "rollups_rejected_total", cluster=MALLORY)
        assert "rollup" not in mallory.acks
    await world.still_serves()


async def test_new_resource_names_come_to_an_end(world: World) -> None:
    """Each is a column for every machine of the shard."""
    async with cluster_at(world.shard, world.provider, cluster="inventive") as inventive:

        def has_taken(rollups: int) -> bool:
            return inventive.acks.count("rollup") == rollups

        for batch in range(limits.MAX_RESOURCES_EVER // 60 + 1):
            await inventive.roll_up(demand(min_unit={f"r{batch}-{n}": "1" for n in range(60)}))
            if await world.shard.metric("rollups_rejected_total", cluster="inventive"):
                break
            await inventive.until(partial(has_taken, batch + 1))
        await world.shard.until_metric(1, "rollups_rejected_total", cluster="inventive")
        await inventive.roll_up()
        await inventive.until(lambda: inventive.acks[-1] == "rollup")


async def test_quantities_beyond_any_fleet_are_met_by_no_machine_and_break_nothing(world: World) -> None:
    before = await world.standing()
    async with cluster_at(world.shard, world.provider, cluster=MALLORY) as mallory:
        endless = {"cpu": "1e999999999", "memory": "9" * 5_000}
        await mallory.roll_up(
            *(demand(aggregate_resources=endless, min_unit=endless, priority=n) for n in (-1, 2**31 - 1))
        )
        await mallory.until(lambda: "rollup" in mallory.acks)
        cycles = await world.shard.metric("cycle_duration_seconds_count") or 0
        await world.shard.until_at_least(cycles + 2, "cycle_duration_seconds_count")
        assert await world.standing() == before
        await mallory.roll_up()
        await mallory.until(lambda: mallory.acks.count("rollup") == 2)
    await world.still_serves()


@pytest.mark.parametrize("cluster", ["c" * 254, "line\nbreak"], ids=["endless", "unprintable"])
async def test_a_cluster_has_a_sensible_name(world: World, cluster: str) -> None:
    opening = pb.OperatorMessage(hello=pb.Hello(cluster_id=cluster))
    assert await world.converse(opening.SerializeToString()) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(("size", "reason", "counted"), OVERSIZE.values(), ids=OVERSIZE)
async def test_a_message_that_is_too_large_ends_its_stream_with_a_reason(
    world: World, size: int, reason: str, counted: bool
) -> None:
    before = await world.standing()
    refused = await world.shard.metric("malformed_total", method="Session") or 0
    async with boundless(world.shard.address, None, "shard") as dialled:
        call: Any = dialled.stream_stream("/bigfleet.v1alpha1.Shard/Session", bytes, bytes)()
        await call.write(HELLO.SerializeToString())
        await call.initial_metadata()  # the session stands
        await call.write(bytes(size))
        code, words = await end_of(call), await call.details()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason in words
    assert await world.shard.metric("malformed_total", method="Session") == refused + counted
    assert await world.standing() == before
    await world.still_serves()


async def test_a_blob_that_is_too_large_is_refused(tmp_path: Path) -> None:
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": 1, "state": "Idle"})
    async with (
        provider_at(tmp_path, fleet) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        cluster.blob = bytes(limits.MAX_BLOB_BYTES + 1)
        await cluster.roll_up(small_need(machines=1))
        await shard.until_at_least(1, "action_execute_outcomes_total", kind="Bootstrap", outcome="blob_error")
        cluster.blob = b"small"
        await cluster.until_configured(1)


async def test_only_a_clusters_own_certificate_speaks_for_it(tmp_path: Path) -> None:
    authority, stranger = Authority.create("test"), Authority.create("another run")
    authority.issue(Identity("shard", "shard-0"), dns_names=["shard.bigfleet"]).write(tmp_path / "shard-tls")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tmp_path / "provider-tls")
    for identity in (Identity("cluster", "another"), Identity("shard", CLUSTER), Identity("admin")):
        authority.issue(identity).write(tmp_path / identity.kind)
    stranger.issue(Identity("cluster", CLUSTER)).write(tmp_path / "stranger")

    async def first_answer(place: Path | None) -> None:
        async with channel(shard.address, place, "shard") as dialled:
            call = shard_pb2_grpc.ShardStub(dialled).Session(timeout=10)
            await call.write(pb.OperatorMessage(hello=pb.Hello(cluster_id=CLUSTER)))
            await call.read()

    async with (
        provider_at(tmp_path, tls_dir=tmp_path / "provider-tls") as provider,
        shard_at(tmp_path, provider, tls_dir=tmp_path / "shard-tls") as shard,
    ):
        for place in ("cluster", "shard", "admin"):
            assert (await refusal(first_answer(tmp_path / place)))[0] is grpc.StatusCode.PERMISSION_DENIED
        assert await shard.metric("session_identity_rejected_total") == 3
        # These do not even get through the handshake.
        for nobody in (tmp_path / "stranger", None):
            assert (await refusal(first_answer(nobody)))[0] is grpc.StatusCode.UNAVAILABLE
        assert await shard.metric("session_lifecycle_total", event="installed") == 0
