"""The inventory: the provider's word is taken, unless it makes no sense; ours keeps to the legal edges."""

from dataclasses import replace
from typing import Any

import pytest

from bigfleet.core.machines import UNASSIGNED, Assignment, CapacityType, Machine, MachineState
from bigfleet.shard.inventory.inventory import IllegalMove, Inventory, Rejected
from tests.unit.shard_world import Clock

IDLE = Machine("m", MachineState.IDLE, host="h", capacity_type=CapacityType.ON_DEMAND, instance_type="big", zone="z")
ASSIGNED = Assignment(priority=5, interruption_dollars=8.0, fingerprint="p=5", group="g")
CONFIGURED = replace(IDLE, state=MachineState.CONFIGURED, cluster="c", assignment=ASSIGNED)
FAILED = replace(IDLE, state=MachineState.FAILED, host="", last_error="lost")


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def inventory(clock: Clock) -> Inventory:
    return Inventory(clock)


def holding(inventory: Inventory, machine: Machine) -> Inventory:
    inventory.observe(machine)
    return inventory


class TestOurOwnMoves:
    def test_follow_the_legal_edges(self, inventory: Inventory) -> None:
        holding(inventory, IDLE).move("m", MachineState.CONFIGURING, "c", ASSIGNED)
        assert inventory.machines["m"].cluster == "c"
        with pytest.raises(IllegalMove, match="Configuring → Deleting"):
            inventory.move("m", MachineState.DELETING)

    def test_are_told_to_nobody(self, inventory: Inventory) -> None:
        holding(inventory, IDLE).observer = lambda before, after: pytest.fail("told")
        inventory.move("m", MachineState.CONFIGURING, "c", ASSIGNED)

    def test_can_be_taken_back_with_the_idle_stamp(self, inventory: Inventory, clock: Clock) -> None:
        holding(inventory, IDLE)
        clock.now = 150.0
        inventory.move("m", MachineState.DELETING)
        assert inventory.machines.idle_since("m") is None
        inventory.restore(IDLE, 100.0)
        assert inventory.machines.idle_since("m") == 100.0


class TestTheProvidersWord:
    @pytest.mark.parametrize(
        ("known", "seen"),
        [
            (CONFIGURED, FAILED),
            (CONFIGURED, IDLE),
            (FAILED, IDLE),
            (FAILED, replace(FAILED, state=MachineState.SPECULATIVE, last_error="")),
            (replace(IDLE, state=MachineState.SPECULATIVE, host=""), CONFIGURED),
        ],
        ids=["lost", "drained by someone", "healed", "slot again", "everything at once"],
    )
    def test_is_taken_even_off_the_legal_edges(self, inventory: Inventory, known: Machine, seen: Machine) -> None:
        # spec trap: Failed has no outgoing edge of ours, but a provider may leave it.
        changes: list[tuple[Machine | None, Machine | None]] = []
        holding(inventory, known).observer = lambda before, after: changes.append((before, after))
        assert inventory.observe(seen)
        assert inventory.machines["m"].state is seen.state
        assert [(before and before.state, after and after.state) for before, after in changes] == [
            (known.state, seen.state)
        ]

    @pytest.mark.parametrize(
        "change",
        [{"price_per_hour": 2.0}, {"labels": {"rack": "r2"}}, {"allocatable": {"cpu": 1}}, {"capacity_type": 4}],
    )
    def test_is_taken_when_only_the_description_changes(self, inventory: Inventory, change: dict[str, Any]) -> None:
        told = []
        holding(inventory, CONFIGURED).observer = lambda before, after: told.append(after)
        seen = replace(CONFIGURED, assignment=UNASSIGNED, **change)
        assert not inventory.observe(seen), "no state changed"
        assert inventory.machines["m"] == replace(seen, assignment=ASSIGNED)
        assert told == [inventory.machines["m"]]

    def test_that_says_nothing_new_changes_nothing(self, inventory: Inventory) -> None:
        before = holding(inventory, CONFIGURED).machines["m"]
        inventory.observer = lambda before, after: pytest.fail("told")
        assert not inventory.observe(replace(CONFIGURED))
        assert inventory.machines["m"] == before

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"price_per_hour": -1.0}, "price"),
            ({"price_per_hour": float("nan")}, "price"),
            ({"interruption_probability": 1.5}, "interruption_probability"),
            ({"cluster": ""}, "structural"),
            ({"host": ""}, "structural"),
            ({"allocatable": {"cpu": -1}}, "structural"),
        ],
    )
    def test_that_makes_no_sense_leaves_the_last_good_description(
        self, inventory: Inventory, change: dict[str, Any], reason: str
    ) -> None:
        holding(inventory, CONFIGURED)
        with pytest.raises(Rejected) as rejected:
            inventory.observe(replace(CONFIGURED, **change))
        assert rejected.value.reason == reason
        assert inventory.machines["m"] == CONFIGURED


