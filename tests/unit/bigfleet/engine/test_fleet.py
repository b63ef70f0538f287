"""The fleet in columns: what goes in comes out, ids keep order, labels make no kinds, large amounts do not wrap."""

from dataclasses import replace
from random import Random

import pytest

from bigfleet.core.machines import Assignment, CapacityType, Machine, MachineState
from bigfleet.core.requirements import Requirement, RequirementOperator
from bigfleet.engine import ActionKind, Engine, Fleet
from tests.unit.engine_world import NO_CAP, acted, configured, cpu, machine, need, profile, same

PIB = 1024**5 * 1000


class TestMachines:
    @pytest.mark.parametrize(
        "one",
        [
            Machine("m", MachineState.SPECULATIVE),
            Machine("m", MachineState.IDLE, host="host-of-m-and-m"),
            Machine("m", MachineState.FAILED, last_error="gone", labels={"b": "2", "a": "1", "ü": ""}),
            Machine("m\x00é", MachineState.IDLE, "t", "z", CapacityType.SPOT, 1.5, 0.2, {"cpu": 0, "gpu": 3}, host="h"),
            configured("m", of=profile(priority=7, interruption=27), group="key\x00selector", rack="r"),
        ],
        ids=["bare", "host named after it", "labels and error", "odd id, zero amount", "assigned"],
    )
    def test_come_back_as_they_were(self, one: Machine) -> None:
        fleet = Fleet()
        fleet.put(one)
        assert fleet.get(one.id) == one
        assert list(fleet) == [one.id]

    def test_are_replaced_and_removed_by_id(self) -> None:
        fleet = Fleet()
        fleet.put(machine("m"), 5.0)
        fleet.put(configured("m", rack="r"))
        assert fleet.get("m") == configured("m", rack="r")
        assert fleet.idle_stamp("m") is None
        fleet.remove("m")
        fleet.remove("never there")
        assert (len(fleet), "m" in fleet, fleet.get("m")) == (0, False, None)

    def test_come_and_go_by_the_thousand_without_leaving_anything(self) -> None:
        fleet, engine = Fleet(), Engine(NO_CAP)
        for turn in range(4):
            for number in range(3000):
                fleet.put(machine(f"{turn}-{number}", rack=f"r{number}"), 0.0)
            engine.cycle(fleet, 0.0)
            for number in range(3000):
                fleet.remove(f"{turn}-{number}")
        fleet.put(machine("last"))
        assert list(fleet) == ["last"]
        assert len(fleet.states) < 9000


class TestOrderOfIds:
    def test_decides_ties_however_the_machines_came(self) -> None:
        rng = Random(1)
        ids = [f"{rng.choice('aäzé')}{rng.randrange(10**6)}" for _ in range(400)]
        fleet, engine = Fleet(), Engine(NO_CAP)
        fleet.replace_needs("c1", [need(cpu(4 * 2000))])
        for start in range(0, 400, 40):
            for machine_id in ids[start : start + 40]:
                fleet.put(machine(machine_id))
            taken = acted(engine.cycle(fleet, 0.0), ActionKind.BOOTSTRAP)
            assert taken == sorted(set(ids[: start + 40]))

    def test_holds_when_a_gap_between_neighbours_is_used_up(self) -> None:
        fleet, engine = Fleet(), Engine(NO_CAP)
        fleet.replace_needs("c1", [need(cpu(4 * 2000))])
        fleet.put(machine("a"))
        fleet.put(machine("b"))
        # Each comes right after "a": the gap halves every time.
        for depth in range(80, 0, -1):
            fleet.put(machine("a" + "0" * depth))
            engine.cycle(fleet, 0.0)
        taken = acted(engine.cycle(fleet, 0.0), ActionKind.BOOTSTRAP)
        assert taken == sorted(taken)
        assert len(taken) == 82


