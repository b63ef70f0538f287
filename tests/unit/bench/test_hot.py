"""The hot benches' own judgement: bars, baseline, regressions, and what is said about them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine import bars, hot
from tests.bench.engine.bars import Bar, bar_of, memory_bar
from tests.bench.engine.baseline import (
    STORED,
    Baseline,
    Comparison,
    Round,
    ShapeFigures,
    Timing,
    Tolerance,
    read_baseline,
    write_baseline,
)
from tests.bench.engine.cases import cases_of
from tests.bench.engine.fleets import SHAPES

RAW = {"machines": 22_500, "need_rows": 7_760}


def timing(*ms: float, kernel_ms: float = 20.0) -> Timing:
    return Timing(tuple(Round(one, one, kernel_ms) for one in ms))


def figures(memory: float = 200.0, **ms: float) -> ShapeFigures:
    return ShapeFigures({case: timing(one) for case, one in ms.items()}, memory, {"date": "2026-01-01"})


def stored(tolerance: Tolerance | None = None, memory: float = 200.0, **ms: float) -> Baseline:
    return Baseline({"5k": figures(memory, **ms)}, tolerance or Tolerance())


def line(**changes: Any) -> hot.Line:
    plain = hot.Line("5k", "steady", 1.0, "ms", Bar(2, "ms"), Comparison(1.0, regressed=False), 0.9, 0.13)
    return replace(plain, **changes)


def test_the_figure_is_the_best_of_the_medians() -> None:
    assert timing(3.0, 2.0, 4.0).best_ms == 2.0
    assert timing(3.0, 2.0, 4.0).spread_ms == (2.0, 4.0)


def test_a_slower_machine_is_not_a_slower_engine() -> None:
    compared = stored(steady=10.0).compare_time("5k", "steady", timing(30.0, kernel_ms=60.0))
    assert compared == Comparison(1.0, regressed=False)


def test_a_faster_machine_does_not_hide_a_slower_engine() -> None:
    compared = stored(steady=10.0).compare_time("5k", "steady", timing(10.0, kernel_ms=10.0))
    assert compared == Comparison(2.0, regressed=True)


@pytest.mark.parametrize(("ms", "regressed"), [(14.9, False), (15.1, True)])
def test_a_regression_is_more_than_the_stored_tolerance(ms: float, regressed: bool) -> None:
    compared = stored(Tolerance(ratio=1.5), steady=10.0).compare_time("5k", "steady", timing(ms))
    assert compared is not None
    assert compared.regressed is regressed


def test_a_difference_that_no_clock_can_tell_is_no_regression() -> None:
    compared = stored(Tolerance(least_ms=0.3), steady=0.1).compare_time("5k", "steady", timing(0.35))
    assert compared is not None
    assert compared.ratio == pytest.approx(3.5)
    assert compared.regressed is False


def test_waiting_for_a_core_is_not_a_slower_engine() -> None:
    waited = Timing((Round(ms=90.0, cpu_ms=10.0, kernel_ms=20.0),))
    assert stored(steady=10.0).compare_time("5k", "steady", waited) == Comparison(1.0, regressed=False)
    assert waited.best_ms == 90.0


def test_one_good_round_is_enough() -> None:
    compared = stored(steady=10.0).compare_time("5k", "steady", timing(40.0, 41.0, 11.0))
    assert compared is not None
    assert compared.ratio == pytest.approx(1.1)
    assert compared.regressed is False


def test_what_is_not_stored_is_not_compared() -> None:
    assert stored(steady=1.0).compare_time("5k", "cold", timing(1.0)) is None
    assert stored(steady=1.0).compare_time("50k", "steady", timing(1.0)) is None
    assert stored(steady=1.0).compare_memory("50k", 1.0) is None


@pytest.mark.parametrize(("now", "regressed"), [(229.0, False), (231.0, True)])
def test_memory_has_a_tolerance_of_its_own(now: float, regressed: bool) -> None:
    compared = stored(memory=200.0).compare_memory("5k", now)
    assert compared is not None
    assert compared.regressed is regressed


def test_a_baseline_survives_its_file_and_keeps_the_shapes_that_were_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    old = Baseline({"5k": figures(steady=1.0), "50k": figures(steady=3.0)}, Tolerance(ratio=1.7))
    write_baseline(old.replaced({"5k": figures(steady=0.5)}), path)
    new = read_baseline(path)
    assert new.tolerance.ratio == 1.7
    assert (new.shapes["5k"].timings["steady"].best_ms, new.shapes["50k"].timings["steady"].best_ms) == (0.5, 3.0)
    assert new.shapes["50k"].provenance == {"date": "2026-01-01"}


def test_the_stored_baseline_has_every_case_of_the_everyday_shapes_and_where_it_comes_from() -> None:
    baseline = read_baseline(STORED)
    assert set(hot.EVERY_DAY) <= baseline.shapes.keys() <= SHAPES.keys()
    for name, shape in baseline.shapes.items():
        assert tuple(shape.timings) == cases_of(SHAPES[name].machines)
        assert all(len(one.rounds) == 3 for one in shape.timings.values())
        assert shape.provenance.keys() == {"date", "commit", "cpu", "python", "numpy", "numba"}


def test_rows_that_cannot_be_folded_have_a_bar_for_each_row() -> None:
    assert bar_of("5k-unfolded", "2 % churn") == Bar(77.6, "ms")
    assert bar_of("5k-unfolded", "one roll-up") is None


def test_memory_is_judged_only_where_the_machines_outweigh_the_process() -> None:
    assert memory_bar(22_500) is None
    assert memory_bar(225_000) == Bar(300, "B")


def test_a_shape_is_judged_case_by_case_and_for_its_memory() -> None:
    lines = hot.judge("5k", RAW, figures(210.0, steady=2.5, cold=20.0), stored(steady=2.5, cold=5.0))
    assert [(one.case, one.missed, one.regressed) for one in lines] == [
        ("steady", True, False),
        ("cold", False, True),
        ("memory per machine", False, False),
    ]
    assert lines[0].per_row == pytest.approx(0.322, abs=0.001)


def test_shapes_are_chosen_by_name_with_commas_or_blanks() -> None:
    assert hot.chosen(["5k,50k"]) == hot.chosen(["5k", "50k"]) == ["5k", "50k"]
    assert hot.chosen([]) == list(hot.EVERY_DAY)
    assert hot.chosen(["all"]) == list(SHAPES)


def test_an_unknown_shape_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert hot.main(["6k"]) == 2
    assert "there is no shape 6k; there are 5k, " in capsys.readouterr().err


def test_the_table_shows_each_figure_beside_its_bar_and_baseline() -> None:
    lines = [
        line(figure=0.254),
        line(case="cold", figure=41.25, bar=Bar(30, "ms"), comparison=Comparison(1.8, regressed=True), per_row=5.316),
        line(shape="50k", case="one roll-up", figure=0.4, bar=None, comparison=None),
        line(shape="50k", case="preemption", bar=None),
    ]
    assert [" ".join(told.split()) for told in hot.table(lines)][1:] == [
        "5k steady 0.25 ms 0.90 ms 2 ms met 0.13 µs 1.00 ×",
        "cold 41.2 ms 0.90 ms 30 ms MISSED 5.32 µs 1.80 × REGRESSED",
        "50k one roll-up 0.40 ms 0.90 ms (0.5 ms) 0.13 µs –",
        "preemption 1.00 ms 0.90 ms – 0.13 µs 1.00 ×",
    ]


def test_the_tables_columns_are_aligned() -> None:
    first, *rows = hot.table([line(), line(case="cold", figure=1234.5, cpu_ms=1200.0)])
    end = first.index("of it CPU") + len("of it CPU")
    assert [row[end - 2 : end] for row in rows] == ["ms", "ms"]


def test_the_summary_says_plainly_what_was_missed_what_regressed_and_what_was_not_looked_at() -> None:
    slower = Comparison(1.8, regressed=True)
    lines = [line(), line(case="cold", figure=45.0, bar=Bar(30, "ms"), comparison=slower, cpu_ms=44.0)]
    assert list(hot.summary(lines, Baseline())) == [
        "1 of 2 bars met",
        "  missed: 5k, cold: 45.0 ms, 1.5 × the bar; no reason is known",
        "not measured: 5k-unfolded, 50k, 500k-aggregated, 500k-full, 5m, 500k; all of them: make bench-hot BENCH=all",
        "1 of 2 figures regressed (more than 1.5 × the baseline's time, 1.15 × its memory)",
        "  regressed: 5k, cold: 1.80 × the baseline",
    ]


def test_a_known_miss_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "_WHY_MISSED", {("5k", "steady"): "it is night"})
    told = list(hot.summary([line(figure=4.0, cpu_ms=4.0)], Baseline()))
    assert told[1] == "  missed: 5k, steady: 4.00 ms, 2.0 × the bar; it is night"


def test_every_reason_is_about_a_bar_and_every_miss_of_the_stored_baseline_has_one() -> None:
    assert [key for key in bars._WHY_MISSED if bar_of(*key) is None] == []
    missed = {
        (name, case)
        for name, shape in read_baseline(STORED).shapes.items()
        for case, timing in shape.timings.items()
        if (bar := bar_of(name, case)) and not bar.met_by(timing.best_ms)
    }
    assert missed <= bars._WHY_MISSED.keys()


def test_a_bar_that_only_a_busy_machine_misses_is_told_apart() -> None:
    told = list(hot.summary([line(figure=4.0, cpu_ms=1.0)], Baseline()))
    assert told[1] == "  missed: 5k, steady: 4.00 ms, 2.0 × the bar; its CPU time would meet it: the machine is busy"


def test_a_case_without_a_bar_stands_beside_what_was_reached() -> None:
    told = list(hot.summary([line(case="one roll-up", bar=None)], Baseline()))
    assert "(in brackets: no bar, but what a prototype of the engine reached)" in told


def test_figures_without_a_baseline_are_counted_with_how_to_store_one() -> None:
    told = list(hot.summary([line(comparison=None), line()], Baseline()))
    assert "1 of 2 figures have no baseline; --store keeps one" in told
    assert told[-1].startswith("0 of 1 figures regressed")


def test_without_any_baseline_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hot, "read_baseline", lambda: read_baseline(tmp_path / "baseline.json"))
    assert hot.main(["5k"]) == 2
    assert "there is no baseline to compare with; --store keeps one" in capsys.readouterr().err
