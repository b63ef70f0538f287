"""Gangs live in one domain, chosen in seven steps (docs/reference/engine.md#gangs)."""

from typing import Any

import pytest

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import RACK_KEY
from bigfleet.engine import ActionKind
from tests.oracle.acquire import acquire
from tests.oracle.fill import Claims, Fill, unfilled
from tests.oracle.snapshot import Snapshot
from tests.unit.engine_world import acted, configured, cpu, decide, machine, need, profile, same

GANG = profile(same())
SPECULATIVE = MachineState.SPECULATIVE


def gang(units: float = 8, group: str = "g", unit: float = 1, cluster: str = "c1", arrival: float = 0.0) -> Need:
    """More than the four units of one machine, so that it is never folded."""
    return need(cpu(units), cpu(unit), of=GANG, group=group, cluster=cluster, arrival=arrival)


def chosen(machines: list[Machine], *needs: Need) -> str:
    return decide(machines, needs or [gang()]).views[0].same_domain


def free(rack: str, count: int, prefix: str = "", **others: Any) -> list[Machine]:
    return [machine(f"{prefix}{rack}-free-{n}", rack=rack, **others) for n in range(count)]


def bound(rack: str, count: int, of_group: str | None = None, units: float = 4) -> list[Machine]:
    of = GANG if of_group is not None else None
    return [
        configured(f"{rack}-bound-{n}", rack=rack, of=of, group=of_group or "", allocatable=cpu(units))
        for n in range(count)
    ]


class TestChoice:
    def test_step_1_a_domain_that_can_satisfy_beats_one_with_more_credit(self) -> None:
        assert chosen([*bound("r1", 1), *free("r2", 2)]) == "r2"

    def test_step_2_among_satisfying_domains_more_creditable_coverage_wins(self) -> None:
        assert chosen([*free("r1", 2), *bound("r2", 1), *free("r2", 1)]) == "r2"

    def test_step_2_coverage_is_capped_so_surplus_does_not_count(self) -> None:
        assert chosen([*bound("r1", 2), *bound("r2", 5)]) == "r1"

    def test_step_2_comes_before_step_3(self) -> None:
        own_but_short = [*bound("r2", 1, of_group="g"), *free("r2", 1)]
        assert chosen([*bound("r1", 2), *own_but_short]) == "r1"

    def test_step_3_then_more_of_the_gangs_own_machines(self) -> None:
        assert chosen([*bound("r1", 2), *bound("r2", 2, of_group="g")]) == "r2"

    def test_step_3_counts_too_where_free_machines_are_needed(self) -> None:
        short = [*bound("r1", 1), *free("r1", 1), *bound("r2", 1, of_group="g"), *free("r2", 1)]
        assert chosen(short) == "r2"

    def test_step_3_another_gangs_machines_are_not_its_own(self) -> None:
        assert chosen([*bound("r1", 2), *bound("r2", 2, of_group="other")]) == "r1"

    def test_step_4_then_the_least_over_commitment(self) -> None:
        assert chosen([*free("r1", 4), *free("r2", 2), *free("r3", 3)]) == "r2"

    def test_step_4_decides_among_domains_that_cover_it_alike_with_what_is_bound(self) -> None:
        assert chosen([*bound("r1", 3), *bound("r2", 2)]) == "r2"
        assert chosen([*bound("r1", 2), *free("r1", 1), *bound("r2", 2)]) == "r2"

    def test_step_4_among_domains_that_cannot_satisfy_the_largest_coverage_wins(self) -> None:
        machines = [*bound("r1", 1), *free("r2", 3)]
        view = decide(machines, [gang(40)]).views[0]
        assert (view.same_domain, view.same_satisfiable) == ("r2", False)

    def test_step_5_then_the_greater_creditable_coverage(self) -> None:
        assert chosen([*free("r1", 2), *bound("r2", 1), *free("r2", 1)], gang(40)) == "r2"

    def test_step_6_then_the_larger_count(self) -> None:
        two_small = free("r2", 2, allocatable=cpu(4))
        one_big = free("r1", 1, allocatable=cpu(8))
        assert chosen([*one_big, *two_small], gang(40)) == "r2"

    def test_step_6_holds_among_satisfying_domains_too(self) -> None:
        machines = [*free("r1", 2, allocatable=cpu(6)), *free("r2", 3, allocatable=cpu(4))]
        assert chosen(machines, gang(12)) == "r2"

    def test_step_7_then_the_smallest_value(self) -> None:
        assert chosen([*free("r2", 2), *free("r1", 2)]) == "r1"

    def test_every_wanted_dimension_adds_to_the_coverage(self) -> None:
        wide = {"cpu": 2000, "memory": 9000}
        tall = {"cpu": 9000, "memory": 1000}
        want = need({"cpu": 10_000, "memory": 10_000}, {"cpu": 1, "memory": 1}, of=GANG, group="g")
        machines = [machine("m1", rack="r1", allocatable=tall), machine("m2", rack="r2", allocatable=wide)]
        assert chosen(machines, want) == "r2"

    def test_machines_without_the_key_are_of_no_use(self) -> None:
        decisions = decide([machine("m1"), machine("m2")], [gang()])
        assert decisions.actions == ()
        assert decisions.views[0].same_domain == ""

    def test_the_values_of_a_same_requirement_restrict_the_choice(self) -> None:
        restricted = need(cpu(8), of=profile(same(RACK_KEY, "r2")), group="g")
        assert chosen([*free("r1", 2), *free("r2", 3)], restricted) == "r2"


