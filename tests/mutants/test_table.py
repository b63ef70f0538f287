"""The table of mutants is about the engine as it is. Whether they die is the runner's to say (`make test-mutants`)."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import PACKAGE, Mutant, NotApplicable
from tests.mutants.table import MUTANTS


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("mutants") / "bigfleet"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "api"))
    return copy


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutants_old_text_is_there_exactly_once(mutant: Mutant, sources: Path) -> None:
    before = (sources / mutant.file).read_text()
    mutant.apply(sources)
    (sources / mutant.file).write_text(before)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutants_killer_exists(mutant: Mutant) -> None:
    path, *_, test = mutant.killer.split("::")
    assert re.search(rf"def {test}\b", (PACKAGE.parent / "tests" / path).read_text())


def test_there_are_thirty_or_more_and_no_two_alike() -> None:
    assert len(MUTANTS) >= 30
    alike = [key for key, count in Counter((m.file, m.old, m.new) for m in MUTANTS).items() if count > 1]
    assert alike == []


def test_a_text_that_is_gone_is_an_error(sources: Path) -> None:
    with pytest.raises(NotApplicable, match="0 times"):
        Mutant("engine/engine.py", "no such text", "", "").apply(sources)