class TestAssignment:
    def test_of_an_unknown_machine_is_the_echo(self, inventory: Inventory) -> None:
        assert holding(inventory, CONFIGURED).machines["m"].assignment == ASSIGNED

    @pytest.mark.parametrize("state", [MachineState.CONFIGURED, MachineState.CONFIGURING, MachineState.DRAINING])
    def test_is_kept_while_the_machine_is_bound(self, inventory: Inventory, state: MachineState) -> None:
        holding(inventory, CONFIGURED).observe(replace(CONFIGURED, state=state, assignment=UNASSIGNED))
        assert inventory.machines["m"].assignment == ASSIGNED

    def test_is_kept_while_the_machine_is_being_created(self, inventory: Inventory) -> None:
        speculative = replace(IDLE, state=MachineState.SPECULATIVE, host="")
        holding(inventory, speculative).move("m", MachineState.CREATING, assignment=ASSIGNED)
        inventory.observe(replace(speculative, state=MachineState.CREATING, price_per_hour=3.0))
        assert inventory.machines["m"].assignment == ASSIGNED
        assert inventory.machines["m"].price_per_hour == 3.0

    @pytest.mark.parametrize("seen", [IDLE, FAILED])
    def test_goes_with_the_binding(self, inventory: Inventory, seen: Machine) -> None:
        holding(inventory, CONFIGURED).observe(seen)
        assert inventory.machines["m"].assignment == UNASSIGNED

    def test_of_another_binding_is_the_echo(self, inventory: Inventory) -> None:
        other = Assignment(priority=9)
        holding(inventory, CONFIGURED).observe(replace(CONFIGURED, cluster="other", assignment=other))
        assert inventory.machines["m"].assignment == other


class TestBookkeeping:
    def test_counts_follow_and_keep_what_vanished_at_zero(self, inventory: Inventory) -> None:
        holding(inventory, IDLE).observe(CONFIGURED)
        idle = (MachineState.IDLE, CapacityType.ON_DEMAND, "unspecified")
        assert inventory.counts == {idle: 0, (MachineState.CONFIGURED, CapacityType.ON_DEMAND, "8"): 1}
        inventory.vanish("m")
        assert idle in inventory.counts
        assert sum(inventory.counts.values()) == 0
        assert +inventory.instance_types == {}

    def test_the_idle_stamp_lasts_as_long_as_the_machine_is_idle(self, inventory: Inventory, clock: Clock) -> None:
        holding(inventory, IDLE)
        clock.now = 200.0
        inventory.observe(replace(IDLE, price_per_hour=2.0))
        assert inventory.machines.idle_since("m") == 100.0
        inventory.observe(CONFIGURED)
        inventory.observe(IDLE)
        assert inventory.machines.idle_since("m") == 200.0

    def test_in_flight_counts_transitional_states(self, inventory: Inventory) -> None:
        holding(inventory, IDLE)
        assert inventory.in_flight == 0
        inventory.move("m", MachineState.DELETING)
        assert inventory.in_flight == 1

    @pytest.mark.parametrize("end", [CONFIGURED, FAILED, IDLE])
    def test_a_machine_first_seen_configuring_waits_until_it_is_not(self, inventory: Inventory, end: Machine) -> None:
        holding(inventory, replace(CONFIGURED, state=MachineState.CONFIGURING))
        assert inventory.seeded_waiting == {"m"}
        inventory.observe(end)
        assert inventory.seeded_waiting == set()

    def test_a_machine_that_we_configure_was_not_seeded(self, inventory: Inventory) -> None:
        holding(inventory, IDLE).move("m", MachineState.CONFIGURING, "c", ASSIGNED)
        inventory.observe(replace(CONFIGURED, state=MachineState.CONFIGURING, price_per_hour=2.0))
        assert inventory.seeded_waiting == set()

    def test_a_vanished_machine_is_told_once(self, inventory: Inventory) -> None:
        told = []
        holding(inventory, CONFIGURED).observer = lambda before, after: told.append((before, after))
        assert inventory.vanish("m")
        assert not inventory.vanish("m")
        assert told == [(CONFIGURED, None)]
