"""The failure table of spec/engine.md §14, row by row: what must go on, what pauses, how it recovers.

| row | test |
| --- | --- |
| coordinator quorum lost | test_without_a_quorum_shards_go_on_and_their_heartbeats_come_back; every coordinator gone: test_coordinator_stability |
| shard killed | test_a_killed_shard_rebuilds_and_others_do_not_notice |
| operator partition | test_a_silent_operator_loses_nothing; unanswered questions: test_shard_reconnects |
| provider down | test_while_the_provider_is_down_cycles_go_on_and_no_machine_is_burnt |
| zombie shard | test_a_zombie_is_fenced_and_harms_nobody |
| empty or garbage roll-up | test_an_empty_roll_up_is_believed_the_third_time; garbage: test_shard_bad_input |
| BigFleet entirely down | test_when_everything_is_killed_clusters_keep_their_machines |
"""  # noqa: E501 (a table)

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from bigfleet.api.v1alpha1 import capacity_pb2, provider_pb2
from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.security.authority import Authority
from tests.integration.coordinators import Trio
from tests.integration.played_operator import PlayedOperator
from tests.integration.provider_client import fleet_of, provider_at
from tests.integration.shard_client import IN, cluster_at, shard_at, small_need
from tests.integration.supply_side import Process, Supply, eventually

processes = pytest.mark.asyncio(loop_scope="module")
pytestmark = pytest.mark.integration

IDLE = {"idPrefix": "idle", "kind": "small", "count": 4, "state": "Idle"}
FLEET = fleet_of(IDLE, {"idPrefix": "idle", "kind": "metal", "count": 4, "state": "Idle"})
# Two of the first shard's, one of the second's.
CLUSTERS = ("kwok-cluster-0", "kwok-cluster-2", "kwok-cluster-1")


@dataclass
class World:
    """Three coordinators, a provider, a shard for each zone, and three clusters with something to do."""

    trio: Trio
    supply: Supply
    first: PlayedOperator
    neighbour: PlayedOperator
    elsewhere: PlayedOperator

    @property
    def shard(self) -> Process:
        return self.supply.shards[0]

    async def heal(self) -> None:
        """Start what a test has killed, and ask for what every test begins with."""
        await self.trio.heal()
        for process in self.supply.processes:
            if not process.runs:
                await process.start()
        for process in self.supply.processes:
            await eventually(process.ready)
        self.first.ask_for(lasting_need(machines=2))
        self.neighbour.ask_for(small_need(machines=1))
        self.elsewhere.ask_for(metal_need(machines=1))
        for operator, count in ((self.first, 2), (self.neighbour, 1), (self.elsewhere, 1)):
            await self.supply.until_configured(operator.cluster, count)
            held = await self.supply.machines_of(operator.cluster)
            await eventually(partial(_believes, operator, held))


def _believes(operator: PlayedOperator, held: dict[str, str]) -> bool:
    return operator.states() == held


def lasting_need(machines: int) -> capacity_pb2.CapacityNeed:
    need = small_need(machines)
    need.interruption_penalty_bucket = capacity_pb2.HALF_DOLLAR
    return need


