"""Credit of bound capacity, and acquisition for plain needs (docs/reference/engine.md#credit)."""

from itertools import permutations

import pytest

from bigfleet.core import penalty
from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import RACK_KEY, ZONE_KEY, Requirement, RequirementOperator
from bigfleet.engine import ActionKind, Decisions
from tests.unit.engine_world import acted, configured, cpu, decide, machine, need, of_type, profile

SPECULATIVE = MachineState.SPECULATIVE


def acquired(decisions: Decisions) -> list[str]:
    return acted(decisions, ActionKind.BOOTSTRAP) + acted(decisions, ActionKind.PROVISION)


class TestCredit:
    def test_bound_machines_cover_demand_and_nothing_is_acquired(self) -> None:
        configuring = machine("b", MachineState.CONFIGURING, cluster="c1")
        decisions = decide([configured("a"), configuring, machine("free")], [need(cpu(8))])
        assert decisions.actions == ()
        (view,) = decisions.views
        assert view.satisfied
        assert (view.claimed, view.bootstraps, view.provisions) == (2, 0, 0)
        assert view.residual == {}

    @pytest.mark.parametrize(
        "state", [MachineState.DRAINING, MachineState.DELETING, MachineState.FAILED, MachineState.CREATING]
    )
    def test_only_bound_capacity_counts(self, state: MachineState) -> None:
        cluster = "c1" if state is MachineState.DRAINING else ""
        decisions = decide([machine("m", state, cluster=cluster), machine("free")], [need(cpu(4))])
        assert acquired(decisions) == ["free"]

    def test_another_clusters_machines_do_not_count(self) -> None:
        assert acquired(decide([configured("m", "c2"), machine("free")], [need(cpu(4))])) == ["free"]

    def test_a_machine_counts_with_all_it_has_but_only_in_dimensions_it_has(self) -> None:
        both = {"cpu": 4000, "memory": 1000}
        bound = configured("m", allocatable={"cpu": 8000, "memory": 1500})
        decisions = decide([bound], [need({"cpu": 4000, "memory": 3000}, both)])
        assert decisions.views[0].residual == {"memory": 1500}

    def test_a_machine_below_min_unit_or_outside_the_profile_does_not_count(self) -> None:
        small = configured("small", allocatable=cpu(1))
        other = configured("other", instance_type="other")
        decisions = decide([small, other], [need(cpu(2), cpu(2), of=profile(of_type("m6i.large")))])
        assert decisions.views[0].claimed == 0

    def test_machines_are_claimed_in_keep_order(self) -> None:
        """Price ascending, then assigned reclamation penalty descending, then id; the tail is what is released."""
        pinned, zero = profile(reclamation=penalty.PINNED), profile(reclamation=penalty.ZERO)
        bound = [
            configured("dear", price=2, of=pinned),
            configured("b-loose", of=zero),
            configured("c-pinned", of=pinned),
            configured("a-loose", of=zero),
        ]
        for count, released in ((3, ["dear"]), (2, ["b-loose", "dear"]), (1, ["a-loose", "b-loose", "dear"])):
            assert acted(decide(bound, [need(cpu(4 * count))]), ActionKind.RECLAIM) == released

    def test_a_need_claims_its_own_machines_first(self) -> None:
        """ADR-21: by price alone the important need would take both machines, and the other would buy a third."""
        important, other = profile(priority=2), profile(priority=1)
        machines = [
            configured("large", allocatable=cpu(8), price=9, of=important),
            configured("small", of=other),
            machine("free"),
        ]
        decisions = decide(machines, [need(cpu(8), of=important), need(cpu(4), of=other)])
        assert decisions.actions == ()
        assert [view.claimed for view in decisions.views] == [1, 1]

    def test_what_is_not_its_own_comes_after_it_in_keep_order(self) -> None:
        of = profile()
        bound = [configured("own", price=9, of=of), configured("dear", price=2), configured("cheap")]
        assert acted(decide(bound, [need(cpu(4), of=of)]), ActionKind.RECLAIM) == ["cheap", "dear"]
        assert acted(decide(bound, [need(cpu(8), of=of)]), ActionKind.RECLAIM) == ["dear"]

    def test_its_own_machines_are_claimed_in_keep_order(self) -> None:
        of = profile()
        bound = [configured("dear", price=2, of=of), configured("cheap", of=of)]
        assert acted(decide(bound, [need(cpu(4), of=of)]), ActionKind.RECLAIM) == ["dear"]

    def test_an_own_machine_on_its_way_in_comes_before_anothers_that_is_there(self) -> None:
        of = profile()
        coming = machine("own", MachineState.CONFIGURING, cluster="c1", of=of)
        assert acted(decide([coming, configured("m")], [need(cpu(4), of=of)]), ActionKind.RECLAIM) == ["m"]

    def test_an_own_machine_that_no_longer_serves_is_not_claimed(self) -> None:
        of = profile(of_type("m6i.large"))
        small = configured("small", allocatable=cpu(1), of=of)
        renamed = configured("renamed", instance_type="other", of=of)
        assert decide([small, renamed], [need(cpu(2), cpu(2), of=of)]).views[0].claimed == 0

    def test_needs_of_one_fingerprint_share_what_is_theirs_and_each_takes_what_it_can_use(self) -> None:
        """Folded gangs of several sizes are such needs."""
        gang = profile(Requirement(RACK_KEY, RequirementOperator.SAME))
        of = gang.without_same()
        bound = [
            configured("a-small", rack="r1", of=of, price=2),
            configured("b-large", rack="r1", allocatable=cpu(8), of=of, price=3),
            configured("c-small", rack="r1", of=of, price=4),
            configured("cheap", rack="r1", allocatable=cpu(8)),
        ]
        gangs = [need(cpu(size), of=gang, group=f"g{number}", arrival=number) for number, size in enumerate((6, 4, 3))]
        decisions = decide(bound, gangs)
        assert [view.claimed for view in decisions.views] == [1, 1, 1]
        assert acted(decisions, ActionKind.RECLAIM) == ["cheap"]

    def test_configured_machines_are_claimed_before_configuring_ones(self) -> None:
        cheap = machine("cheap", MachineState.CONFIGURING, cluster="c1", price=0.1)
        decisions = decide([cheap, configured("dear", price=9)], [need(cpu(4))])
        assert acted(decisions, ActionKind.RECLAIM) == []

    def test_the_most_important_need_claims_first_and_a_machine_serves_one_need(self) -> None:
        low, high = need(cpu(1), of=profile(priority=1)), need(cpu(1), of=profile(priority=2))
        for needs in permutations([low, high]):
            views = decide([configured("m", allocatable=cpu(64))], needs).views
            assert [(view.need.profile.priority, view.satisfied) for view in views] == [(2, True), (1, False)]

    def test_equal_priorities_go_by_arrival_then_by_cluster(self) -> None:
        old, new = need(cpu(4), cluster="z", arrival=1), need(cpu(4), cluster="a", arrival=2)
        assert decide([machine("m")], [new, old]).actions[0].cluster == "z"
        one, two = need(cpu(4), cluster="b", arrival=1), need(cpu(4), cluster="a", arrival=1)
        assert decide([machine("m")], [one, two]).actions[0].cluster == "a"

    def test_a_machine_being_created_counts_for_the_fingerprint_it_is_for(self) -> None:
        mine, other = profile(priority=5), profile(priority=6)
        creating = machine("m", MachineState.CREATING, of=mine)
        assert acquired(decide([creating, machine("free")], [need(cpu(4), of=mine)])) == []
        assert acquired(decide([creating, machine("free")], [need(cpu(4), of=other)])) == ["free"]
        assert decide([creating], [need(cpu(4), of=mine)]).views[0].claimed == 1

    def test_a_machine_being_created_is_never_acquired(self) -> None:
        assert decide([machine("m", MachineState.CREATING)], [need(cpu(4))]).actions == ()

    def test_bound_machines_count_before_those_being_created(self) -> None:
        of = profile()
        creating = machine("a", MachineState.CREATING, of=of, price=0)
        decisions = decide([creating, configured("b", price=9)], [need(cpu(4), of=of)])
        assert acted(decisions, ActionKind.RECLAIM) == []

    def test_a_need_without_demand_claims_nothing_and_is_satisfied(self) -> None:
        decisions = decide([configured("m"), machine("free")], [need({"cpu": 0})])
        assert decisions.views[0].satisfied
        assert acted(decisions, ActionKind.RECLAIM) == ["m"]

    def test_machines_that_bring_nothing_of_what_is_wanted_are_left_alone(self) -> None:
        """A roll-up without a proper min_unit must not swallow the fleet."""
        decisions = decide([machine("cpu-only")], [need({"gpu": 1000}, {})])
        assert decisions.actions == ()


