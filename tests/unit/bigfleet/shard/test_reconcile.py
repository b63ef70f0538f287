"""Reconcile: what the provider says counts, except where it may be older than what we did ourselves."""

import asyncio
from pathlib import Path

import grpc
import pytest

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import MachineState
from bigfleet.engine import ActionKind
from bigfleet.shard.provider.client import ProviderError
from tests.unit.shard_world import World, wire_machine

S = MachineState


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_first_lists_everything_and_then_what_changed(world: World) -> None:
    for machine_id in ("a", "b"):
        world.provider.put(machine_id, S.IDLE)
    assert await world.reconciler.reconcile() == 2
    assert await world.reconciler.reconcile() == 0
    world.provider.put("b", S.CONFIGURED, "c")
    assert await world.reconciler.reconcile() == 1
    assert world.state("b") is S.CONFIGURED


async def test_a_tombstone_and_a_whole_list_without_the_machine_both_remove_it(world: World) -> None:
    for machine_id in ("a", "b"):
        world.provider.put(machine_id, S.CONFIGURED, "c")
    await world.reconciler.reconcile()
    world.provider.remove("a")
    assert await world.reconciler.reconcile() == 1
    assert world.told()[-1] == ("Configured", True)
    world.provider.machines.clear()
    world.reconciler.start_over()
    assert await world.reconciler.reconcile() == 1
    assert world.inventory.machines == {}


async def test_a_provider_that_is_down_leaves_the_last_view(world: World) -> None:
    await world.with_machine(S.IDLE)
    world.provider.refusals["list"] = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(ProviderError):
        await world.reconciler.reconcile()
    assert world.state() is S.IDLE


async def test_an_unsound_machine_is_counted_and_neither_taken_nor_removed(world: World) -> None:
    await world.with_machine(S.IDLE)
    world.provider.put("m", S.IDLE)
    world.provider.machines["m"].price_per_hour = -1
    world.provider.put("nonsense", S.IDLE)
    world.provider.machines["nonsense"].resources.resources["cpu"] = "much"
    world.reconciler.start_over()
    await world.reconciler.reconcile()
    assert world.inventory.machines.keys() == {"m"}
    assert world.inventory.machines["m"].price_per_hour == 0
    rejected = "bigfleet_shard_machines_rejected_total"
    assert world.registry.get_sample_value(rejected, {"reason": "price"}) == 1
    assert world.registry.get_sample_value(rejected, {"reason": "structural"}) == 1


async def test_a_change_that_comes_while_our_call_is_under_way_is_not_lost(world: World) -> None:
    await world.with_machine(S.IDLE)
    world.provider.call_gate.clear()
    world.submit(ActionKind.BOOTSTRAP)
    await world.settle()
    # The node was quick: the provider is at Configured before our ack is back, and this List is the only one to say so.
    world.provider.put("m", S.CONFIGURED, "c")
    await world.reconciler.reconcile()
    assert world.state() is S.CONFIGURING
    world.provider.call_gate.set()
    await world.settle()
    await world.reconciler.reconcile()
    assert world.state() is S.CONFIGURED
    assert world.outcomes(ActionKind.BOOTSTRAP) == {"success": 1}


@pytest.mark.parametrize("answered", [False, True], ids=["under way", "answered"])
async def test_a_list_that_was_asked_before_our_call_does_not_undo_it(world: World, answered: bool) -> None:
    await world.with_machine(S.IDLE)
    world.provider.put("m", S.IDLE)
    world.provider.list_gate.clear()
    listing = asyncio.create_task(world.reconciler.reconcile())
    await world.settle()
    if not answered:
        world.provider.call_gate.clear()
    world.submit(ActionKind.BOOTSTRAP)
    await world.settle()
    world.inventory.observer = lambda before, after: pytest.fail(f"{before} became {after}")
    world.provider.list_gate.set()
    await listing
    assert world.state() is S.CONFIGURING
    assert world.outcomes(ActionKind.BOOTSTRAP) == {}


