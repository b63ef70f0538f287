"""A broken BigFleet must fail: each seeded defect ends in the right verdict, gate, exit code and sentence.

One of them in every `make test`; all of them in `make test-long`.
"""

from pathlib import Path

import pytest

from scaletest.judge.outcome import Outcome
from tests.smoke.checkout import Checkout
from tests.smoke.defects import DEFECTS, Defect
from tests.smoke.runs import run, shared_machine


@pytest.mark.parametrize(
    "defect", [pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.long else []) for one in DEFECTS]
)
async def test_a_broken_bigfleet_is_told_apart_from_a_good_one(defect: Defect, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, defect.mistakes) if defect.mistakes else None
    flags = ("--profile", "smoke", "--substrate", str(shared_machine(tmp_path)), *defect.flags)
    ended = await run(tmp_path / "results", *flags, meddle=defect.meddle, checkout=checkout)

    assert ended.exit_code == defect.exit_code, ended.screen
    assert ended.summary["verdict"] == Outcome([(defect.exit_code, "")]).verdict
    assert any(defect.sentence in failure["reason"] for failure in ended.summary["failures"]), ended.screen
    gates = {gate["key"]: gate for gate in ended.summary["gates"]}
    if defect.gate:
        assert gates[defect.gate]["verdict"] == defect.verdict, ended.screen
        assert gates[defect.gate].get("observations", 0) >= defect.observations
    else:
        assert gates == {}
    assert ended.summary["snapshot"]["samples"] > 0
    assert any((ended.output / "logs").iterdir())
    assert ended.leftovers() == []
