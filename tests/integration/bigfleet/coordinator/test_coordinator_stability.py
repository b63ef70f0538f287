"""Static stability: shards need no coordinator, and obey one again that came back without its memory."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.players.coordinators import ZONE, Coordinator, eventually
from tests.integration.players.provider_client import fleet_of, provider_at
from tests.integration.players.shard_client import cluster_at, shard_at, small_need

pytestmark = pytest.mark.integration
FLEET = fleet_of(
    {"idPrefix": "idle", "kind": "small", "count": 3, "state": "Idle"},
    {"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"},
)


async def test_with_every_coordinator_gone_shards_go_on_and_later_obey_a_new_one(
    stopped: Coordinator, tmp_path: Path
) -> None:
    coordinator = Coordinator(replace(stopped.options, tls_dir=None, plaintext=True), stopped.identities)

    async def registered() -> bool:
        return bool(await coordinator.leads() and await coordinator.shards())

    async with (
        coordinator.running(),
        provider_at(tmp_path, FLEET) as provider,
        shard_at(
            tmp_path,
            provider,
            coordinator_addr=coordinator.options.listen,
            coordinator_heartbeat_interval_seconds=0.2,
            cycle_interval_seconds=0.2,
        ) as shard,
        cluster_at(shard, provider) as cluster,
    ):
        await eventually(registered)
        await coordinator.stop()
        await coordinator.start()  # so that the shard knows a later term than that of a new coordinator
        await eventually(registered)
        await coordinator.kill()

        await cluster.roll_up(small_need(machines=2))
        await cluster.until_configured(2)
        assert (await shard.get("/readyz"))[0] == 200

        shutil.rmtree(coordinator.options.data_dir)
        await coordinator.start()
        await eventually(registered)
        await coordinator.assign(ZONE)
        # Of the five machines, those of the other zone are now another shard's.
        await shard.until_metric(3, "inventory_machines")
        assert len(cluster.machines) == 2