class TestAcquisition:
    def test_idle_before_speculative_each_cheapest_first_then_by_id(self) -> None:
        free = [
            machine("s-cheap", SPECULATIVE, price=0.1),
            machine("s-dear", SPECULATIVE, price=0.2),
            machine("i-dear", price=3),
            machine("i-b", price=2),
            machine("i-a", price=2),
        ]
        decisions = decide(free, [need(cpu(16))])
        assert [(action.kind, action.machine_id) for action in decisions.actions] == [
            (ActionKind.BOOTSTRAP, "i-a"),
            (ActionKind.BOOTSTRAP, "i-b"),
            (ActionKind.BOOTSTRAP, "i-dear"),
            (ActionKind.PROVISION, "s-cheap"),
        ]

    def test_an_action_says_for_whom_and_why(self) -> None:
        of = profile(priority=9)
        (action,) = decide([machine("m")], [need(cpu(1), of=of, cluster="c7")]).actions
        assert (action.cluster, action.profile, action.group, action.reason) == ("c7", of, "", "phase1")

    def test_the_number_of_machines_follows_from_the_vectors(self) -> None:
        free = [machine(f"m{n}", allocatable={"cpu": 4000, "memory": 2000}) for n in range(9)]
        wanted = need({"cpu": 8000, "memory": 9000}, {"cpu": 1000, "memory": 1000})
        assert len(acquired(decide(free, [wanted]))) == 5

    def test_speculative_machines_go_by_effective_cost(self) -> None:
        spot = machine("spot", SPECULATIVE, price=1, probability=0.5)
        steady = machine("steady", SPECULATIVE, price=2)
        careless, careful = profile(interruption=penalty.ZERO), profile(interruption=penalty.bucket_of(4))
        assert acquired(decide([spot, steady], [need(cpu(4), of=careless)])) == ["spot"]
        assert acquired(decide([spot, steady], [need(cpu(4), of=careful)])) == ["steady"]

    def test_pinned_work_prefers_machines_that_are_never_interrupted_and_orders_them_by_price(self) -> None:
        free = [
            machine("a-spot", SPECULATIVE, price=0.1, probability=0.01),
            machine("b-dear", SPECULATIVE, price=5),
            machine("c-cheap", SPECULATIVE, price=2),
        ]
        pinned = need(cpu(12), of=profile(interruption=penalty.PINNED))
        assert acquired(decide(free, [pinned])) == ["c-cheap", "b-dear", "a-spot"]

    def test_idle_machines_go_by_price_alone(self) -> None:
        spot, steady = machine("spot", price=1, probability=0.9), machine("steady", price=2)
        assert acquired(decide([spot, steady], [need(cpu(4), of=profile(interruption=penalty.PINNED))])) == ["spot"]

    def test_what_there_is_is_taken_even_if_it_is_not_enough(self) -> None:
        decisions = decide([machine("m")], [need(cpu(40))])
        assert acquired(decisions) == ["m"]
        assert decisions.views[0].residual == cpu(36)

    def test_the_more_important_need_gets_the_last_machine(self) -> None:
        needs = [need(cpu(4), of=profile(priority=1), cluster="a"), need(cpu(4), of=profile(priority=2), cluster="b")]
        (action,) = decide([machine("m")], needs).actions
        assert action.cluster == "b"

    def test_only_matching_machines_are_acquired(self) -> None:
        of = profile(
            Requirement(ZONE_KEY, RequirementOperator.NOT_IN, ("zone-a",)),
            Requirement("disk", RequirementOperator.DOES_NOT_EXIST),
        )
        free = [machine("a"), machine("b", zone="zone-b"), machine("c", zone="zone-b", price=2)]
        assert acquired(decide(free, [need(cpu(8), of=of)])) == ["b", "c"]
