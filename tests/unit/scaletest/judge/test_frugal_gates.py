"""Bars on money and memory: what a profile says of its holds and its demand reaches them."""

from dataclasses import replace
from typing import Any

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.listing import all_gates
from scaletest.model.documents.profile import DemandStep
from scaletest.model.plan import Plan
from tests.unit.plans import shipped_plan, smoke_plan


def gates(plan: Plan) -> dict[str, Gate]:
    return {gate.key: gate for gate in all_gates(plan)}


def test_idle_machines_are_held_to_the_hold_of_their_profile_from_both_sides() -> None:
    smoke, by_default = smoke_plan(150), shipped_plan("dev-50")
    assert (smoke.idle_hold_seconds, by_default.idle_hold_seconds) == (15, 300)
    for plan, early in ((smoke, "13.0"), (by_default, "298.0")):
        found = gates(plan)
        assert found["idlePaidSeconds"].bar == plan.idle_hold_seconds + 20
        assert f'le="{early}"' in found["idleReturnedEarly"].query


def test_a_hold_of_nothing_has_no_early() -> None:
    found = gates(changed(smoke_plan(150), "shard", idle_hold_on_demand_seconds=0.0))
    assert "idleReturnedEarly" not in found
    assert found["idlePaidSeconds"].bar == 20


def test_what_a_profile_says_of_a_shards_slow_paths_becomes_values_of_the_chart() -> None:
    assert smoke_plan().values("run")["shard"].items() >= {
        ("listPageSize", 100),
        ("fullReconcileIntervalSeconds", 20),
        ("idleHoldOnDemandSeconds", 15),
    }
    assert not shipped_plan("5k").values("run")["shard"].keys() & {"listPageSize", "fullReconcileIntervalSeconds"}


def test_growth_of_memory_is_judged_where_a_soak_is_long_enough_and_demand_does_not_rise_late() -> None:
    assert "residentGrowth" in gates(smoke_plan(150))
    assert "residentGrowth" not in gates(smoke_plan(90)), "too short"
    assert "offset 75s" in gates(smoke_plan(150))["residentGrowth"].query
    late = changed(smoke_plan(150), "load_profile", demand_steps=(DemandStep(at_seconds=80, target_multiplier=2),))
    assert "residentGrowth" not in gates(late), "more demand needs more memory"


def changed(plan: Plan, part: str, **fields: Any) -> Plan:
    """The plan with other fields in one part of its profile."""
    other = getattr(plan.profile, part).model_copy(update=fields)
    return replace(plan, profile=plan.profile.model_copy(update={part: other}))
