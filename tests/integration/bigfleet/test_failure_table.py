"""The failure table (docs/reference/engine.md#failures), row by row: what must go on, what pauses, how it recovers.

| row | test |
| --- | --- |
| coordinator quorum lost | test_without_a_quorum_shards_go_on_and_a_new_one_waits_to_be_known; every coordinator gone: test_coordinator_stability |
| shard killed | test_a_killed_shard_rebuilds_and_others_do_not_notice |
| operator partition | test_a_partitioned_operator_loses_nothing; one that hangs up: test_shard_reconnects |
| provider down | test_while_the_provider_is_down_cycles_go_on_and_no_machine_is_burnt |
| zombie shard | test_a_zombie_is_fenced_and_harms_nobody |
| empty or garbage roll-up | test_garbage_is_never_believed_and_an_empty_roll_up_the_third_time; all sorts of garbage: test_shard_bad_input |
| BigFleet entirely down | test_when_everything_is_killed_clusters_keep_their_machines |

Provider, shards and coordinators are processes of their own; clusters are played, over lines that can be cut.
"""  # noqa: E501 (a table)

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from bigfleet.api.v1alpha1 import capacity_pb2, coordinator_pb2
from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.security.authority import Authority
from tests.integration.players.coordinators import Trio
from tests.integration.players.line import Line
from tests.integration.players.played_operator import PlayedOperator
from tests.integration.players.provider_client import CLUSTER, fleet_of
from tests.integration.players.shard_client import IN, small_need
from tests.integration.players.supply_side import Process, Supply, eventually

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
    # From the first cluster's operator to its shard.
    line: Line

    @property
    def shard(self) -> Process:
        return self.supply.shards[0]

    async def heal(self) -> None:
        """Start what a test has killed, and ask for what every test begins with."""
        self.line.mend()
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


async def _has_nothing(supply: Supply, cluster: str) -> bool:
    return not await supply.machines_of(cluster)


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
    async with supply.running(), Line(supply.shards[0].address).open() as line, AsyncExitStack() as stack:
        shards = (line.address, supply.shards[0].address, supply.shards[1].address)
        first, neighbour, elsewhere = operators = [
            PlayedOperator(cluster, shard, supply.provider.address, directory / cluster)
            for cluster, shard in zip(CLUSTERS, shards, strict=True)
        ]
        for operator in operators:
            await stack.enter_async_context(operator.running())
        yield World(shared_trio, supply, first, neighbour, elsewhere, line)


@pytest_asyncio.fixture(loop_scope="module")
async def world(shared_world: World) -> World:
    await shared_world.heal()
    return shared_world


@processes
async def test_without_a_quorum_shards_go_on_and_a_new_one_waits_to_be_known(world: World) -> None:
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
    async with world.supply.newcomer("shard-9", zone="zone-c").running() as newcomer:
        # It works at once, although nobody can write its name down.
        await newcomer.until_cycles(2)
        assert not await survivor.leads()

        before = time.time_ns()
        await world.trio.heal()
        leader = await world.trio.leader()
        beats = {one.shard_id: one.last_heartbeat_unix_ns for one in await leader.shards()}

        async def all_beat_again() -> dict[str, coordinator_pb2.ShardRegistryEntry] | None:
            known = {one.shard_id: one for one in await leader.shards()}
            beating = all(one.last_heartbeat_unix_ns > beats.get(name, 0) for name, one in known.items())
            return known if beating and known.keys() == {"shard-0", "shard-1", "shard-9"} else None

        known = await eventually(all_beat_again)
        assert known["shard-9"].registered_at_unix_ns > before
        assert max(known["shard-0"].registered_at_unix_ns, known["shard-1"].registered_at_unix_ns) < before
    await leader.call("admin", "RemoveShard", coordinator_pb2.RemoveShardRequest(shard_id="shard-9"))


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


async def unanswered(shard: Process) -> float:
    """Bootstraps that were given up because nobody sent what the machine needs."""
    outcomes = await shard.outcomes("Bootstrap")
    return outcomes.get("ctx_canceled", 0) + outcomes.get("no_session", 0)


