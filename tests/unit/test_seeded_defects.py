"""The seeded defects are about BigFleet as it is; whether a run notices them is `make test-long`'s to say."""

from pathlib import Path

import pytest

from tests.mutants.mutant import PACKAGE, Mistake
from tests.smoke.defects import DEFECTS


@pytest.mark.parametrize(
    "mistake", [mistake for defect in DEFECTS for mistake in defect.mistakes], ids=lambda m: m.name
)
def test_a_mistake_can_still_be_made(mistake: Mistake, tmp_path: Path) -> None:
    target = tmp_path / mistake.file
    target.parent.mkdir()
    target.write_text((PACKAGE / mistake.file).read_text())
    mistake.apply(tmp_path)
    compile(target.read_text(), mistake.file, "exec")
