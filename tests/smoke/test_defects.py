"""A broken BigFleet must fail, and a good one in bad company must not: every entry of the catalogue, in a real run.

Three of them, which strain cannot disturb, in every `make test`, in one run; all of them in `make test-long`, each in
its own. `python -m tests.smoke.score` runs the same ones, two at a time, and counts.
"""

import asyncio
from pathlib import Path

import pytest

from scaletest.judge.outcome import RunOutcome
from tests.smoke.mistakes import CATALOGUE, Entry
from tests.smoke.mistakes.judging import judged
from tests.smoke.mistakes.running import run_entry
from tests.smoke.runs import FinishedRun

ALWAYS = [entry for entry in CATALOGUE if not entry.long]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """All of their mistakes in one checkout: no gate of one looks at what another does."""
    mistakes = tuple(mistake for entry in ALWAYS for mistake in entry.mistakes)
    seconds = max(entry.seconds or 0 for entry in ALWAYS)
    everything = Entry("several mistakes at once", "", mistakes=mistakes, seconds=seconds)
    return asyncio.run(run_entry(everything, tmp_path_factory.mktemp("together")))


@pytest.mark.parametrize("entry", ALWAYS, ids=lambda entry: entry.slug)
def test_mistakes_that_are_made_together_are_told_apart(entry: Entry, together: FinishedRun) -> None:
    _assert_judged_rightly(entry, together)


@pytest.mark.long
@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
async def test_a_run_is_judged_by_what_is_wrong(entry: Entry, tmp_path: Path) -> None:
    _assert_judged_rightly(entry, await run_entry(entry, tmp_path))


def _assert_judged_rightly(entry: Entry, ended: FinishedRun) -> None:
    assert judged(entry, ended.exit_code, ended.summary).problems == (), ended.screen
    failures = [(failure["exitCode"], failure["reason"]) for failure in ended.summary["failures"]]
    assert ended.summary["verdict"] == RunOutcome(failures).verdict
    assert ended.summary["snapshot"]["samples"] > 0
    assert ended.exit_code == 0 or any((ended.output / "logs").iterdir())
    assert ended.leftovers() == []
