"""What a shard reports of the domains that its provider lists: its own machines and other shards', each once."""

from pathlib import Path

import pytest

from bigfleet.core.machines import MachineState
from bigfleet.shard.provider import listed
from tests.unit.shard_world import World

S = MachineState
ZONE = "topology.kubernetes.io/zone"
Counts = dict[str, tuple[dict[str, int], dict[str, int]]]


class Zoned(World):
    """A shard that owns zone-a, and is told to count by zone."""

    def put(self, machine_id: str, zone: str, state: MachineState, cluster: str = "") -> None:
        self.provider.put(machine_id, state, cluster)
        self.provider.machines[machine_id].zone = zone

    def reported(self) -> Counts:
        """By zone: how many machines of each state, and how many are bound to each cluster."""
        names = {number: state.label for number, state in enumerate(MachineState)}
        return {
            one.topology_value: ({names[each.state]: each.count for each in one.machines}, dict(one.bound))
            for one in self.listed.to_wire()[0]
        }


@pytest.fixture
async def world(tmp_path: Path) -> Zoned:
    world = Zoned(tmp_path)
    world.domains.assign((ZONE, "zone-a"))
    world.put("a0", "zone-a", S.IDLE)
    world.put("a1", "zone-a", S.CONFIGURED, "c")
    world.put("b0", "zone-b", S.CONFIGURED, "d")
    world.put("b1", "zone-b", S.SPECULATIVE)
    return world


async def test_nothing_is_reported_before_the_coordinators_name_a_key(world: Zoned) -> None:
    await world.reconciler.reconcile()
    assert world.reported() == {}


async def test_its_own_machines_and_those_of_others_are_reported(world: Zoned) -> None:
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    expected: Counts = {
        "zone-a": ({"Idle": 1, "Configured": 1}, {"c": 1}),
        "zone-b": ({"Speculative": 1, "Configured": 1}, {"d": 1}),
    }
    assert world.reported() == expected
    assert set(world.inventory.machines) == {"a0", "a1"}, "the others are counted, not kept"


async def test_a_key_that_comes_later_makes_it_list_everything_again(world: Zoned) -> None:
    await world.reconciler.reconcile()
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    assert sorted(world.reported()) == ["zone-a", "zone-b"]
    world.listed.by("")
    assert world.reported() == {}


async def test_its_own_machines_are_reported_as_they_are_now_and_others_as_of_the_last_walk(world: Zoned) -> None:
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    world.put("a0", "zone-a", S.CONFIGURED, "c")
    world.put("b0", "zone-b", S.IDLE)
    world.provider.remove("b1")
    await world.reconciler.reconcile()
    assert world.reported()["zone-a"] == ({"Configured": 2}, {"c": 2})
    assert world.reported()["zone-b"] == ({"Speculative": 1, "Configured": 1}, {"d": 1})
    world.reconciler.start_over()
    await world.reconciler.reconcile()
    assert world.reported()["zone-b"] == ({"Idle": 1}, {})


async def test_a_domain_that_appears_is_reported_at_once(world: Zoned) -> None:
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    for number in range(3):
        world.put(f"c{number}", "zone-c", S.SPECULATIVE)
    await world.reconciler.reconcile()
    assert world.reported()["zone-c"] == ({"Speculative": 3}, {})


async def test_a_domain_that_changes_hands_is_not_counted_twice(world: Zoned) -> None:
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    before = world.reported()
    world.domains.assign((ZONE, "zone-b"))
    world.reconciler.start_over()
    await world.reconciler.reconcile()
    assert world.reported() == before
    world.domains.unassign((ZONE, "zone-a"))
    world.reconciler.start_over()
    await world.reconciler.reconcile()
    assert world.reported() == before


async def test_a_domain_whose_machines_are_gone_is_not_reported(world: Zoned) -> None:
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    world.provider.remove("a0")
    world.provider.remove("a1")
    await world.reconciler.reconcile()
    assert sorted(world.reported()) == ["zone-b"]


async def test_more_domains_than_a_report_names_are_said_to_be_left_out(
    world: Zoned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listed, "MOST_DOMAINS", 1)
    world.listed.by(ZONE)
    await world.reconciler.reconcile()
    for _ in range(2):
        named, cut = world.listed.to_wire()
        assert ([one.topology_value for one in named], cut) == (["zone-a"], 1)
    assert capsys.readouterr().out.count("more domains than a report names") == 1