def metal_need(machines: int) -> capacity_pb2.CapacityNeed:
    requirement = capacity_pb2.NodeSelectorRequirement(key=INSTANCE_TYPE_KEY, operator=IN, values=["a3-highgpu-8g"])
    amount = {"cpu": str(machines * 208)}
    return capacity_pb2.CapacityNeed(
        requirements=[requirement], aggregate_resources=amount, min_unit={"cpu": "1"}, priority=1000
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(
    authority: Authority, shared_trio: Trio, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    directory = tmp_path_factory.mktemp("table")
    coordinators = ",".join(member.options.listen for member in shared_trio.members)
    supply = Supply(
        directory,
        authority,
        zones=("zone-a", "zone-b"),
        fleet=FLEET,
        clusters=CLUSTERS,
        shard=[f"--coordinator-addr={coordinators}", "--coordinator-heartbeat-interval-seconds=0.3"],
    )
    operators = [
        PlayedOperator(cluster, supply.shards[shard].address, supply.provider.address, directory / cluster)
        for cluster, shard in zip(CLUSTERS, (0, 0, 1), strict=True)
    ]
    async with supply.running(), AsyncExitStack() as stack:
        for operator in operators:
            await stack.enter_async_context(operator.running())
        yield World(shared_trio, supply, *operators)


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_world: World) -> World:
    await shared_world.heal()
    return shared_world


@processes
async def test_without_a_quorum_shards_go_on_and_their_heartbeats_come_back(world: World) -> None:
    survivor = world.trio.members[0]
    for member in world.trio.others(survivor):
        await member.kill()
    cycles = await world.shard.metric("shard_cycle_duration_seconds_count")
    # Provisioning: the last free machine of the zone.
    world.neighbour.ask_for(small_need(machines=2))
    await world.supply.until_configured(world.neighbour.cluster, 2)
    # Preemption: the neighbour needs one of the first cluster's more urgently.
    world.neighbour.ask_for(small_need(machines=3, priority=2_000_000))
    await world.supply.until_configured(world.neighbour.cluster, 3)
    await world.supply.until_configured(world.first.cluster, 1)
    assert await world.shard.metric("shard_actions_total", kind="Preempt") >= 1
    assert await world.shard.metric("shard_cycle_duration_seconds_count") > cycles
    assert await world.shard.metric("shard_active_sessions") == 2
    assert not await survivor.leads()

    await world.trio.heal()
    leader = await world.trio.leader()
    before = {one.shard_id: one.last_heartbeat_unix_ns for one in await leader.shards()}

    async def beat_again() -> bool:
        now = {one.shard_id: one.last_heartbeat_unix_ns for one in await leader.shards()}
        return now.keys() == {"shard-0", "shard-1"} and all(now[one] > before.get(one, 0) for one in now)

    await eventually(beat_again)


@processes
async def test_a_killed_shard_rebuilds_and_others_do_not_notice(world: World) -> None:
    held = await world.supply.machines_of(world.first.cluster)
    await world.shard.kill()
    world.elsewhere.ask_for(metal_need(machines=2))
    await world.supply.until_configured(world.elsewhere.cluster, 2)
    assert await world.supply.machines_of(world.first.cluster) == held
    assert world.first.states() == held

    # Its operators come back late: until a cluster has spoken, nothing of it is reclaimed.
    await world.first.kill()
    await world.shard.start()
    await eventually(world.shard.ready)
    await world.shard.until_cycles(5)
    lasting = {"state": "Configured", "interruption_penalty_bucket": "0.5"}
    assert await world.shard.metric("shard_inventory_machines", **lasting) == 2
    assert await world.supply.machines_of(world.first.cluster) == held

    before = world.first.sessions
    await world.first.start()
    await eventually(lambda: world.first.sessions > before and world.first.states() == held)
    await world.shard.until_cycles(5)
    assert await world.supply.machines_of(world.first.cluster) == held
    assert await world.shard.metric("shard_actions_total") == 0


@processes
async def test_while_the_provider_is_down_cycles_go_on_and_no_machine_is_burnt(world: World) -> None:
    await world.supply.provider.kill()
    world.neighbour.ask_for(small_need(machines=2))

    async def refused() -> bool:
        errors = await world.shard.metric(
            "shard_action_execute_outcomes_total", kind="Bootstrap", outcome="provider_error"
        )
        return errors >= 1 and await world.shard.metric("shard_reconcile_errors_total") >= 1

    await eventually(refused)
    await world.shard.until_cycles(2)
    assert await world.shard.metric("shard_inventory_machines", state="Failed") == 0
    assert await world.shard.metric("shard_inventory_machines") == 4
    assert await world.shard.metric("shard_active_sessions") == 2
    await world.supply.provider.start()
    await world.supply.until_configured(world.neighbour.cluster, 2)
    assert await world.shard.metric("shard_inventory_machines", state="Failed") == 0


@processes
async def test_when_everything_is_killed_clusters_keep_their_machines(world: World) -> None:
    operators = (world.first, world.neighbour, world.elsewhere)
    held = [await world.supply.machines_of(operator.cluster) for operator in operators]
    for process in world.supply.processes:
        await process.kill()
    for member in world.trio.members:
        await member.kill()
    assert [operator.states() for operator in operators] == held
    before = [operator.sessions for operator in operators]
    await world.heal()
    await eventually(lambda: all(one.sessions > then for one, then in zip(operators, before, strict=True)))
    for shard in world.supply.shards:
        await shard.until_cycles(5)
        assert await shard.metric("shard_actions_total") == 0
    assert [await world.supply.machines_of(operator.cluster) for operator in operators] == held
    assert [operator.states() for operator in operators] == held


async def test_a_silent_operator_loses_nothing(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1, reclaim_after_seconds=0.1) as shard,
    ):
        async with cluster_at(shard, provider) as cluster:
            await cluster.roll_up(small_need(machines=3))
            held = await cluster.until_configured(3)
        await shard.until_metric(0, "active_sessions")
        cycles = await shard.metric("cycle_duration_seconds_count") or 0
        await shard.until_at_least(cycles + 10, "cycle_duration_seconds_count")
        assert await shard.metric("actions_total", kind="Reclaim") == 0
        assert await shard.metric("demand_machines") == 1
        async with cluster_at(shard, provider) as cluster:
            assert cluster.in_state(provider_pb2.CONFIGURED) == held