class TestClaims:
    def test_a_gang_claims_and_acquires_in_its_domain_only(self) -> None:
        machines = [*bound("r1", 1), *free("r1", 2), *free("r2", 9)]
        decisions = decide(machines, [gang(12)])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r1-free-0", "r1-free-1"]
        assert decisions.views[0].satisfied

    def test_its_own_machines_come_first(self) -> None:
        own = configured("own", rack="r1", of=GANG, group="g", price=9)
        decisions = decide([own, *bound("r1", 2)], [gang()])
        assert acted(decisions, ActionKind.RECLAIM) == ["r1-bound-1"]

    def test_a_gang_acquires_idle_then_speculative_of_its_domain(self) -> None:
        machines = [*free("r1", 1), *free("r1", 2, "s", state=SPECULATIVE)]
        decisions = decide(machines, [gang()])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r1-free-0"]
        assert acted(decisions, ActionKind.PROVISION) == ["sr1-free-0"]
        assert {action.group for action in decisions.actions} == {"g"}

    def test_a_domain_too_small_is_filled_all_the_same(self) -> None:
        """Concentrate, then park."""
        decisions = decide([*free("r1", 2), *free("r2", 1)], [gang(40)])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r1-free-0", "r1-free-1"]

    def test_machines_being_created_for_the_gang_count_in_their_domain(self) -> None:
        creating = machine("new", MachineState.CREATING, rack="r2", of=GANG, group="g")
        decisions = decide([creating, *free("r1", 2), *free("r2", 2)], [gang()])
        assert decisions.views[0].same_domain == "r2"
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r2-free-0"]

    def test_machines_being_created_for_another_gang_do_not_count(self) -> None:
        creating = machine("new", MachineState.CREATING, rack="r2", of=GANG, group="other")
        assert chosen([creating, *free("r1", 2), *free("r2", 2)]) == "r1"

    def test_machines_below_min_unit_do_not_count(self) -> None:
        small = free("r1", 9, allocatable=cpu(1))
        assert chosen([*small, *free("r2", 3)], gang(8, unit=2)) == "r2"


