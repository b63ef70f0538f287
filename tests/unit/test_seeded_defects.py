"""The seeded defects are about BigFleet as it is; whether a run notices them is `make test-long`'s to say."""

from pathlib import Path

import pytest

from scaletest.judge.gates import Reading, all_gates, judge
from tests.mutants.mutant import PACKAGE, Mistake
from tests.smoke.defects import DEFECTS, Defect
from tests.unit.plans import smoke_plan


@pytest.mark.parametrize(
    "mistake", [mistake for defect in DEFECTS for mistake in defect.mistakes], ids=lambda m: m.name
)
def test_a_mistake_can_still_be_made(mistake: Mistake, tmp_path: Path) -> None:
    target = tmp_path / mistake.file
    target.parent.mkdir()
    target.write_text((PACKAGE / mistake.file).read_text())
    mistake.apply(tmp_path)
    compile(target.read_text(), mistake.file, "exec")


@pytest.mark.parametrize(
    "defect", [one for one in DEFECTS if one.verdict in ("no-data", "saturated")], ids=lambda one: one.name
)
def test_what_cannot_be_judged_is_still_said_like_that(defect: Defect) -> None:
    gate = next(gate for gate in all_gates(smoke_plan()) if gate.key == defect.gate)
    reading = Reading(None, 0) if defect.verdict == "no-data" else Reading(0.5, 50, 0.5)
    record = judge(gate, reading, 60, 10)
    assert record.verdict == defect.verdict
    assert defect.sentence == f"{defect.gate} is {record.verdict}: {record.reason}"
