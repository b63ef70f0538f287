"""A slower engine is noticed: measured, compared with a stored baseline, and refused by both commands that judge it."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bigfleet.engine.kernels import kernels
from bigfleet.engine.phases import credit
from tests import prevalidate
from tests.bench.engine import baseline, hot, one_shape
from tests.bench.engine.baseline import Baseline, Tolerance
from tests.bench.engine.cases import CASES
from tests.bench.engine.fleets import Shape

# Rows that do not fold keep one kernel busy for a good part of the cycle.
SHAPE = Shape("5k", clusters=2, machines=2_300, rows=388, plain_machines=150, folds=False)
CHURN = "2 % churn"
# Noise is well below this and the slow kernel well above it, whoever else uses the machine.
TOLERANCE = Tolerance(ratio=2.0, memory_ratio=100.0)


@pytest.fixture
def small_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The hot bench on a small fleet, in this process, with a baseline of its own."""
    path = tmp_path / "baseline.json"

    def measure_here(shape: Shape, cases: Sequence[str], quick: bool = False) -> dict[str, Any]:
        return one_shape.measure(shape, cases, quick)

    def read_here() -> Baseline:
        return replace(baseline.read_baseline(path), tolerance=TOLERANCE)

    monkeypatch.setattr(one_shape, "CASES", {CHURN: CASES[CHURN]})
    monkeypatch.setattr(one_shape, "_repetitions", lambda _machines, _disturbs: 1)
    monkeypatch.setattr(hot, "SHAPES", {"5k": SHAPE})
    monkeypatch.setattr(hot, "cases_of", lambda _machines: (CHURN,))
    monkeypatch.setattr(hot, "build_kernels", lambda: None)
    monkeypatch.setattr(hot, "measure_apart", measure_here)
    monkeypatch.setattr(hot, "read_baseline", read_here)
    monkeypatch.setattr(hot, "write_baseline", lambda stored: baseline.write_baseline(stored, path))


def slowed(function: Callable[..., Any], times: int) -> Callable[..., Any]:
    """The function, taking so many times its CPU time."""

    def slow(*arguments: Any) -> Any:
        began = time.process_time()
        result = function(*arguments)
        end = began + times * (time.process_time() - began)
        while time.process_time() < end:
            pass
        return result

    return slow


@pytest.mark.usefixtures("small_bench")
def test_a_kernel_twenty_times_slower_fails_bench_hot_and_prevalidate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not kernels().compiled:
        pytest.skip("plain Python is not what is measured: `make kernels`")
    assert hot.main(["5k", "--store"]) == 0
    assert hot.main(["5k"]) == 0
    slow = replace(kernels(), credit=slowed(kernels().credit, 20))
    monkeypatch.setattr(credit, "kernels", lambda: slow)
    capsys.readouterr()

    assert hot.main(["5k"]) == 1
    said = capsys.readouterr()
    assert "looks slower than the baseline, measured once more" in said.err
    assert f"regressed: 5k, {CHURN}: " in said.err

    monkeypatch.setattr(prevalidate, "checks_of", lambda read, *_module: map(read, said.out.splitlines()))
    checks = {check.name: check for check in prevalidate.hot_benches()}
    assert not checks[f"5k, {CHURN}"].passed
    assert prevalidate.run({"rung 2": prevalidate.hot_benches}, lambda _line: None) == 1
    assert json.loads(said.out.splitlines()[0])["of_baseline"]["ratio"] > TOLERANCE.ratio
