"""The catalogue of mistakes is about BigFleet as it is; whether a run notices them is `make test-long`'s to say."""

import ast
import shutil
from pathlib import Path

import pytest

from scaletest.judge.gates.gate import Reading, judge
from scaletest.judge.gates.listing import all_gates
from tests.mutants.mutant import PACKAGE
from tests.smoke.mistakes import CATALOGUE, Entry
from tests.unit.plans import shipped_plan, smoke_plan

MISTAKEN = [entry for entry in CATALOGUE if entry.mistakes]
# What the mistakes that once passed are called here, in the order in which they were found.
ONCE_PASSED = (
    "roll-ups of one cluster are swallowed",
    "the cycle hangs after fifteen losses",
    "half of the losses are not noticed",
    "losses are noticed late",
    "half of the Bootstraps are never announced",
    "demand is rolled up a fifth too small",
    "requests outlive their Pods",
    "a tenth of the Nodes vanishes after joining",
    "nothing is acknowledged, although it is counted",
    "every second report is refused",
    "no Bootstraps for the first three minutes of a ten-minute soak",
    "a session is redialled every ten seconds",
    "the shard's pod is deleted in the soak",
    "one of two load-drivers stops in mid-soak",
)


@pytest.mark.parametrize("entry", MISTAKEN, ids=lambda entry: entry.slug)
def test_a_mistake_can_still_be_made(entry: Entry, tmp_path: Path) -> None:
    """Each text is there exactly once, and what comes of it is Python that was changed."""
    files = {mistake.file for mistake in entry.mistakes}
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / file, tmp_path / file)
    for mistake in entry.mistakes:
        mistake.apply(tmp_path)
    for file in files:
        assert ast.dump(ast.parse((tmp_path / file).read_text())) != ast.dump(ast.parse((PACKAGE / file).read_text()))


def test_entries_can_be_told_apart() -> None:
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)
    assert len({entry.slug for entry in CATALOGUE}) == len(CATALOGUE)


def test_the_catalogue_is_long_and_goes_everywhere() -> None:
    assert len(MISTAKEN) >= 45
    assert {entry.component for entry in MISTAKEN} >= {"shard", "operator", "pod-controller", "coordinator", "provider"}
    folders = {mistake.file.rpartition("/")[0] for entry in MISTAKEN for mistake in entry.mistakes}
    assert folders >= {"shard", "engine", "operator", "podcontroller", "coordinator", "provider/kit", "security"}


def test_what_once_passed_is_in_it() -> None:
    assert {entry.name for entry in CATALOGUE}.issuperset(ONCE_PASSED)


def test_it_asks_for_verdicts_of_every_kind() -> None:
    assert {code for entry in CATALOGUE for code in entry.exit_codes} == {0, 1, 3, 5, 6}


def test_three_short_ones_run_every_time_and_can_be_made_together(tmp_path: Path) -> None:
    always = [entry for entry in CATALOGUE if not entry.long]
    assert len(always) == 3
    assert all(entry.mistakes and not entry.meddle and not entry.flags for entry in always)
    shutil.copytree(PACKAGE, tmp_path / "bigfleet")
    for mistake in (mistake for entry in always for mistake in entry.mistakes):
        mistake.apply(tmp_path / "bigfleet")
        ast.parse((tmp_path / "bigfleet" / mistake.file).read_text())
    assert all(entry.seconds is not None and entry.seconds <= 70 and not entry.alone for entry in always)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.slug)
def test_what_is_expected_can_come(entry: Entry) -> None:
    known = {gate.key for gate in all_gates(shipped_plan("smoke"))}
    assert entry.gates <= known
    fails = set(entry.exit_codes) & {1, 5}
    assert bool(entry.gates) == bool(fails), "a failed run names the gate; of the others none is expected to fail"
    assert bool(entry.component) == bool(entry.gates or entry.mistakes)
    assert entry.needs == "" or entry.seconds is None, "only the profile's own soak steps and sheds"


@pytest.mark.parametrize(
    "entry", [one for one in CATALOGUE if one.sentence and one.verdict != "fail"], ids=lambda one: one.slug
)
def test_what_cannot_be_judged_is_still_said_like_that(entry: Entry) -> None:
    [key] = entry.gates
    gate = next(gate for gate in all_gates(smoke_plan()) if gate.key == key)
    reading = Reading(None, 0) if entry.verdict == "no-data" else Reading(0.5, 50, 0.5)
    record = judge(gate, reading, 60, 10)
    assert record.verdict == entry.verdict
    assert entry.sentence == f"{key} is {record.verdict}: {record.reason}"
