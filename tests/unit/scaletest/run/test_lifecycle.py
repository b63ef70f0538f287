"""A run that cannot even begin still ends in order: evidence, summary, teardown, exit code."""

import asyncio
import json
from pathlib import Path

import pytest

from scaletest.errors import UsageError
from scaletest.judge.judging import Soaked
from scaletest.judge.outcome import RunOutcome
from scaletest.project import PROJECT
from scaletest.report.pages import RunPages
from scaletest.run.fleet.installed import InstallOptions
from scaletest.run.journal import Event, RunJournal
from scaletest.run.lifecycle import Run, RunOptions
from scaletest.run.steps.guard import Caps
from tests.unit.plans import smoke_plan


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def ended(output: Path, kind: type[Run] = Run, cap_seconds: float = 60) -> tuple[RunOutcome, list[Event]]:
    """Run on a context without any binaries, so that kubectl is the first thing missing."""
    events: list[Event] = []
    journal = RunJournal(output / "events.jsonl", events.append)
    nothing = output / "no-such-place"
    stage = InstallOptions("run", PROJECT / "chart", bin_dir=nothing, helm=nothing / "helm", context="nowhere")
    run = kind(smoke_plan(), RunOptions(output, stage, Caps(cap_seconds, 50), RunPages()), journal)
    try:
        return asyncio.run(run.execute()), events
    finally:
        journal.close()


def test_a_failed_install_keeps_what_is_known_and_no_notes(tmp_path: Path, state: Path) -> None:
    outcome, events = ended(tmp_path)
    assert (outcome.exit_code, outcome.verdict) == (4, "incomplete")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["failures"][0]["exitCode"] == 4
    assert "kubectl" in summary["failure"]
    assert {path.name for path in tmp_path.iterdir()} >= {"plan.json", "junit.xml", "report.html", "events.jsonl"}
    assert [event.message for event in events[-2:]] == ["nothing is left behind", "incomplete"]
    assert not list(state.glob("*/stages/*"))


def test_a_summary_that_cannot_be_written_is_said_and_the_teardown_follows(tmp_path: Path) -> None:
    (tmp_path / "summary.json.partial").symlink_to("/dev/full")
    outcome, events = ended(tmp_path)
    assert (5, "the summary could not be written: No space left on device") in outcome.failures
    assert [event.message for event in events if event.phase == "teardown"][-1] == "nothing is left behind"
    assert any(event.fields.get("hint", "").startswith("the screen shows the verdict") for event in events)


def test_a_diary_that_cannot_be_written_keeps_a_run_from_passing(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    outcome, _ = ended(tmp_path)
    assert (5, "events.jsonl could not be written: No space left on device") in outcome.failures
    assert (tmp_path / "summary.json").exists()


def test_a_run_that_hits_its_cap_ends_in_order(tmp_path: Path) -> None:
    class Slow(Run):
        async def _steps(self) -> Soaked:
            await asyncio.sleep(3600)
            raise AssertionError

    outcome, events = ended(tmp_path, Slow, cap_seconds=0.01)
    assert outcome.failures == [(8, "the run hit --max-duration 0s")]
    assert json.loads((tmp_path / "summary.json").read_text())["exitCode"] == 8
    assert [event.message for event in events[-2:]] == ["nothing is left behind", "incomplete"]


def test_a_time_out_of_something_else_is_not_the_cap(tmp_path: Path) -> None:
    class Impatient(Run):
        async def _steps(self) -> Soaked:
            raise TimeoutError("nobody answered")

    outcome, _ = ended(tmp_path, Impatient)
    assert outcome.failures == [(4, "unexpected TimeoutError: nobody answered")]


def test_a_fleet_that_never_settled_has_no_ramp(tmp_path: Path) -> None:
    ended(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["ramp"] == {"seconds": 0.0, "podsPerSec": 0.0}


def test_a_run_that_is_refused_removes_nothing_because_it_has_started_nothing(tmp_path: Path) -> None:
    class Refused(Run):
        async def _steps(self) -> Soaked:
            raise UsageError("namespace mine is occupied by run run-1", hint="--namespace NAME takes another one")

    outcome, events = ended(tmp_path, Refused)
    assert (outcome.exit_code, outcome.verdict) == (2, "refused")
    assert [(event.phase, event.message) for event in events] == [
        ("failed", "namespace mine is occupied by run run-1"),
        ("teardown", "nothing is left behind"),
        ("verdict", "refused"),
    ]
