"""A Create beyond the shard's slots is not sent, and the engine looks for machines elsewhere."""

from pathlib import Path

import pytest

from bigfleet.core.machines import MachineState
from bigfleet.engine import ActionKind
from bigfleet.shard.inventory.machines import Disguises
from bigfleet.shard.inventory.slots import REGION_KEY
from bigfleet.shard.provider.execute import Disposal
from bigfleet.shard.provider.quotas import CorruptQuotas, Quotas, QuotaSlice
from tests.unit.shard_world import World

S = MachineState
EAST = QuotaSlice("default", "east", 2)


class Regional(World):
    """Machines named by their region; those of no region have no label."""

    async def have(self, **counts: int) -> None:
        for region, count in counts.items():
            for number in range(count):
                self.put(f"{region}-{number}", S.SPECULATIVE, "" if region == "bare" else region)
        await self.reconciler.reconcile()

    def put(self, machine_id: str, state: MachineState, region: str) -> None:
        self.provider.put(machine_id, state)
        if region:
            self.provider.machines[machine_id].labels[REGION_KEY] = region

    def create(self, *machine_ids: str) -> list[object]:
        return [self.submit(ActionKind.PROVISION, machine_id) for machine_id in machine_ids]

    def hidden(self) -> set[str]:
        view = Disguises(self.inventory.machines)
        self.quotas.shape_view(view)
        return {machine_id for machine_id, machine in view.items() if machine is None}

    def figure(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"bigfleet_shard_quota_{name}", {"provider": "default", "region": "east"})


@pytest.fixture
async def world(tmp_path: Path) -> Regional:
    world = Regional(tmp_path)
    await world.have(east=4, west=2, bare=2)
    return world


async def test_without_a_slice_nothing_is_limited(world: Regional) -> None:
    assert world.create(*world.inventory.machines) == [Disposal.STARTED] * 8


async def test_a_create_beyond_the_slice_is_not_sent_and_says_which(
    world: Regional, capsys: pytest.CaptureFixture[str]
) -> None:
    world.quotas.replace([EAST], {})
    assert world.create("east-0", "east-1", "east-2") == [Disposal.STARTED, Disposal.STARTED, Disposal.REFUSED]
    await world.settle()
    assert [call for call in world.provider.calls if call[0] == "create"] == [
        ("create", "east-0"),
        ("create", "east-1"),
    ]
    assert world.outcomes(ActionKind.PROVISION) == {"quota": 1}
    assert "default/east (2 slots)" in capsys.readouterr().out
    world.quotas.publish()
    assert (world.figure("slots"), world.figure("taken"), world.figure("refusals_total")) == (2, 2, 1)
    assert world.wakes, "the engine is to look elsewhere at once"


async def test_the_engine_does_not_see_the_free_machines_of_a_full_slice(world: Regional) -> None:
    world.quotas.replace([EAST], {})
    assert world.hidden() == set()
    world.create("east-0", "east-1")
    assert world.hidden() == {"east-2", "east-3"}
    await world.settle()
    world.put("east-0", S.SPECULATIVE, "east")
    await world.reconciler.reconcile()
    assert world.hidden() == set(), "a slot is free again"


async def test_machines_that_are_there_already_take_a_slot(world: Regional) -> None:
    world.put("east-9", S.IDLE, "east")
    world.put("east-8", S.FAILED, "east")
    await world.reconciler.reconcile()
    world.quotas.replace([EAST], {})
    assert world.create("east-0", "west-0") == [Disposal.REFUSED, Disposal.STARTED]


async def test_machines_without_a_region_are_in_their_provider_s(world: Regional) -> None:
    world.quotas.replace([QuotaSlice("default", "north", 1)], {"default": "north"})
    assert world.create("bare-0", "bare-1", "east-0") == [Disposal.STARTED, Disposal.REFUSED, Disposal.STARTED]
    assert world.hidden() == {"bare-1"}


async def test_slices_outlive_a_restart_and_go_when_the_coordinators_say_so(world: Regional) -> None:
    world.quotas.replace([EAST], {"default": "north"})
    again = Quotas(world.directory, world.inventory, world.metrics)
    world.create("east-0", "east-1")
    assert [each.slice for each in again.full()] == [EAST]
    again.replace([], {})
    assert Quotas(world.directory, world.inventory, world.metrics).full() == []


@pytest.mark.parametrize("text", ["", "[]", '{"slices": [1]}'])
async def test_a_file_that_cannot_be_read_stops_the_shard(world: Regional, text: str) -> None:
    (world.directory / "quotas.json").write_text(text)
    with pytest.raises(CorruptQuotas, match=r"quotas\.json"):
        Quotas(world.directory, world.inventory, world.metrics)
