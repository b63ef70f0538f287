"""Preemption: who may take what from whom, in which order, with how much notice.

See docs/reference/engine.md#preemption.
"""

from typing import Any

from bigfleet.core import penalty
from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile
from bigfleet.engine import ActionKind, UnmetReason
from tests.unit.engine_world import acted, configured, cpu, decide, machine, need, of_type, profile, same, zone_spread

LOW, HIGH = profile(priority=100), profile(priority=1_000)


def held(machine_id: str, of: NeedProfile = LOW, cluster: str = "batch", **others: Any) -> Machine:
    return configured(machine_id, cluster, of=of, **others)


def batch(machines: int, of: NeedProfile = LOW) -> Need:
    return need(cpu(4 * machines), of=of, cluster="batch")


def urgent(machines: float = 1, of: NeedProfile = HIGH, unit: float = 1) -> Need:
    return need(cpu(4 * machines), cpu(unit), of=of, cluster="urgent")


class TestVictims:
    def test_a_victim_is_told_for_whom_and_how_long_it_has(self) -> None:
        of = profile(priority=1_000_000)
        (action,) = decide([held("v")], [batch(1), urgent(of=of)]).actions
        assert action.kind is ActionKind.PREEMPT
        assert (action.cluster, action.reason) == ("batch", "phase2.inversion")
        assert (action.grace_seconds, action.preemptor_priority) == (10, 1_000_000)

    def test_the_grace_follows_each_victims_own_gap(self) -> None:
        middle = profile(priority=600_000)
        decisions = decide(
            [held("low"), held("middle", middle)], [batch(1), batch(1, middle), urgent(2, profile(priority=1_000_000))]
        )
        assert {action.machine_id: action.grace_seconds for action in decisions.actions} == {"low": 10, "middle": 120}

    def test_no_more_victims_than_the_deficit_asks_for(self) -> None:
        assert len(decide([held(f"v{n}") for n in range(5)], [batch(5), urgent(2)]).actions) == 2

    def test_the_deficit_that_acquisition_left_is_what_counts(self) -> None:
        decisions = decide([held("v1"), held("v2"), machine("free")], [batch(2), urgent(2)])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["free"]
        assert acted(decisions, ActionKind.PREEMPT) == ["v1"]

    def test_the_lowest_priority_goes_first_then_the_lowest_penalties_then_the_id(self) -> None:
        lower = profile(priority=99)
        dear = profile(priority=100, interruption=penalty.bucket_of(64), reclamation=penalty.bucket_of(64))
        pinned = profile(priority=100, reclamation=penalty.PINNED, interruption=penalty.PINNED)
        victims = [held("a", pinned), held("b", dear), held("d"), held("c"), held("e", lower)]
        needs = [batch(1, pinned), batch(1, dear), batch(2), batch(1, lower), urgent(5)]
        assert acted(decide(victims, needs), ActionKind.PREEMPT) == ["e", "c", "d", "b", "a"]

    def test_equal_priority_is_no_victim(self) -> None:
        assert decide([held("v", HIGH)], [batch(1, HIGH), urgent()]).actions == ()

    def test_a_victim_must_match_cover_min_unit_and_be_configured(self) -> None:
        large = profile(of_type("large"), priority=1000)
        configuring = machine("m", MachineState.CONFIGURING, cluster="batch", of=LOW, instance_type="large")
        victims = [
            held("other"),
            held("small", instance_type="large", allocatable=cpu(1)),
            configuring,
            held("right", instance_type="large"),
        ]
        decisions = decide(victims, [batch(4), urgent(1, large, unit=2)])
        assert acted(decisions, ActionKind.PREEMPT) == ["right"]

    def test_a_machine_that_serves_a_better_need_by_now_is_no_victim(self) -> None:
        """It was acquired for low-priority work, but its cluster's important need counts on it today."""
        needs = [need(cpu(4), of=profile(priority=5_000), cluster="batch"), urgent()]
        assert decide([held("v")], needs).actions == ()

    def test_a_need_does_not_rob_itself(self) -> None:
        decisions = decide([held("v", cluster="urgent")], [urgent(3)])
        assert decisions.actions == ()
        assert decisions.views[0].claimed == 1

    def test_no_machine_is_taken_twice_and_the_best_need_chooses_first(self) -> None:
        higher = profile(priority=2_000)
        decisions = decide([held("v1")], [batch(1), urgent(of=HIGH), need(cpu(4), of=higher, cluster="top")])
        assert [(action.machine_id, action.preemptor_priority) for action in decisions.actions] == [("v1", 2_000)]

    def test_excess_that_is_preempted_is_not_reclaimed_as_well(self) -> None:
        decisions = decide([held("v1"), held("v2", HIGH)], [urgent()], reported=["batch"])
        assert acted(decisions, ActionKind.PREEMPT) == ["v1"]
        assert acted(decisions, ActionKind.RECLAIM) == ["v2"]

    def test_a_cluster_that_has_not_reported_loses_nothing(self) -> None:
        decisions = decide(
            [held("v1", cluster="silent"), held("v2", cluster="talking")], [urgent(2)], reported=["talking"]
        )
        assert acted(decisions, ActionKind.PREEMPT) == ["v2"]
        silent = decide([held("v", cluster="silent")], [urgent()])
        assert silent.actions == ()
        assert [shortfall.deficit for shortfall in silent.shortfalls] == [cpu(4)]

    def test_what_drains_already_is_counted_whoever_has_not_reported(self) -> None:
        leaving = machine("v", MachineState.DRAINING, cluster="silent", of=LOW)
        assert decide([leaving], [urgent()]).shortfalls == ()

    def test_victims_are_taken_even_if_they_do_not_suffice(self) -> None:
        decisions = decide([held("v")], [batch(1), urgent(3)])
        assert acted(decisions, ActionKind.PREEMPT) == ["v"]
        view = decisions.views[0]
        assert view.reason is UnmetReason.PREEMPTION_EXHAUSTED
        assert [(s.profile.priority, s.deficit) for s in decisions.shortfalls] == [(1_000, cpu(8))]