async def test_a_zombie_is_fenced_and_harms_nobody(tmp_path: Path) -> None:
    """Two shards with one id: the older one still holds what it was last told."""
    options = {"cycle_interval_seconds": 0.2, "reclaim_after_seconds": 0.2}
    for name, epoch in (("zombie", 5), ("living", 9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "epoch").write_text(f"{epoch}\n")
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, data_dir=tmp_path / "zombie", **options) as zombie,
    ):
        async with cluster_at(zombie, provider) as cluster:
            await cluster.roll_up(small_need(machines=1))
            await cluster.until_configured(1)
        await zombie.until_metric(0, "active_sessions")
        async with (
            shard_at(tmp_path, provider, data_dir=tmp_path / "living", **options) as living,
            cluster_at(living, provider) as cluster,
        ):
            await cluster.roll_up(small_need(machines=3))
            held = await cluster.until_configured(3)
            # The zombie takes what the living one has bound for excess.
            await zombie.until_at_least(1, "action_execute_outcomes_total", kind="Reclaim", outcome="fenced")
            cycles = await zombie.metric("cycle_duration_seconds_count") or 0
            await zombie.until_at_least(cycles + 5, "cycle_duration_seconds_count")
            assert set(await zombie.outcomes("Reclaim")) == {"fenced"}
            assert cluster.in_state(provider_pb2.CONFIGURED) == held
            assert set(await living.outcomes("Bootstrap")) == {"success"}


async def test_an_empty_roll_up_is_believed_the_third_time(tmp_path: Path) -> None:
    rows = [small_need(machines=0, priority=priority) for priority in range(1, 10)]
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1, reclaim_after_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=2), *rows)
        await cluster.until_configured(2)
        for held in (1, 2):
            await cluster.roll_up()
            await shard.until_metric(held, "rollup_quarantined")
        cycles = await shard.metric("cycle_duration_seconds_count") or 0
        await shard.until_at_least(cycles + 5, "cycle_duration_seconds_count")
        assert await shard.metric("demand_machines") == 10
        assert await shard.metric("actions_total", kind="Reclaim") == 0
        await cluster.roll_up()
        await cluster.until(lambda: cluster.reclaims)
        assert await shard.metric("rollup_quarantined") == 0
