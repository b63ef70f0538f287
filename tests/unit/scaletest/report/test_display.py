"""Watching a run: on a small terminal, in a log, and by a machine."""

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.outcome import RunOutcome
from scaletest.report.margins import margin_of, percent
from scaletest.report.screen.display import JsonView, PlainView
from scaletest.report.screen.live import Heard, LiveView, lines
from scaletest.run.journal import Event
from scaletest.run.steps.guard import DEFAULT_CAPS
from scaletest.run.steps.overview import FleetFigures
from tests.unit.plans import shipped_plan, smoke_plan

FLEET: FleetFigures = {
    "active": {"kwok-cluster-0": 40.0, "kwok-cluster-1": 20.0},
    "machines": {"Configured": 65.0, "Idle": 30.0},
    "bound": 60.0,
    "shortfalls": 2.0,
    "lost": 3.0,
}
GATES = {"shardConfigurePhaseP99Seconds": 2.5, "operatorRollupP99Seconds": 3.0, "shardShortfalls": 0.0}


def soaking(profile: str = "smoke", substrate: str = "embedded") -> Heard:
    heard = Heard(shipped_plan(profile, substrate))
    heard.hear(Event(0, 1.0, "host", "up"), 1.0)
    heard.hear(Event(0, 10.0, "install", "every pod is Ready"), 10.0)
    heard.hear(Event(0, 40.0, "settle", "clusters 2/2", {"fleet": FLEET}), 40.0)
    heard.hear(Event(0, 80.0, "soak", "holding for 1m00s"), 80.0)
    heard.hear(Event(0, 95.0, "soak", "45s left", {"fleet": FLEET, "gates": GATES}), 95.0)
    heard.hear(Event(0, 96.0, "gate", "not for the screen"), 96.0)
    return heard


def screen(heard: Heard, width: int = 80, height: int = 23, now: float = 100.0) -> str:
    return "\n".join(text.plain for text in lines(heard, width, height, now))


@pytest.mark.parametrize(("width", "height"), [(80, 23), (200, 60), (40, 10), (20, 3), (120, 33)])
def test_the_live_view_fits_its_terminal(width: int, height: int) -> None:
    shown = lines(soaking(), width, height, 100.0)
    assert 0 < len(shown) <= height
    assert all(text.cell_len <= width for text in shown)


def test_the_live_view_shows_where_the_run_stands() -> None:
    shown = screen(soaking())
    assert "smoke on embedded   1m40s of about 4m" in shown
    assert "✓ settle  ▸ soak" in shown
    assert "2m2" in shown
    assert "kwok-cluster-1" in shown
    assert "20/40" in shown
    assert "Pods bound 60/80 · shortfalls 2 · machines lost 3" in shown
    assert "Configured 65 · Idle 30" in shown


def test_a_run_that_ends_early_does_not_claim_the_steps_that_it_left_out() -> None:
    heard = Heard(smoke_plan())
    for second, step in enumerate(("host", "install", "evidence", "teardown")):
        heard.hear(Event(0, second, step, "…"), second)
    assert "✓ install  · settle  · soak  ✓ evidence  ▸ teardown" in screen(heard)


def test_each_gate_has_its_value_bound_and_margin() -> None:
    shown = screen(soaking())
    assert "✓ configure phase p" in shown
    assert "2.5≤15     83%" in shown
    assert "✗ roll-up p99" in shown
    assert "-50%" in shown
    assert "· Pod bind p50" in shown, "not measured yet"


def test_the_last_events_stand_below_and_the_diary_only_ones_do_not() -> None:
    shown = screen(soaking())
    assert shown.rstrip().endswith("soak      45s left")
    assert "not for the screen" not in shown


def test_of_many_clusters_the_emptiest_are_shown() -> None:
    heard = soaking()
    heard.fleet = FLEET | {"active": {f"kwok-cluster-{n}": float(n) for n in range(41)}}
    shown = screen(heard)
    assert "the emptiest 3 of 41 clusters; 1 is full" in shown
    assert "kwok-cluster-40" not in shown


def test_a_run_without_predictions_shows_the_time_alone() -> None:
    assert " of about " not in screen(soaking("5k", "example-fat-host"))


@pytest.mark.parametrize(
    ("value", "bound", "least", "margin"),
    [(2.5, 5.0, False, 0.5), (10.0, 5.0, False, -1.0), (1.0, 0.5, True, 1.0), (0, 0, False, 1.0), (3, 0, False, -1.0)],
)
def test_margins_are_shares_of_the_bar(value: float, bound: float, least: bool, margin: float) -> None:
    assert margin_of(value, bound, least) == pytest.approx(margin)
    assert percent(None) == ""


def test_hints_are_still_there_when_the_live_view_is_gone() -> None:
    stream = io.StringIO()
    view = LiveView(smoke_plan(), stream)
    view.show(Event(10.0, 61.0, "failed", "not steady", {"hint": "look at the load-driver"}))
    outcome = RunOutcome([(ExitCode.NOT_STEADY, "not steady")])
    view.verdict(summarise(RunFacts(smoke_plan(), "run"), outcome), "results/run")
    assert stream.getvalue().splitlines()[-1] == "hint       look at the load-driver"


def test_machines_get_an_object_on_each_line() -> None:
    stream = io.StringIO()
    view = JsonView(smoke_plan(), DEFAULT_CAPS, stream)
    view.header("run")
    view.show(Event(10.0, 1.0, "soak", "holding", {"soakStart": 10.0}))
    view.line("for people")
    view.verdict(summarise(RunFacts(smoke_plan(), "run"), RunOutcome()), "results/run")
    documents = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [document["phase"] for document in documents] == ["plan", "soak", "verdict"]
    assert documents[0]["plan"]["profile"] == "smoke"
    assert documents[1]["soakStart"] == 10.0
    assert documents[2]["results"] == "results/run"


def test_logs_get_a_line_for_each_event() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.show(Event(10.0, 61.0, "failed", "no way", {"hint": "try again"}))
    assert stream.getvalue().splitlines() == ["  1m01s  failed    no way", f"{'':>7}  {'':<9} hint: try again"]


def test_a_crash_gives_the_terminal_back(tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text(
        "import sys\n"
        "from scaletest.report.screen.live import LiveView\n"
        "from scaletest.run.journal import Event\n"
        "from tests.unit.plans import smoke_plan\n"
        "view = LiveView(smoke_plan(), sys.stderr)\n"
        "with view.watching():\n"
        "    view.show(Event(0, 1.0, 'soak', 'holding'))\n"
        "    raise RuntimeError('crashed')\n"
    )
    ours, theirs = pty.openpty()
    environ = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run(
        [sys.executable, script], stdin=theirs, stderr=theirs, stdout=theirs, env=environ, check=False
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        said += chunk
    os.close(ours)
    assert ended.returncode == 1
    assert b"RuntimeError: crashed" in said
    assert said.rindex(b"\x1b[?25h") > said.rindex(b"\x1b[?25l"), "the cursor is visible again"