class TestDrainsUnderWay:
    def test_a_draining_machine_of_lower_priority_counts_as_a_victim_already_made(self) -> None:
        draining = machine("d", MachineState.DRAINING, cluster="batch", of=LOW)
        decisions = decide([draining, held("v")], [batch(1), urgent()])
        assert decisions.actions == ()
        assert decisions.shortfalls == ()

    def test_it_counts_once(self) -> None:
        draining = machine("d", MachineState.DRAINING, cluster="batch", of=LOW)
        decisions = decide([draining, held("v")], [batch(1), urgent(), need(cpu(4), of=HIGH, cluster="urgent2")])
        assert acted(decisions, ActionKind.PREEMPT) == ["v"]

    def test_it_does_not_count_for_work_that_could_not_have_preempted_it(self) -> None:
        draining = machine("d", MachineState.DRAINING, cluster="batch", of=HIGH)
        decisions = decide([draining, held("v")], [batch(1), urgent()])
        assert acted(decisions, ActionKind.PREEMPT) == ["v"]

    def test_it_is_still_short_of_supply_when_drains_do_not_suffice(self) -> None:
        draining = machine("d", MachineState.DRAINING, cluster="batch", of=LOW)
        view = decide([draining], [urgent(2)]).views[0]
        assert view.reason is UnmetReason.PREEMPTION_EXHAUSTED


class TestSpread:
    OF = profile(priority=1_000, spread=[zone_spread()])

    def test_no_victim_is_taken_that_the_spread_would_not_let_the_need_use(self) -> None:
        """Zone b has no machine to give, so zone a, which is ahead, gains nothing from a victim."""
        own = [held("a1", self.OF, "urgent"), held("b1", self.OF, "urgent", zone="zone-b")]
        ahead = held("a2", self.OF, "urgent")
        decisions = decide([*own, ahead, held("victim")], [batch(1), urgent(4, self.OF)])
        assert decisions.actions == ()
        assert [s.deficit for s in decisions.shortfalls] == [cpu(4)]

    def test_victims_are_taken_where_the_need_is_behind(self) -> None:
        own = held("a1", self.OF, "urgent")
        victims = [held("v1"), held("v2"), held("v3", zone="zone-b")]
        assert acted(decide([own, *victims], [batch(3), urgent(3, self.OF)]), ActionKind.PREEMPT) == ["v3", "v1"]


class TestGangs:
    GANG = profile(same(), priority=1_000)

    def gang(self, machines: int) -> Need:
        return need(cpu(4 * machines), of=self.GANG, cluster="urgent", group="g")

    def test_a_gang_preempts_in_its_domain_only(self) -> None:
        victims = [held("v1", rack="r1"), held("v2", rack="r2"), held("v3", rack="r1")]
        free = [machine("f", rack="r1")]
        decisions = decide([*victims, *free], [batch(3), self.gang(2)])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["f"]
        assert acted(decisions, ActionKind.PREEMPT) == ["v1"]

    def test_a_gang_without_a_domain_preempts_nothing_and_is_short(self) -> None:
        decisions = decide([held("v1", rack="r1"), held("v2", rack="r1")], [batch(2), self.gang(2)])
        assert decisions.actions == ()
        assert [shortfall.deficit for shortfall in decisions.shortfalls] == [cpu(8)]

    def test_a_gangs_domain_wins_over_its_spread(self) -> None:
        of = profile(same(), priority=1_000, spread=[zone_spread()])
        free = [machine("f1", rack="r1"), machine("f2", rack="r1"), machine("f3", rack="r2", zone="zone-b")]
        gang = need(cpu(16), of=of, cluster="urgent", group="g")
        decisions = decide([held("v1", rack="r1"), held("v2", rack="r1"), *free], [batch(2), gang])
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["f1", "f2"]
        assert acted(decisions, ActionKind.PREEMPT) == ["v1", "v2"]
