"""The synthetic fleets: what the shapes promise, the same every time."""

from dataclasses import replace

import pytest

from bigfleet.core.machines import MachineState, invariant_violation
from bigfleet.core.requirements import RACK_KEY
from bigfleet.core.vectors import covers
from tests.bench.engine.fleets import RACKS_PER_ZONE, SHAPES, ZONES, Shape, SyntheticFleet

SMALL = Shape("small", clusters=3, machines=2_000, rows=60, plain_machines=60)


@pytest.mark.parametrize(
    ("name", "machines", "rows"),
    [
        ("5k", 22_500, 7_760),
        ("5k-unfolded", 22_500, 7_760),
        ("50k", 225_000, 42_400),
        ("500k-aggregated", 500_000, 1_000),
        ("500k-full", 500_000, 1_000),
        ("5m", 5_000_000, 10_000),
        ("500k", 2_530_000, 776_000),
    ],
)
def test_the_shapes_are_those_that_the_bars_were_set_for(name: str, machines: int, rows: int) -> None:
    assert (SHAPES[name].machines, SHAPES[name].need_rows) == (machines, rows)


def test_there_are_as_many_machines_as_the_shape_says_sound_and_free() -> None:
    machines = list(SyntheticFleet(SMALL).machines())
    assert len({machine.id for machine in machines}) == SMALL.machines
    assert {machine.state for machine in machines} == {MachineState.IDLE, MachineState.SPECULATIVE}
    assert [invariant_violation(machine) for machine in machines if invariant_violation(machine)] == []
    assert len({(machine.zone, machine.labels[RACK_KEY]) for machine in machines}) == len(ZONES) * RACKS_PER_ZONE


def test_the_same_shape_gives_the_same_fleet_and_demand() -> None:
    one, two = SyntheticFleet(SMALL), SyntheticFleet(SMALL)
    assert list(one.machines()) == list(two.machines())
    assert [one.demand.rollup(n) for n in range(3)] == [two.demand.rollup(n) for n in range(3)]


def test_every_row_of_a_rollup_is_a_need_of_its_own() -> None:
    needs = SyntheticFleet(SMALL).demand.rollup(1)
    assert len({need.key for need in needs}) == SMALL.rows


def test_only_the_rows_that_are_named_change() -> None:
    demand = SyntheticFleet(SMALL).demand
    pairs = zip(demand.rollup(0), demand.rollup(0, frozenset({0, 17})), strict=True)
    assert [index for index, (before, after) in enumerate(pairs) if before != after] == [0, 17]


def test_a_burst_raises_the_plain_rows_only() -> None:
    demand = SyntheticFleet(SMALL).demand
    for before, after in zip(demand.rollup(0), demand.rollup(0, level=1.1), strict=True):
        assert (before == after) is (before.profile.same is not None)
        assert covers(after.aggregate, before.aggregate)


def test_urgent_demand_is_the_most_important_rows_alone() -> None:
    demand = SyntheticFleet(SMALL).demand
    usual, wave = demand.rollup(0), demand.rollup(0, urgent_machines=10)
    changed = [after.profile.priority for before, after in zip(usual, wave, strict=True) if before != after]
    assert changed == [1_000_000]


@pytest.mark.parametrize("folds", [True, False])
def test_small_gangs_fit_on_one_machine_unless_the_shape_forbids_it(folds: bool) -> None:
    synthetic = SyntheticFleet(replace(SMALL, folds=folds))
    machines = list(synthetic.machines())
    gangs = [need for need in synthetic.demand.rollup(0) if need.profile.same]
    foldable = [
        gang
        for gang in gangs
        if any(covers(m.allocatable, gang.aggregate) and gang.profile.matches(m.attribute) for m in machines)
    ]
    assert (len(foldable) > 0.9 * len(gangs)) is folds
    assert len(foldable) == 0 or folds


def test_the_aggregated_regime_has_no_gangs_that_fold() -> None:
    needs = SyntheticFleet(SHAPES["500k-aggregated"]).demand.rollup(0)
    gangs = [need for need in needs if need.profile.same]
    assert 0 < len(gangs) < len(needs) / 2
    assert all(need.aggregate["nvidia.com/gpu"] > need.min_unit["nvidia.com/gpu"] for need in gangs)
