"""What a mistaken cycle, an absent operator or a wrong clock cannot do (docs/reference/engine.md#rails, ADR-36)."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from bigfleet.api.v1alpha1 import shard_pb2
from bigfleet.shard.options import IdleHolds
from bigfleet.shard.process import RunningShard
from tests import patience
from tests.integration.players.apiserver import free_ports
from tests.integration.players.ctl import bigfleetctl
from tests.integration.players.provider_client import CLUSTER, ProviderClient, fleet_of, provider_at
from tests.integration.players.shard_client import PATIENCE_SECONDS, Cluster, Shard, cluster_at, shard_at, small_need

BOUND = {"idPrefix": "bound", "kind": "small", "count": 4, "state": "Configured", "cluster": CLUSTER}
IDLE = {"idPrefix": "idle", "kind": "small", "count": 40, "state": "Idle"}
DAY = 86_400.0
# A shard whose wall clock is as far ahead as a file says.
PROGRAM = """
import sys, time
from pathlib import Path
ahead, wall = Path(sys.argv.pop(1)), time.time
time.time = lambda: wall() + float(ahead.read_text())
from bigfleet.cli import main
sys.exit(main())
"""


async def why(shard: Shard) -> str:
    asking = ("--cluster", CLUSTER, "--shard-addr", shard.address)
    return (await bigfleetctl("--plaintext", "why", *asking)).out


async def report_drained(cluster: Cluster) -> None:
    for instruction in cluster.reclaims:
        await cluster.send(drain_report=shard_pb2.DrainReport(instruction_id=instruction.instruction_id))


async def test_a_reclaim_waits_for_the_session_of_its_clusters_operator(tmp_path: Path) -> None:
    fast = {"reclaim_after_seconds": 1.0, "cycle_interval_seconds": 0.2, "cap_window_seconds": 0.1}
    async with provider_at(tmp_path, fleet_of(BOUND)) as provider, shard_at(tmp_path, provider, **fast) as shard:
        async with cluster_at(shard, provider) as cluster:
            await shard.until_metric(4, "inventory_machines", state="Configured")
            await cluster.roll_up(small_need(machines=3))
            await cluster.until(lambda: "rollup" in cluster.acks)
        await shard.until_metric(1, "rail_waiting_machines", rail="session")
        assert await shard.metric("inventory_machines", state="Configured") == 4
        assert await shard.outcomes("Reclaim") == {}
        assert "1 machine more than it asks for: waiting for a session of its operator" in await why(shard)
        async with cluster_at(shard, provider) as cluster:
            await cluster.until(lambda: cluster.reclaims)
            await report_drained(cluster)
            await shard.until_metric(1, "action_execute_outcomes_total", kind="Reclaim", outcome="success")
            await shard.until_metric(0, "rail_waiting_machines", rail="session")
        assert await shard.metric("inventory_machines", state="Configured") == 3


async def test_who_asks_why_hears_of_machines_that_wait_for_the_reclaim_rate(tmp_path: Path) -> None:
    fast = {"reclaim_after_seconds": 0.0, "cycle_interval_seconds": 0.1, "cap_window_seconds": 600.0}
    async with (
        provider_at(tmp_path, fleet_of(BOUND)) as provider,
        shard_at(tmp_path, provider, **fast) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await shard.until_metric(4, "inventory_machines", state="Configured")
        await cluster.roll_up(small_need(machines=1))
        await shard.until_metric(2, "rail_waiting_machines", rail="reclaim_rate")
        assert "2 machines more than it asks for: waiting for the reclaim rate" in await why(shard)
        assert len(cluster.reclaims) == 1


@asynccontextmanager
async def shard_with_a_wall_clock(
    directory: Path, provider: ProviderClient, ahead: Path, *flags: str
) -> AsyncIterator[Shard]:
    """A process of its own: what code read at its start cannot be patched here."""
    ports = free_ports(2)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(ahead), "shard", "--plaintext", "--id", "shard-0",
        "--listen", f"127.0.0.1:{ports[0]}", "--metrics-addr", f"127.0.0.1:{ports[1]}",
        "--data-dir", str(directory / "shard"), "--provider-addr", f"127.0.0.1:{provider.provider.port}", *flags,
    )  # fmt: skip
    shard = Shard(RunningShard(*ports))

    async def serves() -> bool:
        try:
            return (await shard.get("/readyz"))[0] == 200
        except aiohttp.ClientError:
            return False

    try:
        await patience.eventually(serves, seconds=PATIENCE_SECONDS)
        yield shard
    finally:
        process.terminate()
        await process.wait()


async def test_a_wall_clock_that_jumps_by_a_day_gives_back_no_idle_machine(tmp_path: Path) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    flags = ("--release-cap-fraction", "0", "--cycle-interval-seconds", "0.2", "--idle-hold-on-demand-seconds", "300")
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_with_a_wall_clock(tmp_path, provider, ahead, *flags) as shard,
    ):
        await shard.until_metric(40, "inventory_machines", state="Idle")
        for jump in (DAY, -DAY):
            ahead.write_text(str(jump))
            cycles = await shard.metric("cycle_duration_seconds_count") or 0
            await shard.until_at_least(cycles + 3, "cycle_duration_seconds_count")
            assert await shard.metric("inventory_machines", state="Idle") == 40
        assert await shard.metric("actions_total", kind="Delete") == 0


async def test_idle_machines_whose_hold_is_over_go_a_few_at_a_time(tmp_path: Path) -> None:
    fast = {"cycle_interval_seconds": 0.1, "cap_window_seconds": 600.0}
    holds = IdleHolds(on_demand_seconds=0.5, spot_seconds=0.5, reserved_seconds=0.5, bare_metal_seconds=0.5)
    async with (
        provider_at(tmp_path, fleet_of(IDLE)) as provider,
        shard_at(tmp_path, provider, idle_hold=holds, **fast) as shard,
    ):
        await shard.until_metric(38, "rail_waiting_machines", rail="release_rate")
        assert await shard.metric("actions_total", kind="Delete") == 2


async def test_a_long_cycle_interval_does_not_make_the_rate_slower(tmp_path: Path) -> None:
    slow = {"reclaim_after_seconds": 0.0, "cycle_interval_seconds": 600.0, "cap_window_seconds": 0.5}
    async with (
        provider_at(tmp_path, fleet_of(BOUND)) as provider,
        shard_at(tmp_path, provider, **slow) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await shard.until_metric(4, "inventory_machines", state="Configured")
        await cluster.roll_up(small_need(machines=1))
        # Nobody empties the nodes, so nothing else wakes a cycle.
        await cluster.until(lambda: len(cluster.reclaims) == 3)


async def test_after_a_restart_nothing_is_preempted_from_a_cluster_before_its_roll_up(tmp_path: Path) -> None:
    four = small_need(machines=4, priority=0)
    async with provider_at(tmp_path, fleet_of(BOUND)) as provider:
        async with shard_at(tmp_path, provider) as shard, cluster_at(shard, provider) as cluster:
            await cluster.roll_up(four)
            await shard.until_metric(4, "inventory_machines", state="Configured")
        async with (
            shard_at(tmp_path, provider, cycle_interval_seconds=0.1) as shard,
            cluster_at(shard, provider, "urgent") as urgent,
        ):
            await shard.until_metric(4, "inventory_machines", state="Configured")
            await urgent.roll_up(small_need(machines=1, priority=1_000_000), cluster_id="urgent")
            await shard.until_metric(1, "shortfalls")
            cycles = await shard.metric("cycle_duration_seconds_count") or 0
            await shard.until_at_least(cycles + 5, "cycle_duration_seconds_count")
            assert await shard.metric("actions_total", kind="Preempt") == 0
            async with cluster_at(shard, provider) as cluster:
                await cluster.roll_up(four)
                await cluster.until(lambda: cluster.reclaims)
                assert [one.preemptor_priority for one in cluster.reclaims] == [1_000_000]