async def test_after_a_call_without_an_answer_the_machine_is_asked_for(world: World) -> None:
    await world.with_machine(S.IDLE)
    world.provider.refusals["configure"] = grpc.StatusCode.DEADLINE_EXCEEDED
    world.submit(ActionKind.BOOTSTRAP)
    await world.settle()
    world.provider.machines["m"] = wire_machine("m", S.CONFIGURING, "c")
    await world.reconciler.reconcile()
    assert ("get", "m") in world.provider.calls
    assert world.state() is S.CONFIGURING
    assert world.told() == [("Configuring", False)]
    assert world.inventory.doubtful == set()


async def test_a_machine_that_is_asked_for_and_gone_is_removed(world: World) -> None:
    await world.with_machine(S.IDLE)
    world.provider.refusals["configure"] = grpc.StatusCode.NOT_FOUND
    world.submit(ActionKind.BOOTSTRAP)
    await world.settle()
    del world.provider.machines["m"]
    await world.reconciler.reconcile()
    assert world.inventory.machines == {}


async def test_machines_outside_the_assigned_domains_are_not_ours(world: World) -> None:
    for machine_id, zone in (("a", "zone-a"), ("b", "zone-b")):
        world.provider.put(machine_id, S.CONFIGURED, "c")
        world.provider.machines[machine_id].zone = zone
    await world.reconciler.reconcile()
    world.sent.clear()
    world.domains.assign(("topology.kubernetes.io/zone", "zone-b"))
    world.reconciler.start_over()
    await world.reconciler.reconcile()
    assert world.inventory.machines.keys() == {"b"}
    assert world.sent == [], "the other machine lives on, with another shard"


async def test_a_large_list_lets_others_run_in_between(world: World) -> None:
    for number in range(1500):
        world.provider.put(f"m-{number}", S.SPECULATIVE)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await world.reconciler.reconcile()
    counting.cancel()
    assert turns >= 3
    assert len(world.inventory.machines) == 1500


async def test_a_whole_list_may_come_although_a_revision_was_given(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.with_machine(S.IDLE, machine_id="old")

    async def restarted(since_revision: bytes) -> provider_pb2.MachineList:
        assert since_revision
        return provider_pb2.MachineList(machines=[wire_machine("new", S.IDLE)], revision=b"0", full=True)

    monkeypatch.setattr(world.provider, "list", restarted)
    await world.reconciler.reconcile()
    assert world.inventory.machines.keys() == {"new"}


class TestADomainThatIsGivenUp:
    """It is left when no call for one of its machines can be on its way; until then nobody else may have it."""

    DOMAIN = ("rack", "a")

    async def given_up(self, world: World) -> None:
        world.domains.assign(self.DOMAIN)
        world.provider.put("m", S.IDLE)
        world.provider.machines["m"].labels["rack"] = "a"
        await world.reconcilers.reconcile()

    def give_up(self, world: World) -> None:
        world.domains.unassign(self.DOMAIN)
        world.reconciler.start_over()

    async def test_is_left_after_the_next_list(self, world: World) -> None:
        await self.given_up(world)
        self.give_up(world)
        assert world.domains.leaving == {self.DOMAIN}
        await world.reconcilers.reconcile()
        assert world.domains.leaving == set()
        assert world.inventory.machines == {}

    async def test_waits_for_a_call_that_is_on_its_way(self, world: World) -> None:
        await self.given_up(world)
        world.provider.call_gate.clear()
        world.submit(ActionKind.DELETE)
        await world.settle()
        self.give_up(world)
        await world.reconcilers.reconcile()
        assert world.domains.leaving == {self.DOMAIN}
        world.provider.call_gate.set()
        await world.settle()
        await world.reconcilers.reconcile()
        assert world.domains.leaving == set()

    async def test_waits_for_a_walk_that_began_after_it(self, world: World) -> None:
        await self.given_up(world)
        world.provider.list_gate.clear()
        walk = asyncio.create_task(world.reconcilers.reconcile())
        await world.settle()
        world.provider.refusals["list"] = grpc.StatusCode.UNAVAILABLE
        self.give_up(world)
        world.provider.list_gate.set()
        assert await walk is None
        assert world.domains.leaving == {self.DOMAIN}

    async def test_nothing_is_begun_with_its_machines(self, world: World) -> None:
        """The engine may have decided before."""
        await self.given_up(world)
        self.give_up(world)
        world.submit(ActionKind.DELETE)
        await world.settle()
        assert world.provider.calls == []
