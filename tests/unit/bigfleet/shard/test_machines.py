"""The shard's machines over the fleet's columns: what the engine is shown, and what comes while it decides."""

from dataclasses import replace

import pytest

from bigfleet.core.machines import Assignment, Machine, MachineState
from bigfleet.engine import Fleet
from bigfleet.shard.inventory.machines import Disguises, Machines

IDLE = Machine("m", MachineState.IDLE, host="h", allocatable={"cpu": 1000}, labels={"rack": "r"})
CONFIGURING = replace(
    IDLE, state=MachineState.CONFIGURING, cluster="c", assignment=Assignment(priority=3, fingerprint="f", group="g")
)


@pytest.fixture
def machines() -> Machines:
    return Machines(Fleet())


class TestWhileTheFleetIsLent:
    def test_a_change_is_seen_at_once_and_written_afterwards(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        with machines.lent() as fleet:
            machines.put(CONFIGURING)
            assert machines["m"] == CONFIGURING
            assert machines.idle_since("m") is None
            assert fleet.get("m") == IDLE
        assert machines.fleet.get("m") == CONFIGURING

    def test_machines_come_and_go(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        with machines.lent() as fleet:
            machines.remove("m")
            machines.put(replace(IDLE, id="new"), 6.0)
            assert list(machines) == ["new"]
            assert len(machines) == 1
            assert "m" not in machines
            assert list(fleet) == ["m"]
        assert list(machines.fleet) == ["new"]
        assert machines.idle_since("new") == 6.0

    def test_the_last_of_several_changes_counts(self, machines: Machines) -> None:
        with machines.lent():
            machines.put(IDLE, 5.0)
            machines.remove("m")
            machines.put(CONFIGURING)
        assert dict(machines) == {"m": CONFIGURING}

    def test_changes_are_written_even_if_the_cycle_breaks(self, machines: Machines) -> None:
        with pytest.raises(RuntimeError), machines.lent():
            machines.put(IDLE, 5.0)
            raise RuntimeError("the cycle broke")
        assert machines.fleet.get("m") == IDLE


class TestDisguise:
    def test_the_engine_sees_it_and_the_shard_does_not(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.disguise({"m": CONFIGURING})
        assert machines.fleet.get("m") == CONFIGURING
        assert machines["m"] == IDLE
        assert machines.idle_since("m") == 5.0

    def test_a_hidden_machine_still_counts(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.disguise({"m": None})
        assert "m" not in machines.fleet
        assert dict(machines) == {"m": IDLE}
        assert len(machines) == 1

    def test_ends_with_the_next_one_and_gives_the_idle_stamp_back(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.disguise({"m": None})
        machines.disguise({})
        assert machines.fleet.get("m") == IDLE
        assert machines.fleet.idle_stamp("m") == 5.0

    def test_a_change_of_a_disguised_machine_shows_when_the_disguise_ends(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.disguise({"m": None})
        machines.put(CONFIGURING)
        assert "m" not in machines.fleet
        machines.disguise({})
        assert machines.fleet.get("m") == CONFIGURING

    def test_a_disguised_machine_that_is_removed_stays_away(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.disguise({"m": CONFIGURING})
        machines.remove("m")
        assert len(machines) == 0
        machines.disguise({})
        assert list(machines.fleet) == []

    def test_is_noted_by_a_view_that_shows_the_truth(self, machines: Machines) -> None:
        machines.put(IDLE, 5.0)
        machines.put(replace(IDLE, id="other"), 5.0)
        view = Disguises(machines)
        assert view.get("m") == IDLE
        del view["m"]
        view["other"] = CONFIGURING
        assert view == {"m": None, "other": CONFIGURING}
