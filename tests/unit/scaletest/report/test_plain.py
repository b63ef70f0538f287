"""What people read at the end of a run."""

from pathlib import Path

from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.judging import Judgement
from scaletest.judge.outcome import RunOutcome
from scaletest.report.screen.plain import verdict_lines
from tests.unit.plans import shipped_plan, smoke_plan


def shown(readings: dict[str, Reading], outcome: RunOutcome, output: Path = Path("results/run")) -> list[str]:
    facts = RunFacts(smoke_plan(), "run")
    gates = [judge(gate, readings.get(gate.key, Reading(None)), 60, 10) for gate in gates_for(smoke_plan())]
    facts.judgement = Judgement(gates, [])
    return verdict_lines(summarise(facts, outcome), output)


def test_gates_come_first_with_value_bound_and_observations() -> None:
    lines = shown({"shardConfigurePhaseP99Seconds": Reading(2.5, 18, 300.0)}, RunOutcome())
    line = next(line for line in lines if "configure phase" in line)
    assert "✓" in line
    assert "2.5" in line
    assert "≤ 15 s" in line
    assert "max of 18" in line, "a p99 of 18 observations is their maximum"


def test_a_p99_of_many_is_shown_as_such() -> None:
    lines = shown({"operatorRollupP99Seconds": Reading(0.1, 400, 30.0)}, RunOutcome())
    assert any("roll-up p99" in line and "n=400" in line for line in lines)


def test_what_was_not_measured_says_why() -> None:
    lines = shown({}, RunOutcome())
    assert any(line.lstrip().startswith("?") and "no-data: there is no value" in line for line in lines)


def test_the_verdict_names_its_exit_code_and_every_reason() -> None:
    outcome = RunOutcome()
    outcome.add(ExitCode.GATE_FAILED, "shardShortfalls: 3 > 0")
    outcome.add(ExitCode.LEFTOVERS, "left behind: a process")
    lines = shown({}, outcome)
    assert "NOT PASSED (exit code 1)" in lines
    assert "  shardShortfalls: 3 > 0" in lines
    assert "  left behind: a process" in lines
    assert "evidence   results/run" in lines
    assert any(line.startswith("next") and "scaletest-runner gc" in line for line in lines)


def test_logs_are_pointed_at_where_there_are_some(tmp_path: Path) -> None:
    outcome = RunOutcome([(ExitCode.GATE_FAILED, "shardShortfalls: 3 > 0")])
    assert not any("last words" in line for line in shown({}, outcome, tmp_path))
    (tmp_path / "logs").mkdir()
    assert shown({}, outcome, tmp_path)[-1].endswith("/logs has the last words of every container")


def test_a_void_verdict_says_what_to_do() -> None:
    outcome = RunOutcome()
    outcome.add(ExitCode.VOID, "the load did not come")
    lines = shown({}, outcome)
    assert "VOID (exit code 6)" in lines
    assert any(line.startswith("next") and "less to do" in line for line in lines)


def test_the_cost_stands_below_the_verdict() -> None:
    assert "cost       nothing" in shown({}, RunOutcome())


def test_a_run_that_was_refused_has_cost_nothing_whatever_it_was_estimated_at() -> None:
    facts = RunFacts(shipped_plan("50k", "example-fat-host"), "run")
    assert any(line.startswith("cost       about $") for line in verdict_lines(summarise(facts, RunOutcome()), "out"))
    occupied = summarise(facts, RunOutcome([(ExitCode.USAGE, "namespace mine is occupied by run run-1")]))
    refused = verdict_lines(occupied, "out")
    assert "REFUSED (exit code 2)" in refused
    assert "cost       nothing" in refused