class TestLabels:
    def test_that_nobody_refers_to_make_no_kinds(self) -> None:
        fleet = Fleet()
        for number in range(50):
            one = machine(f"m{number}", rack="r")
            fleet.put(replace(one, labels=one.labels | {"kubernetes.io/hostname": f"m{number}"}))
        fleet.replace_needs("c1", [need(cpu(1), of=profile(same()))])
        assert int((fleet.kinds.machines > 0).sum()) == 1
        seventh = fleet.get("m7")
        assert seventh is not None
        assert seventh.labels["kubernetes.io/hostname"] == "m7"

    def test_tell_machines_apart_from_the_first_need_that_names_them(self) -> None:
        fleet, engine = Fleet(), Engine(NO_CAP)
        for number in range(6):
            fleet.put(replace(machine(f"m{number}"), labels={"disk": "ssd" if number % 2 else "hdd"}))
        engine.cycle(fleet, 0.0)
        fleet.replace_needs("c1", [need(cpu(100), of=profile(Requirement("disk", RequirementOperator.IN, ("ssd",))))])
        assert acted(engine.cycle(fleet, 0.0), ActionKind.BOOTSTRAP) == ["m1", "m3", "m5"]


class TestLargeAmounts:
    def test_of_memory_add_up_exactly_beyond_64_bits_of_milli_bytes(self) -> None:
        fleet, engine = Fleet(), Engine(NO_CAP)
        for number in range(40):
            fleet.put(machine(f"m{number:02}", allocatable={"memory": PIB}))
        fleet.replace_needs("c1", [need({"memory": 30 * PIB + 1024 * 1000}, {"memory": 1024 * 1000})])
        decisions = engine.cycle(fleet, 0.0)
        assert len(decisions.actions) == 31
        fleet.replace_needs("c1", [need({"memory": 50 * PIB}, {"memory": 1000})])
        assert engine.cycle(fleet, 0.0).views[0].residual == {"memory": 10 * PIB}

    def test_beyond_all_measure_saturate_and_never_wrap(self) -> None:
        most = (2**63 - 1) * 1000
        fleet, engine = Fleet(), Engine(NO_CAP)
        fleet.put(machine("m", allocatable={"memory": 1}, rack="r"))
        for number in range(5):
            fleet.put(machine(f"n{number}", allocatable={"memory": most}, rack="r"))
        huge = need({"memory": 2 * most}, {"memory": most})
        fleet.replace_needs("c1", [huge])
        decisions = engine.cycle(fleet, 0.0)
        assert decisions.views[0].need == huge
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["n0"], "one of them is all that can be counted"

    def test_a_finer_amount_later_changes_the_unit_and_nothing_else(self) -> None:
        fleet, engine = Fleet(), Engine(NO_CAP)
        fleet.put(machine("m", allocatable={"cpu": 4000, "memory": 1024**3 * 1000}))
        fleet.replace_needs("c1", [need({"cpu": 6000, "memory": 1024**3 * 1000})])
        before = engine.cycle(fleet, 0.0).views[0]
        fleet.put(machine("odd", allocatable={"cpu": 1, "memory": 7, "gpu": 1}))
        after = engine.cycle(fleet, 0.0).views[0]
        assert (before.need, before.residual) == (after.need, after.residual) == (before.need, {"cpu": 2000})


def test_an_assignment_may_name_demand_that_nobody_has_told_of_yet() -> None:
    plain = profile(interruption=5)
    fleet, engine = Fleet(), Engine(NO_CAP)
    for machine_id, price, probability in (("a", 1.0, 1.0), ("b", 2.0, 0.0)):
        creating = machine(machine_id, MachineState.CREATING, price=price, probability=probability)
        fleet.put(replace(creating, assignment=Assignment(fingerprint=plain.fingerprint)))
    engine.cycle(fleet, 0.0)
    fleet.replace_needs("c1", [need(cpu(4), of=plain)])
    assert engine.cycle(fleet, 0.0).views[0].claimed == 1
