"""What a cycle reports: shortfalls, need views, reasons, hints and laps."""

from dataclasses import replace

import pytest

import bigfleet.engine
from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, Requirement, RequirementOperator
from bigfleet.engine import ActionKind, CapacityHint, UnmetReason
from tests.unit.engine_world import (
    NO_CAP,
    EngineAndOracle,
    configured,
    cpu,
    decide,
    machine,
    need,
    of_type,
    profile,
    same,
)

A, B = profile(priority=10), profile(priority=20)


class TestShortfalls:
    def test_ages_grow_per_fingerprint_and_a_gap_starts_anew(self) -> None:
        engine = EngineAndOracle(NO_CAP)

        def ages(*needs: Need) -> dict[int, int]:
            return {s.profile.priority: s.age_cycles for s in decide([], needs, engine=engine).shortfalls}

        assert ages(need(cpu(1), of=A)) == {10: 1}
        assert ages(need(cpu(1), of=A), need(cpu(1), of=B)) == {10: 2, 20: 1}
        assert ages(need(cpu(1), of=B)) == {20: 2}
        assert ages(need(cpu(1), of=A)) == {10: 1}

    def test_deficits_of_one_fingerprint_add_up_and_age_once(self) -> None:
        of = profile(same())
        needs = [need(cpu(2), of=of, group="a"), need({"cpu": 3000, "memory": 5}, of=of, group="b")]
        (shortfall,) = decide([], needs).shortfalls
        assert shortfall.deficit == {"cpu": 5000, "memory": 5}
        assert shortfall.age_cycles == 1
        assert (shortfall.fingerprint, shortfall.profile) == (of.fingerprint, of)

    def test_the_important_come_first_then_the_old(self) -> None:
        engine = EngineAndOracle(NO_CAP)
        old = profile(of_type("z"), priority=10)
        decide([], [need(cpu(1), of=old)], engine=engine)
        needs = [need(cpu(1), of=one) for one in (A, old, B)]
        shortfalls = decide([], needs, engine=engine).shortfalls
        assert [(s.profile.priority, s.age_cycles) for s in shortfalls] == [(20, 1), (10, 2), (10, 1)]

    def test_what_preemption_will_cover_is_no_shortfall(self) -> None:
        decisions = decide([configured("v", "c2", of=A)], [need(cpu(4), of=B)], reported=["c2"])
        assert decisions.shortfalls == ()
        (view,) = decisions.views
        assert (view.satisfied, view.age_cycles_unmet, view.reason) == (False, 0, UnmetReason.PRIORITY_STARVED)

    def test_a_view_carries_the_age_of_its_shortfall(self) -> None:
        engine = EngineAndOracle(NO_CAP)
        ages = [decide([], [need(cpu(1))], engine=engine).views[0].age_cycles_unmet for _ in range(3)]
        assert ages == [1, 2, 3]
        assert decide([machine("m")], [need(cpu(1))], engine=engine).views[0].age_cycles_unmet == 0

    def test_a_satisfied_need_has_no_age_though_another_of_its_fingerprint_is_short(self) -> None:
        views = decide([machine("m")], [need(cpu(1), cluster=cluster) for cluster in ("c1", "c2")]).views
        assert [view.age_cycles_unmet for view in views] == [0, 1]


class TestReasons:
    GANG = profile(same())

    @pytest.mark.parametrize(
        ("machines", "wanted", "reason"),
        [
            ([machine("m")], need(cpu(4)), UnmetReason.UNSPECIFIED),
            ([], need(cpu(4)), UnmetReason.NO_MATCHING_SUPPLY),
            ([machine("m")], need(cpu(4), cpu(5)), UnmetReason.NO_MATCHING_SUPPLY),
            ([configured("m", "c2")], need(cpu(4)), UnmetReason.PRIORITY_STARVED),
            ([machine("m", MachineState.FAILED)], need(cpu(4)), UnmetReason.PRIORITY_STARVED),
            ([], need(cpu(8), of=GANG, group="g"), UnmetReason.TOPOLOGY_UNSATISFIABLE),
            ([machine("m", rack="r")], need(cpu(8), of=GANG, group="g"), UnmetReason.TOPOLOGY_UNSATISFIABLE),
            ([configured("v", "c2", of=A)], need(cpu(8), of=B), UnmetReason.PREEMPTION_EXHAUSTED),
        ],
        ids=[
            "satisfied",
            "no machine",
            "none large enough",
            "all taken",
            "a failed machine is supply",
            "gang without a domain",
            "gang in a domain too small",
            "victims do not suffice",
        ],
    )
    def test_the_first_reason_that_applies(self, machines: list[Machine], wanted: Need, reason: UnmetReason) -> None:
        view = next(v for v in decide(machines, [wanted], reported=["c2"]).views if v.need.cluster == "c1")
        assert view.reason is reason

    def test_wire_numbers(self) -> None:
        assert [(reason.name, int(reason)) for reason in UnmetReason] == [
            ("UNSPECIFIED", 0),
            ("PRIORITY_STARVED", 1),
            ("NO_MATCHING_SUPPLY", 2),
            ("TOPOLOGY_UNSATISFIABLE", 3),
            ("PREEMPTION_EXHAUSTED", 4),
        ]


