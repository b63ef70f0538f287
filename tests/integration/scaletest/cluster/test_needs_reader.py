"""A cluster may read what its shard holds of it, and nothing else; the witness compares that with the draw."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed
from bigfleet.api.v1alpha1.shard_pb2 import Hello
from bigfleet.api.v1alpha1.shard_pb2_grpc import ShardStub
from bigfleet.api.v1alpha1.shardread_pb2 import InspectNeedsRequest, NeedView
from bigfleet.api.v1alpha1.shardread_pb2_grpc import ShardReadStub
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from scaletest.cluster.load import needs_reader
from scaletest.cluster.load.needs_reader import NeedsReader
from scaletest.cluster.witness.auditor import Witness
from scaletest.cluster.witness.blindness import Sight
from scaletest.cluster.witness.held_needs import LOOKS, HeldNeeds
from scaletest.model.demand.draw import Workload
from tests.integration.players.provider_client import CLUSTER, eventually, provider_at
from tests.integration.players.shard_client import Cluster, Shard, shard_at
from tests.unit.scaletest.cluster.witness.test_held_needs import rolled_up
from tests.unit.witness_world import GANG, SPREAD, TEAMED, WEB, Clock, pod, workload

OTHER = "kwok-cluster-1"
# Two Pods of one core: they fit on one machine of the fleet.
FOLDING = replace(workload("trainer-9", cpu="1", gang=GANG.archetype.gang), replicas=2)
WORKLOADS = (WEB, SPREAD, GANG, TEAMED, FOLDING, replace(FOLDING, name="trainer-10", group="trainer-10-group"))


@dataclass
class Standing:
    """A shard, and the session of one cluster."""

    shard: Shard
    cluster: Cluster
    tls: Path

    async def rows(self, cluster: str, reader: str) -> list[NeedView]:
        async with channel(self.shard.address, self.tls / reader, "shard") as connection:
            answer = ShardReadStub(connection).InspectNeeds(InspectNeedsRequest(cluster_id=cluster))
            return [frame.need async for frame in answer if frame.HasField("need")]

    async def is_refused(self, cluster: str, reader: str) -> bool:
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await self.rows(cluster, reader)
        return refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED

    async def hold(self, needs: Sequence[CapacityNeed]) -> None:
        """Returns when a cycle has seen these needs."""
        rollups = await self.shard.metric("cluster_rollups_total", cluster=CLUSTER) or 0
        await self.cluster.roll_up(*needs)
        await self.shard.until_at_least(rollups + 1, "cluster_rollups_total", cluster=CLUSTER)
        cycles = await self.shard.metric("cycle_duration_seconds_count") or 0
        await self.shard.until_at_least(cycles + 2, "cycle_duration_seconds_count")

    async def look(self, held: HeldNeeds, reader: str = CLUSTER) -> None:
        async with channel(self.shard.address, self.tls / reader, "shard") as connection:
            await NeedsReader(CLUSTER, self.shard.address, self.tls, held).look(ShardReadStub(connection))


@pytest.fixture
async def standing(tmp_path: Path) -> AsyncIterator[Standing]:
    tls = tmp_path / "tls"
    authority = Authority.create("test")
    authority.issue(Identity("shard", "shard-0"), dns_names=["shard.bigfleet"]).write(tls / "shard")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tls / "provider")
    for identity in (Identity("cluster", CLUSTER), Identity("cluster", OTHER), Identity("readonly")):
        authority.issue(identity).write(tls / (identity.name or identity.kind))
    async with (
        provider_at(tmp_path, tls_dir=tls / "provider") as provider,
        shard_at(tmp_path, provider, tls_dir=tls / "shard", cycle_interval_seconds=0.1) as shard,
        session_at(shard, tls / CLUSTER) as cluster,
    ):
        yield Standing(shard, cluster, tls)


@asynccontextmanager
async def session_at(shard: Shard, tls_dir: Path) -> AsyncIterator[Cluster]:
    """A cluster that speaks to its shard; its nodes never join."""

    async def never_join(**_: object) -> None:
        return

    async with channel(shard.address, tls_dir, "shard") as connection:
        call = ShardStub(connection).Session()
        cluster = Cluster(call, never_join)
        await cluster.send(hello=Hello(cluster_id=CLUSTER, protocol_version="v1alpha1"))
        listener = asyncio.create_task(cluster.listen())
        try:
            await cluster.until(lambda: "resync" in cluster.acks)
            yield cluster
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
            call.cancel()


def witness_of(workloads: Sequence[Workload]) -> HeldNeeds:
    """A witness that has known the living Pods of these workloads for a minute."""
    clock = Clock()
    witness = Witness({one.name: one for one in workloads}, sight=Sight(clock))
    for one in workloads:
        for number in range(one.replicas):
            witness.on_pod(None, pod(f"{one.name}-{number}", of=one))
    clock.now += 60
    return witness.held


async def test_a_cluster_reads_its_own_rows_and_no_others(standing: Standing) -> None:
    await standing.hold(rolled_up([WEB, SPREAD]).needs())
    own = await standing.rows(CLUSTER, CLUSTER)
    assert [row.cluster_id for row in own] == [CLUSTER, CLUSTER]
    assert [row.need.priority for row in own] == [SPREAD.priority, WEB.priority]
    assert await standing.is_refused(CLUSTER, OTHER)
    assert await standing.is_refused("", CLUSTER), "all clusters are not its own"
    assert await standing.is_refused(CLUSTER, "provider")
    assert await standing.rows(OTHER, OTHER) == []
    for cluster in (CLUSTER, ""):
        assert [row.need for row in await standing.rows(cluster, "readonly")] == [row.need for row in own]


async def test_rows_that_an_engine_really_holds_are_those_of_the_draw(standing: Standing) -> None:
    held = witness_of(WORKLOADS)
    needs = rolled_up(WORKLOADS).needs()
    await standing.hold(needs)
    folded = [row for row in await standing.rows(CLUSTER, CLUSTER) if row.need.min_unit["cpu"] == "2"]
    assert any(row.need.aggregate_resources["cpu"] == "4" for row in folded), "both small gangs fold"
    for _ in range(LOOKS):
        await standing.look(held)
    assert held.is_fresh and not held.in_doubt

    for need in needs:
        del need.requirements[0].values[1:]
    await standing.hold(needs)
    for _ in range(LOOKS):
        await standing.look(held)
    # Of the folded gangs there is one row; what TEAMED asks for first has one value anyway.
    wrong = held.wrong()
    assert {field: count for field, count in wrong.items() if count} == {"requirements": 4, "missing": 1}


async def test_a_shard_that_does_not_answer_leaves_the_witness_without_a_look(standing: Standing) -> None:
    held = witness_of([WEB])
    with pytest.raises(grpc.aio.AioRpcError):
        await standing.look(held, reader=OTHER)
    assert not held.is_fresh


async def test_the_reader_asks_again_after_a_refusal_and_looks_on(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs_reader, "_DOUBTFUL_SECONDS", 0.05)
    monkeypatch.setattr(needs_reader, "_CALM_SECONDS", 0.05)
    await standing.hold(rolled_up([WEB]).needs())
    held = witness_of([WEB])
    certificate = standing.tls / "renewed"
    shutil.copytree(standing.tls / OTHER, certificate)
    with capture_logs() as said:
        reading = asyncio.create_task(NeedsReader(CLUSTER, standing.shard.address, certificate, held).run())
        try:
            await eventually(lambda: any("may read its own needs only" in one.get("reason", "") for one in said))
            assert not held.is_fresh
            shutil.copytree(standing.tls / CLUSTER, certificate, dirs_exist_ok=True)
            await eventually(lambda: held.is_fresh)
            await standing.hold([])
            await eventually(lambda: held.wrong()["missing"] == 1)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def test_without_a_shard_there_is_nothing_to_read() -> None:
    held = witness_of([WEB])
    await NeedsReader(CLUSTER, "", None, held).run()
    assert not held.is_fresh
