"""The witness knows by the draw which rows an engine must hold, and finds every field of them that is wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.api.v1alpha1.shardread_pb2 import NeedView
from bigfleet.core import penalty
from bigfleet.operator import sent
from bigfleet.operator.rollup import ClusterDemand, contribution_of
from scaletest.cluster.witness.drawn_needs import (
    ExpectedNeed,
    HeldNeed,
    bucket_of,
    checksum,
    expected_needs,
    held_need,
    held_view,
    profile_of,
)
from scaletest.cluster.witness.held_needs import LOOKS, NEED_FIELDS, Bounds, bounds_of, findings
from scaletest.cluster.witness.living import BEHIND_SECONDS, Living
from scaletest.cluster.witness.seen import SeenRequest
from scaletest.model.demand.draw import Workload
from scaletest.model.documents.catalog import SpreadConstraint
from tests.unit.scaletest.cluster.witness.test_expected import CATALOGS, drawn_from, spec_of
from tests.unit.witness_world import ALL, GANG, SPREAD, TEAMED, WEB, Clock, World, pod, workload

HUGE_POD = replace(WEB, name="web-1", size=workload(cpu="16").size)
TWIN = replace(GANG, name="trainer-1", group="trainer-1-group", replicas=9)
SPREAD_WIDELY = workload(
    "wide-0", priority=1000, spread=SpreadConstraint(when_unsatisfiable="DoNotSchedule", max_skew=3)
)
EVERYTHING = ALL | {one.name: one for one in (HUGE_POD, TWIN, SPREAD_WIDELY)}


def rolled_up(workloads: Iterable[Workload]) -> ClusterDemand:
    """The demand as the operator of today adds it up."""
    demand = ClusterDemand()
    for one in workloads:
        for number in range(one.replicas):
            demand.put(f"{one.name}-{number}", contribution_of(spec_of(one)))
    return demand


def rows_of(workloads: Iterable[Workload]) -> list[HeldNeed]:
    return [held_need(need) for need in rolled_up(workloads).needs()]


def bounds_for(workloads: Mapping[str, Workload], lives_for: float = 2 * BEHIND_SECONDS) -> list[Bounds]:
    """Of workloads whose Pods all live, and have for so long."""
    clock = Clock()
    living = Living(workloads, clock)
    for one in workloads.values():
        for _ in range(one.replicas):
            living.came(one.name)
    clock.now += lives_for
    return [bounds for need in expected_needs(workloads) if (bounds := bounds_of(need, living))]


def found(rows: Iterable[HeldNeed], workloads: Mapping[str, Workload] = EVERYTHING, **told: bool) -> list[str]:
    """The fields that are wrong, once for each row."""
    return sorted(one.field for one in findings(bounds_for(workloads), rows, **({"all_told": True} | told)))


def row_for(one: Workload, rows: Iterable[HeldNeed]) -> HeldNeed:
    return next(row for row in rows if row.profile == profile_of(one) and _pods_in(row, one) == one.replicas)


def _pods_in(row: HeldNeed, one: Workload) -> int:
    return row.aggregate["cpu"] // row.min_unit["cpu"] if one.group else one.replicas


def with_pods(row: HeldNeed, pods: int) -> HeldNeed:
    return replace(row, aggregate={name: pods * milli for name, milli in row.min_unit.items()})


def changed(one: Workload, **changes: Any) -> list[HeldNeed]:
    """All rows, of which the one of this workload is changed; a field of its profile by its name."""
    rows = rows_of(EVERYTHING.values())
    row = row_for(one, rows)
    of_profile = {name: changes.pop(name) for name in list(changes) if hasattr(row.profile, name)}
    wrong = replace(row, profile=replace(row.profile, **of_profile), **changes)
    return [wrong if other is row else other for other in rows]


@pytest.mark.parametrize("catalog", CATALOGS, ids=lambda path: path.stem)
def test_what_the_operator_rolls_up_for_any_archetype_is_what_the_draw_says(catalog: Path) -> None:
    drawn = drawn_from(catalog)
    rows = rows_of(drawn.values())
    assert rows and found(rows, drawn) == []


def test_every_field_is_seen_to() -> None:
    assert found(rows_of(EVERYTHING.values())) == []
    first_value = tuple((key, operator, values[:1]) for key, operator, values in profile_of(SPREAD).requirements)
    assert found(changed(SPREAD, requirements=first_value)) == ["requirements"]
    other_operator = tuple((key, 2, values) for key, _, values in profile_of(WEB).requirements)
    assert found(changed(WEB, requirements=other_operator)) == ["requirements"]
    assert found(changed(TEAMED, requirements=profile_of(TEAMED).requirements[1:])) == ["requirements"]
    assert found(changed(SPREAD_WIDELY, spread=(("topology.kubernetes.io/zone", 1, 1),))) == ["spread"]
    assert found(changed(SPREAD_WIDELY, spread=(("topology.kubernetes.io/zone", 3, 2),))) == ["spread"]
    assert found(changed(WEB, priority=101)) == ["priority"]
    assert found(changed(WEB, interruption_penalty=11)) == ["interruption_penalty"]
    assert found(changed(GANG, reclamation_penalty=0)) == ["reclamation_penalty"]
    assert found(changed(WEB, group="a-gang")) == ["group"]
    assert found(changed(GANG, group="")) == ["group"]


@pytest.mark.parametrize("one", [WEB, GANG], ids=["plain", "gang"])
def test_a_min_unit_that_is_too_small_or_too_large_is_wrong(one: Workload) -> None:
    unit = row_for(one, rows_of(EVERYTHING.values())).min_unit
    assert found(changed(one, min_unit=unit | {"cpu": unit["cpu"] - 1})) == ["min_unit"]
    assert found(changed(one, min_unit=unit | {"memory": unit["memory"] + 1})) == ["min_unit"]
    assert found(changed(one, min_unit={"cpu": unit["cpu"]})) == ["min_unit"]


def test_a_min_unit_is_the_largest_pod_and_not_the_first() -> None:
    smallest = row_for(WEB, rows_of(ALL.values())).min_unit
    assert found(changed(WEB, min_unit=smallest)) == ["min_unit"]


def test_amounts_of_one_row_under_another_are_found_though_the_sums_are_right() -> None:
    rows = rows_of(EVERYTHING.values())
    spread, wide = row_for(SPREAD, rows), row_for(SPREAD_WIDELY, rows)
    more, less = (with_pods(spread, 10), with_pods(wide, 0))
    others = [row for row in rows if row not in (spread, wide)]
    assert found([*others, more, less]) == ["amounts", "amounts"]


def test_gangs_that_are_mixed_up_are_found_though_the_sums_are_right() -> None:
    rows = rows_of(EVERYTHING.values())
    ours, twin = row_for(GANG, rows), row_for(TWIN, rows)
    others = [row for row in rows if row not in (ours, twin)]
    assert found([*others, with_pods(ours, 14)]) == ["group", "missing"]
    assert found([*others, with_pods(ours, 7), with_pods(twin, 7)]) == [], "a Pod or two may be on their way"
    assert found([*others, ours, twin, replace(ours, group="a-third")]) == ["unasked"]


def test_gangs_that_change_are_told_from_many_that_do_not() -> None:
    many = {f"gang-{n}": replace(GANG, name=f"gang-{n}", group=f"group-{n}", replicas=4 + n % 2) for n in range(400)}
    rows = rows_of(many.values())
    assert len(rows) == len(many) and found(rows, many) == []
    fewer = [with_pods(row, 3) if number % 4 == 0 else row for number, row in enumerate(rows)]
    assert found(fewer, many) == [], "in a hundred of them Pods are replaced"
    assert found([*fewer[:-1], with_pods(fewer[-1], 30)], many) == ["group"]


def test_gangs_that_fit_on_one_machine_may_be_held_as_plain_demand() -> None:
    twin = replace(GANG, name="trainer-2", group="trainer-2-group")
    workloads = {one.name: one for one in (WEB, GANG, twin)}
    rows = rows_of(workloads.values())
    web, gang = row_for(WEB, rows), row_for(GANG, rows)
    two = {name: 2 * milli for name, milli in gang.aggregate.items()}
    folded = HeldNeed(gang.profile.folded, "", two, gang.aggregate)
    assert found([web, folded], workloads) == []
    assert found([web, replace(folded, aggregate=gang.aggregate)], workloads) == ["missing"]
    assert found([web, gang, folded], workloads) == ["group"], "three gangs where there are two"
    assert found([web, replace(folded, min_unit=gang.min_unit)], workloads) != [], "ten gangs of one Pod"
    dear = replace(folded, profile=replace(folded.profile, interruption_penalty=9))
    assert found([web, dear], workloads) == ["interruption_penalty", "missing"]


def test_a_row_that_is_missing_and_one_that_no_workload_asks_for() -> None:
    rows = rows_of(EVERYTHING.values())
    without = [row for row in rows if row.profile != profile_of(WEB)]
    assert found(without) == ["missing"]
    assert found(without, all_told=False) == [], "it may be among those that were not told"
    strange = HeldNeed(profile_of(replace(WEB, archetype=TEAMED.archetype, axes=(2,), priority=7)), "", {}, {})
    assert found([*rows, strange]) == ["unasked"]
    assert found([]) == ["missing"] * len(rows)


def test_a_pod_that_came_or_went_within_three_roll_ups_may_be_held_or_not() -> None:
    young = bounds_for({"web-0": WEB}, lives_for=BEHIND_SECONDS - 1)
    rows = rows_of([WEB])
    assert not [*findings(young, rows, all_told=True)] and not [*findings(young, [], all_told=True)]


def look(world: World, rows: Iterable[HeldNeed]) -> None:
    world.witness.held.look(rows, all_told=True)


def test_a_row_outlives_its_pods_for_three_roll_ups_and_no_longer(world: World) -> None:
    row = rows_of([replace(WEB, replicas=1)])
    world.witness.on_pod(None, pod("a"))
    world.wait(60)
    world.witness.on_pod(pod("a"), None)
    look(world, row)
    assert not world.witness.held.in_doubt
    world.wait(40)
    look(world, row)
    assert world.witness.held.in_doubt


def test_only_what_is_wrong_in_three_looks_in_a_row_is_counted(world: World) -> None:
    right = rows_of([replace(WEB, replicas=1)])
    wrong = [replace(right[0], profile=replace(right[0].profile, priority=7))]
    world.witness.on_pod(None, pod("a"))
    world.wait(60)
    for rows in (wrong, wrong, right, wrong, wrong):
        look(world, rows)
        assert world["needs_wrong{priority}"] == 0
    look(world, wrong)
    assert world["needs_wrong{priority}"] == 1
    assert [name for name, value in world.figures().items() if "needs_wrong" in name and value] == [
        "needs_wrong{priority}"
    ]
    look(world, right)
    assert world["needs_wrong{priority}"] == 0


def test_a_witness_that_has_not_looked_lately_says_nothing(world: World) -> None:
    assert not any("needs" in name for name in world.figures())
    look(world, [])
    shown = {name for name in world.figures() if "needs" in name}
    assert shown == {"needs_checksum", *(f"needs_wrong{{{field}}}" for field in NEED_FIELDS)}
    world.wait(100)
    assert not any("needs" in name for name in world.figures())


def test_where_requests_exist_without_pods_they_are_what_the_engine_must_hold() -> None:
    world = World(without_pods=True)
    item = SeenRequest("r", name="web-0-3", workload="web-0")
    world.witness.on_request(None, item)
    world.wait(60)
    look(world, rows_of([replace(WEB, replicas=1)]))
    assert not world.witness.held.in_doubt
    for _ in range(LOOKS):
        look(world, [])
    assert world["needs_wrong{missing}"] == 1


def test_an_operator_that_sends_what_was_drawn_has_the_same_checksum(world: World) -> None:
    for number, one in enumerate((WEB, SPREAD, GANG, GANG)):
        world.witness.on_pod(None, pod(str(number), of=one))
    look(world, [])
    needs = rolled_up(replace(one, replicas=2) for one in (WEB, SPREAD, GANG)).needs()
    assert world["needs_checksum"] == sent.checksum(needs) == sent.checksum(reversed(needs))
    needs[0].priority += 1
    assert world["needs_checksum"] != sent.checksum(needs)
    assert sent.checksum(needs[1:]) != sent.checksum(needs)
    needs[1].min_unit["cpu"] = "7"
    row = held_need(needs[1])
    assert sent.checksum(needs[1:2]) != checksum([(ExpectedNeed(row.profile, row.group, ()), {"cpu": 1})])


def test_an_operator_that_forgets_which_rows_are_gangs_has_another_checksum(world: World) -> None:
    world.witness.on_pod(None, pod("0", of=GANG))
    look(world, [])
    needs = rolled_up([replace(GANG, replicas=1)]).needs()
    assert world["needs_checksum"] == sent.checksum(needs)
    needs[0].group = ""
    assert world["needs_checksum"] != sent.checksum(needs)


@pytest.mark.parametrize(
    ("view", "contradicts"),
    [
        ({"satisfied": True, "claimed_machine_count": 2}, False),
        ({"satisfied": True, "bootstrap_count": 1}, False),
        ({"satisfied": True, "provision_count": 1}, False),
        ({"satisfied": False, "residual_deficit": {"resources": {"cpu": "1"}}}, False),
        ({"satisfied": True}, True),
        ({"satisfied": False, "claimed_machine_count": 2}, True),
        (
            {"satisfied": True, "claimed_machine_count": 2, "residual_deficit": {"resources": {"cpu": "1"}}},
            True,
        ),
    ],
)
def test_what_is_told_of_a_needs_machines_goes_together(view: dict[str, Any], contradicts: bool) -> None:
    [need] = rolled_up([WEB]).needs()
    row = held_view(NeedView(need=need, **view))
    assert row.contradicts_itself == contradicts
    found = [one.field for one in findings(bounds_for({WEB.name: WEB}), [row], all_told=True)]
    assert found == (["machines"] if contradicts else [])


@given(st.floats(min_value=0, max_value=1e8) | st.integers(min_value=0, max_value=2**24))
def test_a_penalty_falls_into_the_bucket_that_the_wire_has_for_it(dollars: float) -> None:
    assert bucket_of(dollars) == penalty.bucket_of(dollars)


@pytest.fixture
def world() -> World:
    return World()