@processes
async def test_a_partitioned_operator_loses_nothing(world: World) -> None:
    """Nothing comes through, and nobody is told: neither end sees a hang-up."""
    world.first.ask_for(lasting_need(machines=4))
    held = await world.supply.until_configured(world.first.cluster, 3)  # there are no more
    sessions = world.first.sessions
    world.line.cut()
    world.first.ask_for(lasting_need(machines=2))
    reclaims = await world.shard.metric("shard_actions_total", kind="Reclaim")
    before = await unanswered(world.shard)
    world.neighbour.ask_for()  # its machine is for the first cluster then, whose operator does not answer

    async def given_up() -> bool:
        return await unanswered(world.shard) > before

    await eventually(given_up)
    await world.shard.until_metric(0, "shard_inventory_machines", state="Failed")
    (freed,) = [one.id for one in (await world.supply.machines()).values() if one.zone == "zone-a" and not one.cluster]
    assert freed not in held
    # Silence is no withdrawal: what the cluster asked for last still stands, and it keeps what it has.
    await world.shard.until_cycles(5)
    assert set(await world.supply.machines_of(world.first.cluster)) == held
    assert set(world.first.states()) == held
    assert await world.shard.metric("shard_actions_total", kind="Reclaim") == reclaims + 1  # the neighbour's
    assert await world.shard.metric("shard_demand_machines") == 1

    # Both ends notice in the end, although nobody hung up.
    await world.shard.until_metric(1, "shard_active_sessions")
    world.line.mend()
    await eventually(lambda: world.first.sessions > sessions)
    kept = await world.supply.until_configured(world.first.cluster, 2)
    await eventually(lambda: set(world.first.states()) == kept)


async def test_a_zombie_is_fenced_and_harms_nobody(tmp_path: Path, authority: Authority) -> None:
    """A shard that hung is replaced, and comes back to itself: it still holds what it was last told."""
    supply = Supply(tmp_path, authority, fleet=fleet_of(IDLE), clusters=[CLUSTER])
    zombie = supply.shards[0]
    async with supply.running(), Line(zombie.address).open() as line, AsyncExitStack() as stack:
        operator = PlayedOperator(CLUSTER, line.address, supply.provider.address, tmp_path / CLUSTER)
        await stack.enter_async_context(operator.running())
        operator.ask_for(small_need(machines=1))
        await supply.until_configured(CLUSTER, 1)

        zombie.freeze()
        living = await stack.enter_async_context(supply.successor(zombie).running())
        line.lead_to(living.address)
        operator.ask_for(small_need(machines=3))
        held = await supply.until_configured(CLUSTER, 3)

        zombie.thaw()
        # It takes what the living one has bound for excess, and waits for the operator with it (ADR-36).
        await zombie.until_metric(1, "shard_rail_waiting_machines", rail="session")
        assert await zombie.outcomes("Reclaim") == {}
        operator.ask_for(small_need(machines=1))
        line.lead_to(zombie.address)
        await eventually(partial(zombie.outcomes, "Reclaim"))
        await zombie.until_cycles(5)
        assert set(await zombie.outcomes("Reclaim")) == {"fenced"}
        assert await supply.machines_of(CLUSTER) == dict.fromkeys(held, "CONFIGURED")
        assert set(await living.outcomes("Bootstrap")) == {"success"}


async def test_garbage_is_never_believed_and_an_empty_roll_up_the_third_time(
    tmp_path: Path, authority: Authority
) -> None:
    rows = [small_need(machines=0, priority=priority) for priority in range(1, 10)]
    supply = Supply(tmp_path, authority, fleet=fleet_of(IDLE), clusters=[CLUSTER])
    shard = supply.shards[0]
    # One that speaks only when its demand changes.
    operator = PlayedOperator(CLUSTER, shard.address, supply.provider.address, tmp_path / CLUSTER, rollup_seconds=3600)
    operator.ask_for(small_need(machines=2), *rows)
    async with supply.running(), operator.running():
        held = await supply.until_configured(CLUSTER, 2)
        for times in (1, 2, 3):
            operator.ask_for(capacity_pb2.CapacityNeed(aggregate_resources={"cpu": "NaN"}))
            await shard.until_metric(times, "shard_rollups_rejected_total", cluster=CLUSTER)
        for times in (1, 2):
            operator.ask_for()
            await shard.until_metric(times, "shard_rollup_quarantined", cluster=CLUSTER)
        await shard.until_cycles(5)
        assert await shard.metric("shard_demand_machines") == 10
        assert await shard.metric("shard_actions_total", kind="Reclaim") == 0
        assert await supply.machines_of(CLUSTER) == dict.fromkeys(held, "CONFIGURED")
        operator.ask_for()
        await eventually(partial(_has_nothing, supply, CLUSTER))
        assert await shard.metric("shard_rollup_quarantined", cluster=CLUSTER) == 0
        assert operator.reclaims == 2
