"""Ctrl-C, SIGTERM and SIGKILL in every phase: evidence is kept where somebody can keep it, and nothing is left."""

import asyncio
import json
import signal
from typing import Any

import pytest

from tests.integration.scaletest.run.runner_cli import Command, Runner
from tests.patience import eventually
from tests.smoke.quick import start_quick_run

pytestmark = [pytest.mark.smoke, pytest.mark.long]

# The steps that start something (docs/reference/harness.md#results-folder), and before them the plan on the screen.
PHASES = ("plan", "host", "install", "settle", "soak", "evidence", "teardown")
_WITH_SUMMARY = PHASES[1:]
_WITH_PROMETHEUS = PHASES[3:]
_JUDGED = PHASES[5:]


async def brought_to(runner: Runner, phase: str) -> tuple[Command, list[str]]:
    """A run that has come so far, and the ids of its hosts."""
    run = await start_quick_run(runner)
    if phase == "plan":
        await eventually(lambda: "1 cluster" in run.screen, 60)
        return run, runner.hosts()
    # Prometheus is Ready before its first scrape; without that there is nothing to keep.
    await runner.reached(phase, "reclaimed 0" if phase == "settle" else "")
    return run, await eventually(runner.hosts, 60)


async def nothing_is_left(runner: Runner, ids: list[str]) -> None:
    await runner.assert_nothing_is_left(ids)
    assert "nothing is left behind" in await runner("gc")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_run_that_is_told_to_end_keeps_its_evidence(runner: Runner, phase: str, number: signal.Signals) -> None:
    run, ids = await brought_to(runner, phase)
    run.send(number)
    screen = await run.end(130)
    assert "Traceback" not in screen
    await nothing_is_left(runner, ids)
    if phase not in _WITH_SUMMARY:
        assert not (runner.results / "summary.json").exists()
        return
    assert "nothing is left behind" in screen
    summary: dict[str, Any] = json.loads((runner.results / "summary.json").read_text())
    assert (summary["exitCode"], summary["verdict"]) == (130, "incomplete")
    assert "interrupted" in summary["failure"]
    kept = {path.name for path in runner.results.iterdir()}
    assert kept >= {"plan.json", "rendered-values.yaml", "events.jsonl", "junit.xml", "report.html"}
    assert not [name for name in kept if name.endswith(".partial")]
    assert bool(summary["snapshot"].get("samples")) == (phase in _WITH_PROMETHEUS)
    assert bool(summary["gates"]) == (phase in _JUDGED)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_run_that_is_killed_leaves_its_diary_and_nothing_else(runner: Runner, phase: str) -> None:
    run, ids = await brought_to(runner, phase)
    run.send(signal.SIGKILL)
    await run.end(-signal.SIGKILL)
    await nothing_is_left(runner, ids)
    if phase in _WITH_SUMMARY:
        assert phase in {event["phase"] for event in runner.events()}
        assert (runner.results / "plan.json").exists()


@pytest.mark.parametrize("phase", ["settle", "evidence"])
async def test_a_second_ctrl_c_ends_it_at_once(runner: Runner, phase: str) -> None:
    run, ids = await brought_to(runner, phase)
    run.send(signal.SIGINT)
    await eventually(lambda: "again to force" in run.screen, 60)
    await eventually(lambda: "removing the release" in run.screen, 60)
    await asyncio.sleep(1)  # signals closer together are one Ctrl-C, and evidence may be kept that fast
    run.send(signal.SIGINT)
    screen = await run.end(130)
    assert "forced: tearing down at once" in screen
    assert "Traceback" not in screen
    summary = json.loads((runner.results / "summary.json").read_text())
    assert "interrupted twice" in [failure["reason"] for failure in summary["failures"]]
    await nothing_is_left(runner, ids)
