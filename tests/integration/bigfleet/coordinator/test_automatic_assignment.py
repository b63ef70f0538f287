"""The leader assigns domains by itself: to shards that list them, each to one, and a new shard gets its share."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bigfleet.coordinator.ownership import Domain
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.bigfleet.coordinator.test_domain_ownership import IN_ZONE_A, IN_ZONE_B, ZONE_B
from tests.integration.players.coordinators import ZONE, Coordinator, eventually
from tests.integration.players.supply_side import FLEET, Supply


@pytest.fixture
async def assigning(stopped: Coordinator) -> AsyncIterator[Coordinator]:
    """A leader that assigns by zone, and was founded for long."""
    stopped.options = replace(stopped.options, assign_by=ZONE.key, assign_after_seconds=0.001)
    async with stopped.running():
        await eventually(stopped.leads)
        yield stopped


async def test_each_machine_has_one_owner_and_a_new_shard_gets_its_share(
    assigning: Coordinator, authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    flags = [
        f"--coordinator-addr={assigning.options.listen}",
        "--coordinator-heartbeat-interval-seconds=0.5",
        "--unassigned-owns=nothing",
    ]
    supply = Supply(tmp_path / "supply", authority, fleet=FLEET, shard=flags)
    (first,) = supply.shards
    async with supply.running():
        await first.until_metric(IN_ZONE_A + IN_ZONE_B, "shard_inventory_machines")
        assert await assigning.domains() == {ZONE: "shard-0", ZONE_B: "shard-0"}
        second = supply.newcomer("shard-1", "")
        async with second.running():
            await second.until_metric(IN_ZONE_B, "shard_inventory_machines")
            await first.until_metric(IN_ZONE_A, "shard_inventory_machines")
            assert await assigning.domains() == {ZONE: "shard-0", ZONE_B: "shard-1"}
            # What is on its disk, it has without any coordinator.
            await assigning.kill()
            await second.kill()
            await second.start()
            await eventually(second.ready)
            await second.until_metric(IN_ZONE_B, "shard_inventory_machines")
            assert await second.metric("shard_inventory_machines") == IN_ZONE_B


async def test_coordinators_that_lost_everything_learn_it_again_from_the_shards_and_move_nothing(
    stopped: Coordinator, authority: Authority, tmp_path: Path
) -> None:
    stopped.options = replace(stopped.options, assign_by=ZONE.key, assign_after_seconds=3600)
    flags = [
        f"--coordinator-addr={stopped.options.listen}",
        "--coordinator-heartbeat-interval-seconds=0.5",
        "--unassigned-owns=nothing",
    ]
    supply = Supply(tmp_path / "supply", authority, zones=["zone-a", "zone-b"], fleet=FLEET, shard=flags)
    async with supply.running(), stopped.running():

        async def recorded() -> dict[Domain, str]:
            return await stopped.domains() if await stopped.leads() else {}

        async def both() -> bool:
            return await recorded() == {ZONE: "shard-0", ZONE_B: "shard-1"}

        await eventually(both)
        for shard, machines in zip(supply.shards, (IN_ZONE_A, IN_ZONE_B), strict=True):
            await shard.until_cycles(2)
            assert await shard.metric("shard_inventory_machines") == machines
