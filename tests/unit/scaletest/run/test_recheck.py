"""Old evidence keeps what is needed to judge it again, and differences are said."""

import json
from pathlib import Path
from typing import Any

import pytest

from scaletest.errors import UsageError
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.hop_gates import restart_gate
from scaletest.judge.gates.listing import gates_for
from scaletest.judge.gates.windows import SoakWindow
from scaletest.judge.judging import Judgement, Soaked
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.selfcheck.checks import check
from scaletest.judge.selfcheck.strain import Seen
from scaletest.judge.summary import Summary
from scaletest.model.documents.substrate import SelfCheck
from scaletest.report.recheck import replay_lines
from scaletest.run.inputs import inputs_document, plan_of, read_inputs
from scaletest.run.offline.recheck import Evidence, changes_between, ledger_problem, soaked_of
from scaletest.run.steps.evidence import write_json
from tests.unit.plans import shipped_plan, smoke_plan

PRESSURE = check(SelfCheck(), "cpuPressurePercent", "ok", "calm", 12.5)


def judged(value: float = 1.0) -> Judgement:
    gates = [gate for gate in gates_for(smoke_plan()) if gate.key == "operatorRollupP99Seconds"]
    return Judgement([judge(gate, Reading(value, 50, 30.0), 60, 10) for gate in gates], [PRESSURE])


def summary_of(judgement: Judgement) -> Summary:
    facts = RunFacts(smoke_plan(), "run", judgement=judgement)
    restarts = {"shard-0/shard": 2}
    facts.soak_start = 100.0
    facts.soaked = Soaked(SoakWindow(100.0, 160.0), Reading(2.0), Seen(12.5, ((110.0, 150.0),), True, restarts), "cut")
    return summarise(facts, judgement.outcome())


@pytest.mark.parametrize(
    ("profile", "substrate"), [("smoke", "embedded"), ("dev-50", "embedded"), ("cost-routing-5k", "example-fat-host")]
)
def test_a_plan_can_be_made_again_from_its_inputs(profile: str, substrate: str) -> None:
    plan = shipped_plan(profile, substrate)
    again = plan_of(json.loads(json.dumps(inputs_document(plan))))
    assert again.profile == plan.profile
    assert again.values("run") == plan.values("run")
    assert [gate.bar for gate in gates_for(again)] == [gate.bar for gate in gates_for(plan)]


