"""Lists that come in pages, and the whole List that finds what has gone without a word."""

import asyncio
from pathlib import Path

import grpc
import pytest

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from bigfleet.engine import ActionKind
from bigfleet.shard.provider.client import ProviderError
from tests.unit.shard_world import ScriptedProvider, World

S = MachineState


class PagedProvider(ScriptedProvider):
    """Lists two machines at a time, in the order of their last change; says nothing of what was removed if told so."""

    def __init__(self, tells_removals: bool = True) -> None:
        super().__init__()
        self.tells_removals = tells_removals
        self.asked_since: list[bytes] = []

    async def list(self, since_revision: bytes) -> provider_pb2.MachineList:
        self.asked_since.append(since_revision)
        if "list" in self.refusals:
            raise ProviderError("List", self.refusals["list"], "down")
        await self.list_gate.wait()
        last_change = {machine_id: number for number, machine_id in enumerate(self.changes, 1)}
        since = int(since_revision or 0)
        changed = sorted((number, machine_id) for machine_id, number in last_change.items() if number > since)
        listed = [(number, machine_id) for number, machine_id in changed if machine_id in self.machines]
        page, more = listed[:2], len(listed) > 2
        until = page[-1][0] if more else len(self.changes)
        gone = [each for number, each in changed if since and number <= until and each not in self.machines]
        return provider_pb2.MachineList(
            machines=[self.machines[machine_id] for _, machine_id in page],
            removed_ids=gone if self.tells_removals else [],
            revision=b"%d" % until,
            more=more,
        )


@pytest.fixture
def provider() -> PagedProvider:
    provider = PagedProvider()
    for machine_id in ("a", "b", "c", "d", "e"):
        provider.put(machine_id, S.IDLE)
    return provider


async def test_a_fleet_of_several_pages_is_known_only_after_the_last(tmp_path: Path, provider: PagedProvider) -> None:
    world = World(tmp_path, provider)
    assert await world.reconciler.reconcile() == 5
    assert provider.asked_since == [b"", b"2", b"4"]
    assert world.inventory.machines.keys() == set("abcde")


async def test_a_list_that_broke_off_goes_on_after_its_last_page(tmp_path: Path, provider: PagedProvider) -> None:
    world = World(tmp_path, provider)
    await world.reconciler.reconcile()
    provider.machines.pop("d")
    world.reconciler.start_over()
    provider.asked_since.clear()
    provider.list_gate.clear()
    listing = asyncio.create_task(world.reconciler.reconcile())
    await world.settle()
    provider.refusals["list"] = grpc.StatusCode.UNAVAILABLE
    provider.list_gate.set()
    with pytest.raises(ProviderError):
        await listing
    del provider.refusals["list"]
    assert await world.reconciler.reconcile() == 1
    assert provider.asked_since == [b"", b"2", b"2"]
    assert world.inventory.machines.keys() == set("abce"), "and what it never named is gone"


async def test_each_page_has_its_own_time(tmp_path: Path, provider: PagedProvider) -> None:
    world = World(tmp_path, provider)
    provider.list_gate.clear()
    with pytest.raises(TimeoutError):
        await world.reconciler.reconcile(page_seconds=0.01)
    assert not world.reconciler.ready
    provider.list_gate.set()
    await world.reconciler.reconcile(page_seconds=60)
    assert world.reconciler.ready


async def test_a_machine_that_has_gone_without_a_word_is_found_a_page_at_a_time(tmp_path: Path) -> None:
    provider = PagedProvider(tells_removals=False)
    world = World(tmp_path, provider, whole_every_seconds=600)
    for machine_id in ("a", "b", "c", "d", "e"):
        provider.put(machine_id, S.CONFIGURED, "c")
    await world.reconciler.reconcile()
    provider.remove("b")
    world.now += 599
    assert await world.reconciler.reconcile() == 0
    assert "b" in world.inventory.machines, "this provider does not tell"
    world.now += 1
    provider.asked_since.clear()
    assert [await world.reconciler.reconcile() for _ in range(2)] == [0, 1]
    assert provider.asked_since == [b"6", b"", b"6", b"3"]
    assert world.inventory.machines.keys() == set("acde")
    assert world.told()[-1] == ("Configured", True)
    provider.asked_since.clear()
    await world.reconciler.reconcile()
    assert provider.asked_since == [b"6"], "the next round is a while away"


async def test_what_changes_during_a_round_is_not_taken_for_gone(tmp_path: Path, provider: PagedProvider) -> None:
    world = World(tmp_path, provider, whole_every_seconds=600)
    await world.reconciler.reconcile()
    world.now += 600
    await world.reconciler.reconcile()
    provider.put("d", S.CONFIGURED, "c")
    provider.put("f", S.IDLE)
    for _ in range(3):
        await world.reconciler.reconcile()
    assert world.inventory.machines.keys() == set("abcdef")
    assert world.state("d") is S.CONFIGURED


async def test_without_increments_every_reconcile_lists_everything(tmp_path: Path) -> None:
    provider = PagedProvider(tells_removals=False)
    world = World(tmp_path, provider, incremental=False)
    await world.with_machine(S.IDLE)
    provider.remove("m")
    await world.reconciler.reconcile()
    assert world.inventory.machines == {}


async def test_many_doubtful_machines_are_listed_and_not_asked_for_one_by_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    ids = [f"m-{number}" for number in range(300)]
    for machine_id in ids:
        world.provider.put(machine_id, S.IDLE)
    await world.reconciler.reconcile()
    world.provider.refusals["configure"] = grpc.StatusCode.UNAVAILABLE
    for machine_id in ids:
        world.submit(ActionKind.BOOTSTRAP, machine_id)
    while world.executor._tasks:
        await world.settle()
    assert len(world.inventory.doubtful) == 300
    await world.reconciler.reconcile()
    assert world.inventory.doubtful == set()
    assert [call for call, _ in world.provider.calls if call == "get"] == []


async def test_machines_with_calls_under_way_do_not_make_it_list_everything(tmp_path: Path) -> None:
    provider = PagedProvider()
    world = World(tmp_path, provider)
    ids = [f"m-{number}" for number in range(300)]
    for machine_id in ids:
        provider.put(machine_id, S.IDLE)
    await world.reconciler.reconcile()
    provider.call_gate.clear()
    for machine_id in ids:
        world.submit(ActionKind.BOOTSTRAP, machine_id)
    await world.settle()
    world.inventory.doubtful.update(ids)
    provider.asked_since.clear()
    await world.reconciler.reconcile()
    assert b"" not in provider.asked_since
    provider.call_gate.set()
    await world.executor.close()