class TestMachinesOfOthers:
    """ADR-21: a gang leaves alone what was bound for a need as important as itself that is still there."""

    def test_another_gangs_machines_are_not_taken_though_the_gang_comes_first(self) -> None:
        machines = [*bound("r1", 2, of_group="late"), *free("r2", 2)]
        decisions = decide(machines, [gang(8, "early", arrival=1), gang(8, "late", arrival=2)])
        assert [view.same_domain for view in decisions.views] == ["r2", "r1"]
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r2-free-0", "r2-free-1"]

    def test_nor_is_what_another_gang_has_beyond_its_demand(self) -> None:
        machines = [*bound("r1", 3, of_group="late"), *free("r1", 1), *free("r2", 2)]
        decisions = decide(machines, [gang(8, "early", arrival=1), gang(8, "late", arrival=2)])
        assert [view.same_domain for view in decisions.views] == ["r2", "r1"]
        assert acted(decisions, ActionKind.RECLAIM) == ["r1-bound-2"]

    def test_nor_a_plain_needs_machines(self) -> None:
        of = profile()
        held = [configured(f"r1-{n}", rack="r1", of=of) for n in range(2)]
        decisions = decide([*held, *free("r2", 2)], [gang(), need(cpu(8), of=of, arrival=1)])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["r2-free-0", "r2-free-1"]

    def test_in_its_own_domain_it_fills_up_with_what_is_nobodys(self) -> None:
        others = [configured(f"a{n}", rack="r1", of=GANG, group="other") for n in range(2)]
        small = configured("b", rack="r1", of=GANG, group="gone", allocatable=cpu(3))
        machines = [*bound("r1", 1, of_group="g"), *others, small]
        decisions = decide(machines, [gang(7), gang(8, "other", unit=4, arrival=1)])
        assert [(view.claimed, view.satisfied) for view in decisions.views] == [(2, True), (2, True)]

    def test_machines_of_a_need_that_went_are_anybodys(self) -> None:
        assert decide([*bound("r1", 2, of_group="gone"), *free("r2", 2)], [gang()]).actions == ()

    def test_machines_of_a_less_important_need_are_taken(self) -> None:
        lesser = profile(same(), priority=1)
        held = [configured(f"r1-{n}", rack="r1", of=lesser, group="l") for n in range(2)]
        decisions = decide(held, [gang(), need(cpu(8), of=lesser, group="l")])
        assert [view.claimed for view in decisions.views] == [2, 0]

    def test_but_not_by_a_gang_as_important_as_their_own_that_comes_after_a_better_one(self) -> None:
        lesser = profile(same(), priority=1)
        held = [configured(f"r1-{n}", rack="r1", of=lesser, group="l") for n in range(4)]
        low = [need(cpu(8), of=lesser, group=group, arrival=arrival) for arrival, group in ((1.0, "early"), (2.0, "l"))]
        assert [view.claimed for view in decide(held, [gang(), *low]).views] == [2, 0, 2]


class TestVirtualConsumption:
    def test_a_later_gang_does_not_count_on_what_an_earlier_one_will_take(self) -> None:
        machines = [*free("r1", 2), *free("r2", 3)]
        decisions = decide(machines, [gang(8, "a", arrival=1), gang(8, "b", arrival=2)])
        assert [view.same_domain for view in decisions.views] == ["r1", "r2"]
        assert all(view.satisfied for view in decisions.views)

    def test_what_the_earlier_gang_leaves_is_still_there(self) -> None:
        decisions = decide(free("r1", 4), [gang(8, "a", arrival=1), gang(8, "b", arrival=2)])
        assert [(view.same_domain, view.same_satisfiable) for view in decisions.views] == [("r1", True), ("r1", True)]
        assert all(view.satisfied for view in decisions.views)

    def test_a_gang_that_finds_nothing_left_chooses_no_domain(self) -> None:
        decisions = decide(free("r1", 2), [gang(8, "a", arrival=1), gang(8, "b", arrival=2)])
        assert [view.same_domain for view in decisions.views] == ["r1", ""]


class TestWithoutARecordedDomain:
    """The pre-pass found no domain, because earlier gangs counted on all that was free; yet some of it is left."""

    @staticmethod
    def acquired_from(machines: list[Machine]) -> Fill:
        snapshot = Snapshot(machines)
        fill = unfilled(gang(), snapshot)
        acquire(fill, snapshot, Claims())
        return fill

    @pytest.mark.parametrize(
        ("left", "expected"),
        [
            ([*free("r1", 3, price=2), *free("r2", 2, price=1)], "r2"),
            ([*free("r1", 1, price=1), *free("r2", 2, price=3)], "r2"),
            ([*free("r1", 1, price=3), *free("r2", 1, price=2)], "r2"),
            ([*free("r2", 1, price=2), *free("r1", 1, price=2)], "r1"),
        ],
        ids=["cheapest that covers", "one that covers", "none covers: cheapest head", "then the smallest value"],
    )
    def test_it_chooses_among_what_is_free(self, left: list[Machine], expected: str) -> None:
        fill = self.acquired_from(left)
        assert fill.domain == expected
        assert {one.attribute(RACK_KEY) for one in fill.bootstraps} == {expected}

    def test_where_none_covers_the_most_machines_win(self) -> None:
        small = [*free("r1", 1, price=0, allocatable=cpu(1)), *free("r2", 3, allocatable=cpu(1))]
        assert self.acquired_from(small).domain == "r2"

    def test_idle_machines_choose_before_speculative_ones_and_both_are_of_one_domain(self) -> None:
        speculative = [*free("r1", 5, "s", state=SPECULATIVE), *free("r2", 1, "s", state=SPECULATIVE)]
        fill = self.acquired_from([*free("r2", 1), *speculative])
        assert fill.domain == "r2"
        assert fill.met
