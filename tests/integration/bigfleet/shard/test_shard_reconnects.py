"""An operator that hangs up is asked again what it has not answered; one that stays away costs no machine."""

from pathlib import Path

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from tests.integration.players.provider_client import fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, shard_at, small_need

IDLE = {"idPrefix": "idle", "kind": "small", "count": 2, "state": "Idle"}


async def test_an_unanswered_bootstrap_is_asked_again_in_the_next_session(tmp_path: Path) -> None:
    async with provider_at(tmp_path, fleet_of(IDLE)) as provider, shard_at(tmp_path, provider) as shard:
        async with cluster_at(shard, provider, answers_blobs=False) as cluster:
            await cluster.roll_up(small_need(machines=2))
            await cluster.until(lambda: len(cluster.requests) == 2)
            asked = {request.request_id: request.machine_id for request in cluster.requests}
        await shard.until_metric(0, "active_sessions")
        async with cluster_at(shard, provider) as cluster:
            await cluster.until_configured(2)
            assert {request.request_id: request.machine_id for request in cluster.requests} == asked
        assert await shard.outcomes("Bootstrap") == {"success": 2}
        assert await shard.metric("reissued_total", kind="bootstrap_request") == 2


async def test_a_newer_session_is_asked_what_the_older_one_has_not_answered(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider, answers_blobs=False) as older,
    ):
        await older.roll_up(small_need(machines=1))
        await older.until(lambda: older.requests)
        async with cluster_at(shard, provider) as newer:
            await newer.until_configured(1)
            assert newer.requests[0].request_id == older.requests[0].request_id


async def test_an_answer_counts_only_from_the_cluster_that_was_asked(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider) as shard,
        cluster_at(shard, provider, answers_blobs=False) as asked,
        cluster_at(shard, provider, cluster="another") as another,
    ):
        await asked.roll_up(small_need(machines=1))
        await asked.until(lambda: asked.requests)
        await another.answer_blob(asked.requests[0].request_id)
        await another.roll_up()
        await another.until(lambda: "rollup" in another.acks)  # so the answer has been read
        assert await shard.outcomes("Bootstrap") == {}
        await asked.answer_blob(asked.requests[0].request_id)
        await asked.until_configured(1)


async def test_an_operator_that_stays_away_costs_no_machine(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, reconnect_seconds=0.2, cycle_interval_seconds=0.2) as shard,
    ):
        async with cluster_at(shard, provider, answers_blobs=False) as cluster:
            await cluster.roll_up(small_need(machines=2))
            await cluster.until(lambda: len(cluster.requests) == 2)
        await shard.until_metric(2, "action_execute_outcomes_total", kind="Bootstrap", outcome="no_session")
        await shard.until_metric(2, "inventory_machines", state="Idle")
        # The demand was not forgotten.
        async with cluster_at(shard, provider) as cluster:
            await cluster.until_configured(2)


async def test_a_drain_goes_on_in_the_next_session(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, cycle_interval_seconds=0.2, reclaim_after_seconds=0.2) as shard,
    ):
        async with cluster_at(shard, provider) as cluster:
            await cluster.roll_up(small_need(machines=1))
            (machine_id,) = await cluster.until_configured(1)
            await cluster.roll_up()
            await cluster.until(lambda: cluster.reclaims)
            first = cluster.reclaims[0]
        await shard.until_metric(0, "active_sessions")
        async with cluster_at(shard, provider) as cluster:
            await cluster.until(lambda: cluster.reclaims)
            again = cluster.reclaims[0]
            assert (again.instruction_id, list(again.nodes)) == (first.instruction_id, list(first.nodes))
            assert 0 < again.grace_period_seconds <= first.grace_period_seconds
            assert machine_id in cluster.in_state(provider_pb2.DRAINING)
            assert (await provider.get(machine_id)).state == MachineState.CONFIGURED
            await cluster.send(drain_report={"instruction_id": again.instruction_id})
            await cluster.until(lambda: machine_id not in cluster.machines)
        assert await shard.outcomes("Reclaim") == {"success": 1}
        assert await shard.metric("reissued_total", kind="reclaim_instruction") == 1
