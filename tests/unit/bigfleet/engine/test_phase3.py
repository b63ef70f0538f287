"""Reclaim of excess and release of free machines (docs/reference/engine.md#reclaim)."""

import math

import pytest

from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.engine import ActionKind, Decisions, EngineOptions
from tests.unit.engine_world import NO_CAP, EngineAndOracle, World, acted, configured, cpu, decide, machine, need

CAPPED = EngineOptions()


def reclaimed(decisions: Decisions) -> list[str]:
    return acted(decisions, ActionKind.RECLAIM)


class TestReclaim:
    def test_what_no_need_claims_goes_back_with_ten_minutes_notice(self) -> None:
        decisions = decide([configured("a"), configured("b")], [need(cpu(4))])
        (action,) = decisions.actions
        assert (action.kind, action.machine_id, action.cluster) == (ActionKind.RECLAIM, "b", "c1")
        assert (action.reason, action.grace_seconds, action.preemptor_priority) == ("phase3.excess", 600, 0)

    def test_steady_demand_reclaims_nothing(self) -> None:
        assert decide([configured(f"m{n}") for n in range(5)], [need(cpu(17))]).actions == ()

    def test_a_cluster_that_never_reported_loses_nothing(self) -> None:
        decisions = decide([configured("a", "silent"), configured("b", "talking")], reported=["talking"])
        assert reclaimed(decisions) == ["b"]

    def test_an_empty_roll_up_counts_as_a_report(self) -> None:
        assert reclaimed(decide([configured("a")], reported=["c1"])) == ["a"]

    def test_clusters_by_id_and_machines_in_keep_order(self) -> None:
        machines = [configured("x", "c2"), configured("b", "c1", price=2), configured("a", "c1", price=3)]
        assert reclaimed(decide(machines, reported=["c1", "c2"])) == ["b", "a", "x"]

    def test_machines_that_are_still_being_configured_are_not_reclaimed(self) -> None:
        assert decide([machine("m", MachineState.CONFIGURING, cluster="c1")], reported=["c1"]).actions == ()

    @pytest.mark.parametrize(("configured_machines", "most"), [(1, 1), (19, 1), (39, 1), (40, 2), (100, 5)])
    def test_the_cap_is_a_twentieth_of_the_clusters_machines_and_at_least_one(
        self, configured_machines: int, most: int
    ) -> None:
        machines = [configured(f"m{n:03}") for n in range(configured_machines)]
        decisions = decide(machines, reported=["c1"], options=CAPPED)
        assert len(reclaimed(decisions)) == most
        assert sum(decisions.reclaims_capped.values()) == configured_machines - most

    def test_the_cap_keeps_the_head_of_each_clusters_excess(self) -> None:
        machines = [configured(f"{cluster}-{n:02}", cluster) for cluster in ("c1", "c2") for n in range(40)]
        decisions = decide(machines, reported=["c1", "c2"], options=CAPPED)
        assert reclaimed(decisions) == ["c1-00", "c1-01", "c2-00", "c2-01"]
        assert decisions.reclaims_capped == {"c1": 38, "c2": 38}

    def test_excess_goes_only_after_it_has_stood_for_the_given_time(self) -> None:
        engine = EngineAndOracle(EngineOptions(reclaim_cap_fraction=0, reclaim_after_seconds=15))
        machines = [configured("a"), configured("b")]
        gone = [reclaimed(decide(machines, [need(cpu(4))], engine=engine, now=now)) for now in (0.0, 10.0, 15.0, 20.0)]
        assert gone == [[], [], ["b"], ["b"]]

    def test_demand_that_comes_back_in_time_keeps_its_machine_and_starts_the_time_anew(self) -> None:
        engine = EngineAndOracle(EngineOptions(reclaim_cap_fraction=0, reclaim_after_seconds=15))
        machines = [configured("a"), configured("b")]
        history = [(0.0, 4), (10.0, 8), (20.0, 4), (30.0, 4), (36.0, 4)]
        gone = [reclaimed(decide(machines, [need(cpu(units))], engine=engine, now=now)) for now, units in history]
        assert gone == [[], [], [], [], ["b"]]

    def test_only_what_may_go_now_counts_as_capped(self) -> None:
        engine = EngineAndOracle(EngineOptions(reclaim_cap_fraction=0.05, reclaim_after_seconds=15))
        machines = [configured(f"m{n}") for n in range(5)]
        capped = [decide(machines, reported=["c1"], engine=engine, now=now).reclaims_capped for now in (0.0, 15.0)]
        assert capped == [{}, {"c1": 4}]

    def test_without_a_cap_all_goes_at_once(self) -> None:
        decisions = decide([configured(f"m{n}") for n in range(40)], reported=["c1"], options=NO_CAP)
        assert len(reclaimed(decisions)) == 40
        assert decisions.reclaims_capped == {}

    def test_what_the_cap_put_off_follows_in_later_cycles(self) -> None:
        world = World.of([configured(f"m{n:02}") for n in range(40)], engine=EngineAndOracle(CAPPED))
        world.needs["c1"] = []
        world.settle(100)
        assert world.in_state(MachineState.CONFIGURED) == []


