"""The score of the harness: which ends of a run are right, and what is counted of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.smoke import score
from tests.smoke.mistakes.entry import Entry
from tests.smoke.mistakes.judging import judged

WRONG_DEMAND = Entry("wrong demand", "shard", gates=frozenset({"demandHeld", "uncoveredSeconds"}))
FINE = Entry("nothing is wrong", "", (0,))
VOID = Entry("no load", "", (6,), sentence="load did not come")
STUCK = Entry("stuck", "shard", (3,))


def gate(key: str, verdict: str = "fail", **rest: Any) -> dict[str, Any]:
    return {"key": key, "verdict": verdict, **rest}


def summary(*gates: dict[str, Any], reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"gates": list(gates), "failures": [{"exitCode": 1, "reason": reason} for reason in reasons]}


def test_the_right_code_gate_and_component_are_right() -> None:
    result = judged(WRONG_DEMAND, 1, summary(gate("demandHeld", component="shard"), gate("other", "pass")))
    assert result.right
    assert result.problems == ()
    assert (result.gates, result.components) == (("demandHeld",), ("shard",))


def test_a_mistake_that_passes_is_wrong_in_every_respect() -> None:
    result = judged(WRONG_DEMAND, 0, summary(gate("demandHeld", "pass", component="shard")))
    assert (result.verdict_right, result.gate_right, result.component_right) == (False, False, False)
    assert result.problems[0] == "exit code 0, not 1"


def test_another_gate_is_not_the_right_one() -> None:
    result = judged(WRONG_DEMAND, 1, summary(gate("shardShortfalls", component="shard")))
    assert (result.verdict_right, result.gate_right, result.component_right) == (True, False, False)
    assert "not passed: shardShortfalls" in result.problems[0]


def test_a_gate_that_could_not_be_judged_has_not_failed() -> None:
    assert not judged(WRONG_DEMAND, 5, summary(gate("demandHeld", "no-data", component="shard"))).gate_right


def test_whom_other_gates_blame_does_not_count() -> None:
    found = summary(gate("demandHeld", component="operator"), gate("cycleGapSeconds", component="shard"))
    result = judged(WRONG_DEMAND, 1, found)
    assert not result.component_right
    assert result.problems == ("blames operator, not shard",)


def test_the_engine_is_the_shard() -> None:
    assert judged(WRONG_DEMAND, 1, summary(gate("uncoveredSeconds", component="engine"))).right


def test_a_gate_that_blames_nobody_is_said() -> None:
    assert judged(WRONG_DEMAND, 1, summary(gate("demandHeld"))).problems == ("blames nobody, not shard",)


def test_too_few_observations_are_not_the_expected_failure() -> None:
    entry = Entry("few", "shard", gates=frozenset({"ratio"}), observations=30)
    assert not judged(entry, 1, summary(gate("ratio", observations=29, component="shard"))).gate_right
    assert judged(entry, 1, summary(gate("ratio", observations=30, component="shard"))).right


def test_a_sentence_that_is_not_said_makes_the_verdict_wrong() -> None:
    assert judged(VOID, 6, summary(reasons=("the load did not come: 3 of 40 deletions",))).right
    assert not judged(VOID, 6, summary(reasons=("CPU pressure 71 % is above 60 %",))).verdict_right


def test_a_void_run_may_have_failed_gates() -> None:
    assert judged(VOID, 6, summary(gate("bind"), reasons=("the load did not come",))).right


def test_a_fleet_that_never_settles_needs_no_gate() -> None:
    assert judged(STUCK, 3, summary()).right


def test_a_good_run_has_no_failed_gate() -> None:
    assert judged(FINE, 0, summary(gate("demandHeld", "pass"), gate("bind", "skipped"))).right
    assert not judged(FINE, 1, summary(gate("demandHeld"))).right


def test_a_run_without_a_summary_is_wrong() -> None:
    assert not judged(WRONG_DEMAND, 4, {}).right


def scored(entry: Entry, exit_code: int, found: dict[str, Any]) -> score.Scored:
    return score.Scored(entry, judged(entry, exit_code, found), 200.0)


def test_the_sentence_counts_what_is_right() -> None:
    all_right = scored(WRONG_DEMAND, 1, summary(gate("demandHeld", component="shard")))
    other_gate = scored(WRONG_DEMAND, 1, summary(gate("bind", component="shard")))
    passed = scored(WRONG_DEMAND, 0, summary())
    assert score.sentence([all_right, other_gate, passed]) == (
        "2 of 3: verdict right; 1 of 3: right gate; 1 of 3: right component"
    )


def test_the_page_has_a_row_for_each() -> None:
    page = score.table([scored(FINE, 0, summary()), scored(WRONG_DEMAND, 0, summary())])
    assert "| nothing is wrong | – | 0 | 0 | – | – | yes |" in page
    assert "exit code 0, not 1" in page


def ended(directory: Path, version: str, exit_code: int, found: dict[str, Any]) -> None:
    (directory / "results").mkdir(parents=True)
    (directory / "results" / "summary.json").write_text(json.dumps(found))
    (directory / "ended.json").write_text(json.dumps({"version": version, "exitCode": exit_code, "seconds": 190}))


def test_what_has_run_is_judged_by_what_is_expected_now(tmp_path: Path) -> None:
    version = score.version_of(WRONG_DEMAND, "code")
    ended(tmp_path, version, 1, summary(gate("cycleGapSeconds", component="shard")))
    known = score.earlier(WRONG_DEMAND, tmp_path, version)
    assert known
    assert not known.judged.right
    other = Entry(WRONG_DEMAND.name, "shard", gates=frozenset({"cycleGapSeconds"}))
    assert score.version_of(other, "code") == version
    judged_anew = score.earlier(other, tmp_path, version)
    assert judged_anew
    assert judged_anew.judged.right


def test_other_sources_are_run_again(tmp_path: Path) -> None:
    ended(tmp_path, score.version_of(FINE, "code"), 0, summary())
    assert score.earlier(FINE, tmp_path, score.version_of(FINE, "other code")) is None
    assert score.earlier(FINE, tmp_path / "nowhere", score.version_of(FINE, "code")) is None


async def test_what_ran_before_stays_in_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "CATALOGUE", [FINE, WRONG_DEMAND])
    monkeypatch.setattr(score, "code_version", lambda: "code")
    ended(tmp_path / FINE.slug, score.version_of(FINE, "code"), 0, summary())
    ended(tmp_path / WRONG_DEMAND.slug, score.version_of(WRONG_DEMAND, "code"), 0, summary())
    assert await score.score([FINE], 1, tmp_path, again=False)
    kept = json.loads((tmp_path / "score.json").read_text())
    assert kept["score"] == "1 of 2: verdict right; 1 of 2: right gate; 1 of 2: right component"
    assert [one["name"] for one in kept["entries"]] == ["nothing is wrong", "wrong demand"]


async def test_runs_go_side_by_side_but_for_those_that_take_whole_cores() -> None:
    running: list[str] = []
    most: dict[str, int] = {}

    async def play_one(entry: Entry) -> None:
        running.append(entry.name)
        most[entry.name] = len(running)
        await asyncio.sleep(0)
        running.remove(entry.name)

    entries = [Entry(f"{number}", "") for number in range(4)]
    greedy = [Entry("greedy", "", alone=True), Entry("greedier", "", alone=True)]
    await score.play_all([*greedy, *entries], 2, play_one)
    assert len(most) == 6
    assert most["greedy"] == most["greedier"] == 1
    assert max(most.values()) == 2


def test_names_choose() -> None:
    assert len(score.chosen([])) > 45
    assert [entry.name for entry in score.chosen(["nothing is wrong"])] == ["nothing is wrong"]
    assert len(score.chosen(["load-driver"])) == 2
    assert score.chosen(["no such thing"]) == []


def test_it_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main(["--list", "redialled"]) == 0
    assert "sessionsRedialled" in capsys.readouterr().out