def test_a_folder_without_inputs_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_inputs(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(UsageError, match="does not tell what the run was made from"):
        read_inputs(tmp_path)


def test_the_soak_is_remembered() -> None:
    ended = Reading(2, detail="shard-0/shard ended and came back (2×)", component="shard")
    record = judge(restart_gate(smoke_plan()), ended, 60, 10)
    soaked = soaked_of(summary_of(Judgement([record], [PRESSURE])), smoke_plan())
    assert soaked.window == SoakWindow(100.0, 160.0, smoke_plan().moves)
    assert soaked.seen == Seen(12.5, ((110.0, 150.0),), True, {"shard-0/shard": 2})
    assert (soaked.restarts, soaked.cut_short) == (ended, "cut")


def test_what_nobody_knew_then_is_not_known_today() -> None:
    blind = judge(restart_gate(smoke_plan()), Reading(None, problem="the Kubernetes API does not answer"), 60, 10)
    soaked = soaked_of(summary_of(Judgement([blind], [PRESSURE])), smoke_plan())
    assert (soaked.restarts.value, soaked.restarts.problem) == (None, "the Kubernetes API does not answer")


def test_a_run_that_never_soaked_cannot_be_judged() -> None:
    with pytest.raises(UsageError, match="never soaked"):
        soaked_of(summarise(RunFacts(smoke_plan(), "run"), RunOutcome()), smoke_plan())
    with pytest.raises(UsageError, match="did not hold its soak"):
        soaked_of(summarise(RunFacts(smoke_plan(), "run", soak_start=100.0), RunOutcome()), smoke_plan())


def test_the_same_verdict_changes_nothing() -> None:
    assert changes_between(summary_of(judged()), judged(), RunOutcome()) == []


def test_what_is_judged_otherwise_is_said() -> None:
    worse = judged(3.0)
    changes = changes_between(summary_of(judged()), worse, worse.outcome())
    assert changes == ["roll-up p99: pass → fail", "verdict: passed → failed"]
    gone = changes_between(summary_of(judged()), Judgement([], [PRESSURE]), RunOutcome())
    assert gone == ["roll-up p99: not a gate any more (was pass)"]
    moved = changes_between(summary_of(judged()), judged(1.5), RunOutcome())
    assert moved == ["roll-up p99: 1 → 1.5"]


def test_a_moved_bar_and_a_new_gate_are_said() -> None:
    summary = summary_of(judged())
    moved = summary.model_copy(update={"gates": (summary.gates[0].model_copy(update={"bar": 9.0}),)})
    assert changes_between(moved, judged(), RunOutcome()) == ["roll-up p99: bar 9 → 2"]
    fewer = summary.model_copy(update={"gates": ()})
    assert changes_between(fewer, judged(), RunOutcome()) == ["roll-up p99: new gate, pass"]


@pytest.mark.parametrize(
    "edit",
    [
        {"windows": {}},
        {"windows": None},
        {"windows": {"soakStart": "abc", "soakEnd": 5.0}},
        {"gates": 7},
        {"selfCheck": None},
        {"restarts": None},
        {"target": "x"},
        {"restarts": [1]},
    ],
    ids=str,
)
def test_a_summary_that_somebody_has_edited_is_refused_in_a_sentence(edit: dict[str, object], tmp_path: Path) -> None:
    plan = smoke_plan()
    write_json(tmp_path / "summary.json", summary_of(judged()).document() | edit)
    write_json(tmp_path / "plan.json", {"inputs": inputs_document(plan)})
    with pytest.raises(UsageError, match=r"summary\.json is not as a run writes it"):
        Evidence.read(tmp_path)


@pytest.mark.parametrize("end", [50.0, 1e308])
def test_a_soak_that_cannot_be_is_refused(end: float, tmp_path: Path) -> None:
    document: dict[str, Any] = summary_of(judged()).document()
    document["windows"] |= {"soakEnd": end}
    write_json(tmp_path / "summary.json", document)
    write_json(tmp_path / "plan.json", {"inputs": inputs_document(smoke_plan())})
    with pytest.raises(UsageError, match="which cannot be"):
        Evidence.read(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"windows": {"soakStart": "x", "soakEnd": 5}}', '{"windows": null}'])
def test_a_snapshot_is_served_whatever_became_of_its_summary(text: str, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(text)
    assert replay_lines(tmp_path, "http://here")[0] == f"serving {tmp_path} at http://here (Ctrl-C ends it)"
    assert "query_range" not in "".join(replay_lines(tmp_path, "http://here"))


def test_what_is_served_comes_with_a_query_over_the_soak(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", summary_of(judged()).document())
    assert (
        "curl -sG http://here/api/v1/query_range -d start=100 -d end=160" in replay_lines(tmp_path, "http://here")[-1]
    )


def test_a_folder_that_lost_its_snapshot_is_refused_too(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", summary_of(judged()).document())
    write_json(tmp_path / "plan.json", {"inputs": inputs_document(smoke_plan())})
    with pytest.raises(UsageError, match=r"holds no prometheus-snapshot\.tar\.gz"):
        Evidence.read(tmp_path)


@pytest.mark.parametrize(
    ("left", "problem"),
    [
        (b'{"time":1.0}\n{"time":2.0}\n', ""),
        (b'{"time":1.0}\n', "ledger.jsonl has 1 of the 2 lines that were kept"),
        (b'{"time":1.0}\n{"time":', "line 2 is damaged: it is cut off"),
        (None, "ledger.jsonl cannot be read: No such file or directory"),
    ],
)
def test_a_ledger_that_is_not_what_was_kept_is_said(left: bytes | None, problem: str, tmp_path: Path) -> None:
    if left is not None:
        (tmp_path / "ledger.jsonl").write_bytes(left)
    summary = summary_of(judged())
    kept = summary.model_copy(update={"ledger": {"lines": 2}})
    said = ledger_problem(kept, tmp_path)
    assert problem in said if problem else said == ""
    assert ledger_problem(summary.model_copy(update={"ledger": {}}), tmp_path) == "", "older evidence has no ledger"
