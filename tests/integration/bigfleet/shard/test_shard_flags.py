"""Flags of a shard that show in nothing but its output."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.players.provider_client import fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, shard_at, small_need

FLEET = fleet_of({"idPrefix": "idle", "kind": "small", "count": 1, "state": "Idle"})


async def test_every_twentieth_cycle_says_where_its_time_went(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = ""
    async with (
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, phase_attribution_log=True, cycle_interval_seconds=0.01),
        asyncio.timeout(60),
    ):
        while "where the time went" not in said:
            await asyncio.sleep(0.1)
            said += capfd.readouterr().out
    (line,) = [line for line in said.splitlines() if "where the time went" in line][:1]
    assert "cycle=20" in line
    assert all(f"{phase}=" in line for phase in ("reconcile", "phase1", "phase2", "phase3", "execute"))


async def test_a_shard_without_metrics_serves_its_clusters_all_the_same(tmp_path: Path) -> None:
    async with (
        provider_at(tmp_path, FLEET) as provider,
        shard_at(tmp_path, provider, metrics_addr="0") as shard,
        cluster_at(shard, provider) as cluster,
    ):
        assert shard.ports.metrics_port == 0
        await cluster.roll_up(small_need(machines=1))
        await cluster.until_configured(1)