class TestViews:
    def test_views_are_ordered_by_priority_arrival_and_cluster(self) -> None:
        needs = [
            need(cpu(1), of=A, cluster="a"),
            need(cpu(1), of=B, cluster="b", arrival=2),
            need(cpu(1), of=B, cluster="d", arrival=1),
            need(cpu(1), of=B, cluster="c", arrival=1),
        ]
        assert [view.need.cluster for view in decide([], needs).views] == ["c", "d", "b", "a"]

    def test_a_folded_gang_is_one_plain_row(self) -> None:
        gangs = [need(cpu(2), of=profile(same()), group=group) for group in "ab"]
        (view,) = decide([machine("m", rack="r1")], gangs).views
        assert view.need == Need("c1", profile(), cpu(4), cpu(2))
        assert (view.same_domain, view.same_satisfiable, view.bootstraps) == ("", False, 1)

    def test_a_view_counts_what_was_there_and_what_was_acquired(self) -> None:
        machines = [configured("a"), machine("b"), machine("c", MachineState.SPECULATIVE)]
        (view,) = decide(machines, [need(cpu(14))]).views
        assert (view.claimed, view.bootstraps, view.provisions) == (1, 1, 1)
        assert (view.satisfied, view.residual) == (False, cpu(2))


class TestHints:
    def test_free_machines_of_the_pinned_types_whatever_else_is_required(self) -> None:
        of = profile(of_type("large"), Requirement("disk", RequirementOperator.EXISTS))
        machines = [
            machine("a", instance_type="large", price=3),
            machine("b", instance_type="large", price=2),
            machine("c", MachineState.SPECULATIVE, instance_type="large", price=1),
            machine("d"),
            configured("e", "c2", instance_type="large"),
        ]
        assert decide(machines, [need(cpu(1), of=of)]).hints == (CapacityHint("c1", of, 3, 2, 1, 2.0, cpu(4)),)

    def test_an_unpinned_profile_is_told_of_all_at_no_price(self) -> None:
        of = profile(Requirement(INSTANCE_TYPE_KEY, RequirementOperator.EXISTS))
        machines = [machine("a"), machine("b", MachineState.SPECULATIVE, instance_type="other")]
        assert decide(machines, [need(cpu(1), of=of)]).hints == (CapacityHint("c1", of, 2, 1, 1, 0.0, cpu(4)),)

    def test_no_idle_machine_means_no_price(self) -> None:
        of = profile(of_type("large"))
        (hint,) = decide([machine("a", MachineState.SPECULATIVE, instance_type="large")], [need(cpu(1), of=of)]).hints
        assert (hint.available, hint.cost_per_hour) == (1, 0.0)

    def test_says_what_every_machine_of_the_offer_has(self) -> None:
        of = profile(of_type("large"))
        machines = [
            machine("a", instance_type="large", allocatable={"cpu": 8000, "memory": 16000, "gpu": 1000}),
            machine("b", MachineState.SPECULATIVE, instance_type="large", allocatable={"cpu": 4000, "memory": 32000}),
            machine("c", instance_type="small", allocatable={"cpu": 1000}),
        ]
        (hint,) = decide(machines, [need(cpu(100), of=of)]).hints
        assert hint.resources == {"cpu": 4000, "memory": 16000}

    def test_nothing_free_has_no_resources(self) -> None:
        (hint,) = decide([configured("a")], [need(cpu(100), of=profile(of_type("large")))]).hints
        assert (hint.available, hint.resources) == (0, {})

    def test_one_hint_per_cluster_and_folded_fingerprint_in_order(self) -> None:
        gangs = [need(cpu(2), of=profile(same(), priority=20), group=group, cluster="c2") for group in "ab"]
        needs = [*gangs, need(cpu(1), of=B, cluster="c2"), need(cpu(1), of=A, cluster="c1")]
        hints = decide([machine("m", rack="r")], needs).hints
        assert [(hint.cluster, hint.profile) for hint in hints] == [("c1", A), ("c2", B)]


def test_laps_are_called_in_order() -> None:
    laps: list[str] = []
    EngineAndOracle().cycle({}, {}, 0.0, {}, laps.append)
    assert laps == ["snapread", "phase1", "phase2", "phase3", "emit"]


def test_actions_come_in_the_order_of_the_phases() -> None:
    machines = [
        machine("free"),
        machine("spare", instance_type="other"),
        machine("spec", MachineState.SPECULATIVE),
        configured("victim", "c2", of=A),
        configured("excess", "c3", of=profile(priority=999), instance_type="other"),
    ]
    of = profile(of_type("m6i.large"), priority=20)
    decisions = decide(
        machines,
        [need(cpu(12), of=of), need(cpu(4), of=replace(of, priority=10), cluster="c2")],
        reported=["c3"],
        now=1e6,
        idle_since={"spare": 0},
    )
    assert [action.kind for action in decisions.actions] == list(ActionKind)


def test_the_public_surface() -> None:
    assert sorted(bigfleet.engine.__all__) == [
        "Action",
        "ActionKind",
        "CapacityHint",
        "Decisions",
        "Engine",
        "EngineOptions",
        "Fleet",
        "NeedView",
        "Shortfall",
        "TRANSITION_OF",
        "UnmetReason",
    ]