class TestRelease:
    @staticmethod
    def deleted(idle: Machine, idle_seconds: float, options: EngineOptions = CAPPED) -> bool:
        decisions = decide([idle], now=1_000_000, idle_since={idle.id: 1_000_000 - idle_seconds}, options=options)
        return acted(decisions, ActionKind.DELETE) == [idle.id]

    @pytest.mark.parametrize(("capacity_type", "hold"), [(CapacityType.ON_DEMAND, 300), (CapacityType.SPOT, 60)])
    def test_a_free_machine_is_kept_for_its_hold(self, capacity_type: CapacityType, hold: float) -> None:
        idle = machine("m", capacity_type=capacity_type)
        assert not self.deleted(idle, hold)
        assert self.deleted(idle, hold + 1)

    @pytest.mark.parametrize(
        "capacity_type", [CapacityType.BARE_METAL, CapacityType.RESERVED, CapacityType.UNSPECIFIED]
    )
    def test_what_is_paid_for_anyway_is_kept_for_ever(self, capacity_type: CapacityType) -> None:
        assert not self.deleted(machine("m", capacity_type=capacity_type), 900_000)

    def test_holds_are_settable_per_capacity_type_and_an_absent_one_is_for_ever(self) -> None:
        options = EngineOptions(idle_hold_seconds={CapacityType.RESERVED: 5})
        assert self.deleted(machine("m", capacity_type=CapacityType.RESERVED), 6, options)
        assert not self.deleted(machine("m", capacity_type=CapacityType.SPOT), 900_000, options)
        assert options.idle_hold(CapacityType.SPOT) == math.inf

    def test_a_machine_without_a_stamp_is_kept(self) -> None:
        assert decide([machine("m")], now=1e9).actions == ()

    def test_a_machine_that_a_need_takes_is_not_released(self) -> None:
        decisions = decide([machine("a"), machine("b")], [need(cpu(4))], now=1e6, idle_since={"a": 0, "b": 0})
        assert acted(decisions, ActionKind.BOOTSTRAP) == ["a"]
        assert acted(decisions, ActionKind.DELETE) == ["b"]

    def test_the_roll_up_gate_does_not_apply_and_ids_give_the_order(self) -> None:
        machines = [machine(f"m{n:02}", price=100 - n) for n in range(30)]
        decisions = decide(machines, now=1e6, idle_since={m.id: 0 for m in machines}, options=NO_CAP)
        assert acted(decisions, ActionKind.DELETE) == [m.id for m in machines]
        assert {(a.cluster, a.reason) for a in decisions.actions} == {("", "phase3.release")}

    @pytest.mark.parametrize("state", [state for state in MachineState if state not in (0, MachineState.IDLE)])
    def test_only_idle_machines_are_released(self, state: MachineState) -> None:
        assert decide([machine("m", state, cluster="c1")], now=1e6, idle_since={"m": 0}).actions == ()
