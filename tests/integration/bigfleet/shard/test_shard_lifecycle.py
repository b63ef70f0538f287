"""A shard between the fake provider and a cluster: demand becomes nodes, and what goes wrong is made good."""

from pathlib import Path

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.faults import Faults
from bigfleet.provider.fake.run_phase import SOAK
from tests.integration.players.provider_client import CLUSTER, ProviderClient, fleet_of, provider_at
from tests.integration.players.shard_client import Cluster, cluster_at, shard_at, small_need

SPECULATIVE = {"idPrefix": "spec", "kind": "small", "count": 6, "state": "Speculative"}
IDLE = {"idPrefix": "idle", "kind": "small", "count": 4, "state": "Idle"}


async def test_a_roll_up_becomes_a_node_long_before_the_next_timer(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(SPECULATIVE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=2))
        configured = await cluster.until_configured(2)
        update = cluster.machines[min(configured)]
        assert update.node_name == f"fake-{update.machine_id}"
        assert update.cluster_id == CLUSTER
        assert update.labels["node.kubernetes.io/instance-type"] == "m6i.large"
        assert dict(update.resources.resources)["cpu"] == "4"
        assert await shard.outcomes("Provision") == {"success": 2}
        assert await shard.outcomes("Bootstrap") == {"success": 2}
        assert await shard.metric("configure_phase_seconds_count") == 2
        assert await shard.metric("create_phase_seconds_count") == 2
        assert await shard.metric("provisioning_latency_seconds_count") == 1
        assert await shard.metric("shortfalls") == 0
        assert (await provider.get(min(configured))).cluster == CLUSTER


async def test_steady_demand_moves_nothing(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE, SPECULATIVE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=3))
        configured = await cluster.until_configured(3)
        cycles = await shard.metric("cycle_duration_seconds_count") or 0
        await shard.until_at_least(cycles + 5, "cycle_duration_seconds_count")
        assert cluster.in_state(provider_pb2.CONFIGURED) == configured
        assert await shard.metric("actions_total", kind="Bootstrap") == 3
        assert await shard.metric("actions_total", kind="Provision") == 0
        assert await shard.metric("actions_total", kind="Reclaim") == 0


async def test_a_refused_configure_is_counted_and_burns_no_machine(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE, SPECULATIVE), faults=Faults(refuse_configure=True)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=4))
        await shard.until_at_least(8, "action_execute_outcomes_total", kind="Bootstrap", outcome="provider_error")
        assert set(await shard.outcomes("Bootstrap")) == {"provider_error"}
        assert await shard.metric("configure_phase_seconds_count") == 0
        assert await shard.metric("inventory_machines", state="Failed") == 0
        # An outage is no reason to buy: the four that were refused still stand for the demand.
        assert await shard.metric("actions_total", kind="Provision") == 0
        assert cluster.machines == {}


async def lose_a_machine(provider: ProviderClient, cluster: Cluster) -> str:
    """The machine that served the whole demand until it was lost; no other will be lost after it."""
    await cluster.roll_up(small_need(machines=1))
    (lost,) = await cluster.until_configured(1)
    provider.provider.phase.set(SOAK)
    await cluster.until(lambda: lost in cluster.in_state(provider_pb2.FAILED))
    provider.provider.phase.set("evidence")
    return lost


async def test_a_lost_machine_is_replaced_once_and_nothing_is_reclaimed(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE), failure_rate_per_sec=1.0) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        lost = await lose_a_machine(provider, cluster)
        (replacement,) = await cluster.until_configured(1)
        assert replacement != lost
        assert "lost" in cluster.machines[lost].last_error
        assert await shard.metric("actions_total", kind="Bootstrap") == 2
        assert await shard.metric("actions_total", kind="Reclaim") == 0
        assert await shard.metric("inventory_machines", state="Failed") == 1


async def test_a_machine_that_heals_is_used_again_and_its_old_cluster_hears_that_it_left(tmp_path: Path) -> None:
    one = IDLE | {"count": 1}
    async with (
        provider_at(tmp_path, fleet_of(one), failure_rate_per_sec=1.0, repair_seconds=0.5) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        lost = await lose_a_machine(provider, cluster)
        assert await cluster.until_configured(1) == {lost}
        states = [
            (frame.node_state_update.state, frame.node_state_update.removed)
            for frame in cluster.frames
            if frame.WhichOneof("payload") == "node_state_update"
        ]
        failed = states.index((provider_pb2.FAILED, False))
        assert (provider_pb2.SPECULATIVE, True) in states[failed:]


async def test_a_restarted_shard_rebuilds_from_list_and_reclaims_nothing_before_the_first_roll_up(
    tmp_path: Path,
) -> None:
    async with provider_at(tmp_path, fleet_of(IDLE)) as provider:
        async with shard_at(tmp_path, provider) as shard, cluster_at(shard, provider) as cluster:
            await cluster.roll_up(small_need(machines=3))
            configured = await cluster.until_configured(3)
        async with (
            shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
            cluster_at(shard, provider) as cluster,
        ):
            assert cluster.in_state(provider_pb2.CONFIGURED) == configured
            await shard.until_at_least(10, "cycle_duration_seconds_count")
            assert await shard.metric("actions_total") == 0
            # Fenced it is not: the second life has a newer epoch.
            await cluster.roll_up(small_need(machines=4))
            await cluster.until_configured(4)
            assert await shard.outcomes("Bootstrap") == {"success": 1}


async def test_seeded_machines_wait_for_their_node_and_are_left_out_of_the_configure_phase(tmp_path: Path) -> None:
    seeded = {"idPrefix": "conf", "kind": "small", "count": 2, "state": "Configured", "cluster": CLUSTER}
    async with (
        provider_at(tmp_path, fleet_of(seeded)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2) as shard,
    ):
        await shard.until_metric(2, "seeded_waiting")
        async with cluster_at(shard, provider) as cluster:
            await cluster.until_configured(2)
            await shard.until_metric(0, "seeded_waiting")
        assert await shard.metric("configure_phase_seconds_count") == 0
        assert await shard.outcomes("Bootstrap") == {}


async def test_a_withdrawn_demand_drains_through_the_operator(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2, reclaim_after_seconds=0.5) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await cluster.roll_up(small_need(machines=1))
        (machine_id,) = await cluster.until_configured(1)
        await cluster.roll_up()
        await cluster.until(lambda: cluster.reclaims)
        instruction = cluster.reclaims[0]
        assert list(instruction.nodes) == [f"fake-{machine_id}"]
        assert instruction.grace_period_seconds == 600
        await cluster.until(lambda: machine_id in cluster.in_state(provider_pb2.DRAINING))
        # The provider is not asked before the operator has spoken.
        assert (await provider.get(machine_id)).state == MachineState.CONFIGURED
        await cluster.send(drain_report={"instruction_id": instruction.instruction_id})
        await cluster.until(lambda: machine_id not in cluster.machines)
        await shard.until_metric(4, "inventory_machines", state="Idle")
        assert await shard.outcomes("Reclaim") == {"success": 1}
        assert await shard.metric("drain_phase_seconds_count") == 1
