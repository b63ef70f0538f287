"""Verdicts: never green by accident."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaletest.judge.gates.figures import INFORMATIONAL
from scaletest.judge.gates.gate import Gate, Reading, judge
from scaletest.judge.gates.hop_gates import hop_gates, restart_gate
from scaletest.judge.gates.listing import all_gates, gates_for, plain_gates, reclaim_gate
from scaletest.judge.gates.measures import WorstMember
from scaletest.judge.gates.witnesses import witness_gates
from scaletest.model.files.reading import read_profile
from tests.unit.gates import a_gate
from tests.unit.plans import SHIPPED, shipped_plan, smoke_plan

AT_MOST = a_gate("latency", "latency", "q[{w}]", bar=5.0, count="n", histogram="h")
AT_LEAST = a_gate("ratio", "ratio", bar=0.99, least=True, count="n")


def verdict(gate: Gate, reading: Reading) -> str:
    return judge(gate, reading, window_seconds=60, min_observations=10).verdict


def test_a_value_within_its_bound_passes() -> None:
    assert verdict(AT_MOST, Reading(4.9, 100, 327.0)) == "pass"
    assert verdict(AT_LEAST, Reading(0.99, 100)) == "pass"


def test_a_value_beyond_its_bound_fails() -> None:
    assert verdict(AT_MOST, Reading(5.1, 100, 327.0)) == "fail"
    assert verdict(AT_LEAST, Reading(0.98, 100)) == "fail"


def test_no_value_is_no_data() -> None:
    assert verdict(AT_MOST, Reading(None, 100)) == "no-data"


def test_too_few_observations_are_no_data_and_say_how_many() -> None:
    record = judge(AT_MOST, Reading(0.1, 9, 327.0), 60, min_observations=10)
    assert record.verdict == "no-data"
    assert "9 observations" in record.reason


def test_observations_that_could_not_be_counted_are_no_data() -> None:
    assert verdict(AT_MOST, Reading(0.1, None, 327.0)) == "no-data"


def test_a_quantile_in_the_last_bucket_is_saturated_even_below_its_bound() -> None:
    roomy = a_gate("cycle", bar=100.0, count="n", histogram="h")
    assert verdict(roomy, Reading(8.192, 100, 8.192)) == "saturated"


def test_a_problem_with_the_reading_is_never_a_pass() -> None:
    assert verdict(AT_MOST, Reading(None, problem="Prometheus is gone")) == "no-data"
    assert verdict(reclaim_gate(smoke_plan()), Reading(3, problem="reclaims never paused")) == "fail"


@given(
    value=st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    observations=st.one_of(st.none(), st.integers(0, 1000)),
    ceiling=st.one_of(st.none(), st.floats(0.001, 1000)),
)
def test_a_pass_always_has_a_value_within_bound_and_enough_observations(
    value: float | None, observations: int | None, ceiling: float | None
) -> None:
    if verdict(AT_MOST, Reading(value, observations, ceiling)) == "pass":
        assert value is not None and value <= AT_MOST.bar
        assert observations is not None and observations >= 10
        assert ceiling is None or value < ceiling


def test_what_a_profile_kills_may_come_back_once_and_nothing_else_may() -> None:
    assert restart_gate(smoke_plan()).bar == 0
    assert restart_gate(shipped_plan("failover-partition", "example-fat-host")).bar == 0
    killed = restart_gate(shipped_plan("failover-leader-kill", "example-fat-host"))
    kills = [a for a in read_profile("failover-leader-kill")[0].runner_actions if a.action.startswith("kill")]
    assert killed.bar == len(kills) > 0
    assert verdict(killed, Reading(len(kills), detail="a ended and came back (1×)")) == "pass"
    assert verdict(killed, Reading(len(kills), problem="a is gone")) == "fail"
    once_more = judge(killed, Reading(len(kills) + 1, detail="a ended and came back (2×)"), 60, 10)
    assert once_more.verdict == "fail"
    assert once_more.reason.endswith(": a ended and came back (2×)")


def test_every_gate_that_dev_profiles_require_is_there_with_its_bound() -> None:
    keys = {gate.key: gate.bar for gate in [*hop_gates(smoke_plan()), reclaim_gate(smoke_plan())]}
    assert keys == {
        "loadgenPodsActive": 79,
        "shardsReportingCycle": 1,
        "shardConfigurePhaseP99Seconds": 15,
        "bootstrapSuccessRatio": 0.99,
        "operatorNodeStateUpdateP99Seconds": 5,
        "shardShortfalls": 0,
        "endToEndPodBindP50Seconds": 30,
        "shardCycleDurationP99Seconds": 5,
        "operatorRollupP99Seconds": 2,
        "operatorAckP99Seconds": 30,
        "coordinatorApplyErrorRate": 0.001,
        "operatorOutboxDropsPerSec": 0,
        "reclaimActionsDuringSoak": 5,
    }


def test_no_query_turns_absence_into_a_value() -> None:
    for query in [*(gate.query for gate in gates_for(smoke_plan())), *INFORMATIONAL.values()]:
        assert "vector(" not in query
        assert "absent(" not in query


def test_a_bar_that_the_profile_switches_off_is_measured_but_never_judged() -> None:
    plan = smoke_plan()
    slo = plan.profile.slo.model_copy(update={"bootstrap_success_ratio": None})
    without = replace(plan, profile=plan.profile.model_copy(update={"slo": slo}))
    gate = next(gate for gate in gates_for(without) if gate.key == "bootstrapSuccessRatio")
    record = judge(gate, Reading(0.1, 50), 60, 10)
    assert (record.verdict, record.value) == ("skipped", 0.1)
    assert "bootstrapSuccessRatio" not in {gate.key for gate in all_gates(without)}, "nothing is expected of it"


def test_demand_without_pods_skips_the_bind_gate_only_when_nothing_was_observed() -> None:
    plan = smoke_plan()
    load = plan.profile.load_profile.model_copy(update={"mode": "cr"})
    without = replace(plan, profile=plan.profile.model_copy(update={"load_profile": load}))
    assert [gate.key for gate in hop_gates(without) if gate.skip] == ["endToEndPodBindP50Seconds"]
    assert not any(gate.skip for gate in gates_for(plan))
    gate = next(gate for gate in gates_for(without) if gate.skip)
    assert verdict(gate, Reading(None, 0)) == "skipped"
    assert verdict(gate, Reading(None, 0, problem="Prometheus is gone")) == "no-data"
    assert verdict(gate, Reading(gate.bar + 1, 50, 900.0)) == "fail"


def test_overrides_of_the_profile_reach_their_gates() -> None:
    bars = {gate.key: gate.bar for gate in gates_for(shipped_plan("50k", "example-fat-host"))}
    assert bars["shardCycleDurationP99Seconds"] == 25
    assert bars["operatorNodeStateUpdateP99Seconds"] == 1.5


def test_every_shard_of_a_larger_fleet_must_report() -> None:
    bars = {gate.key: gate.bar for gate in gates_for(shipped_plan("50k-2shard", "example-fat-host"))}
    assert bars["shardsReportingCycle"] == 2


def test_a_window_reaches_every_rate_of_every_query() -> None:
    for query in [*(gate.windowed(60) for gate in hop_gates(smoke_plan())), *INFORMATIONAL.values()]:
        ranges = re.findall(r"\[([^\]:]+)", query.replace("{w}", "60s"))
        assert set(ranges) <= {"60s", "15s", "15m"}, query


@pytest.mark.parametrize("name", SHIPPED)
def test_every_gate_says_what_it_is_about(name: str) -> None:
    gates = gates_for(shipped_plan(name, "example-fat-host"))
    assert len({gate.key for gate in gates}) == len({gate.title for gate in gates}) == len(gates)
    for gate in gates:
        assert gate.unit and gate.component and gate.meaning.endswith("."), gate.key
        assert bool(gate.claim) == bool(gate.witness), gate.key
        assert len(gate.title) <= 36, gate.title
        assert "{w}" not in gate.windowed(60), gate.key


def test_every_witness_is_somebody_else() -> None:
    """Apart from counts that one side of BigFleet makes of the other."""
    assert [gate.key for gate in witness_gates(smoke_plan()) if not gate.witness] == ["preemptionsAtSteadyDemand"]


def test_the_informational_keys_of_the_runbook_are_there() -> None:
    wanted = {
        *("internalBindingLatencyP99Seconds", "internalBindingLatencyMaxSeconds", "shardProvisioningLatencyP99Seconds"),
        *("shardRequestBootstrapP50Seconds", "shardDrainPhaseP99Seconds", "upcomingToNodeP50Seconds"),
        *("operatorRollupListP99Seconds", "operatorRollupBuildP99Seconds", "operatorRollupEnqueueP99Seconds"),
        *(
            "shardPhaseReconcileP99Seconds",
            "shardPhase1P99Seconds",
            "shardPhase3P99Seconds",
            "shardPhaseExecuteP99Seconds",
        ),
        *("coordinatorApplyOpsPerSec", "coordinatorPendingMax", "coordinatorTermChanges15m"),
        *("loadgenPodsBoundPerSec", "loadgenPodsCreatedPerSec", "shardInventoryMinMaxRatio"),
    }
    assert wanted <= INFORMATIONAL.keys()


def test_windows_are_written_into_queries() -> None:
    gate = next(gate for gate in gates_for(smoke_plan()) if gate.key == "operatorRollupP99Seconds")
    assert "[60s]" in gate.windowed(60)
    assert not math.isnan(gate.bar)


# Functions that leave labels as they are may stand around what adds the series up.
_ADDED_UP = re.compile(r"\W*((min_over_time|max_over_time|clamp_min)\W*)*(sum|max|min|histogram_quantile)\(")


@pytest.mark.parametrize("profile", ["smoke", "5k"])
def test_every_plain_query_adds_its_series_up(profile: str) -> None:
    """The dashboard adds the verdicts of the gates: a value that kept its labels would match no other one."""
    plan = smoke_plan() if profile == "smoke" else shipped_plan(profile, "example-fat-host")
    for gate in plain_gates(plan):
        if not isinstance(gate.measure, WorstMember):
            assert _ADDED_UP.match(gate.query), gate.key
