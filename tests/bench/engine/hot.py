"""`python -m tests.bench.engine.hot [SHAPE…]`: the decision cycle against its bars and against the stored baseline.

Without a SHAPE it has a quick look at the everyday ones. Each is measured in a process of its own. A JSON line for
each case goes to stdout, a table for people to stderr. Ends with 1 if something is slower or larger than the
baseline allows; a missed bar is said, and is no failure.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.bench.engine.bars import Bar, bar_of, memory_bar, reached, why_missed
from tests.bench.engine.baseline import (
    Baseline,
    Comparison,
    ShapeFigures,
    Timing,
    read_baseline,
    timing_of,
    write_baseline,
)
from tests.bench.engine.cases import cases_of
from tests.bench.engine.fleets import SHAPES
from tests.bench.engine.one_shape import build_kernels, measure_apart
from tests.bench.measuring.provenance import provenance
from tests.bench.measuring.report import against, emit

# Within a minute together, a few looks at each. The others come when asked for, and with more looks.
EVERY_DAY = ("5k", "5k-unfolded", "50k")


@dataclass(frozen=True)
class Line:
    """One figure beside its bar and its baseline."""

    shape: str
    case: str
    figure: float
    unit: str
    bar: Bar | None
    comparison: Comparison | None
    # Milliseconds of CPU: far below the figure, the process waited for a core.
    cpu_ms: float | None = None
    # Microseconds for each need row that came in.
    per_row: float | None = None

    @property
    def missed(self) -> bool:
        return self.bar is not None and not self.bar.met_by(self.figure)

    @property
    def regressed(self) -> bool:
        return self.comparison is not None and self.comparison.regressed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.bench.engine.hot", description="The decision cycle against its bars."
    )
    parser.add_argument(
        "shapes", nargs="*", help=f"of {', '.join(SHAPES)}, or all; default: a quick look at {', '.join(EVERY_DAY)}"
    )
    parser.add_argument("--store", action="store_true", help="keep these figures as the baseline")
    options = parser.parse_args(arguments)
    quick = not options.shapes and not options.store
    shapes = chosen(options.shapes)
    if unknown := [name for name in shapes if name not in SHAPES]:
        sys.stderr.write(f"there is no shape {', '.join(unknown)}; there are {', '.join(SHAPES)}\n")
        return 2
    try:
        baseline = read_baseline()
    except FileNotFoundError:
        if not options.store:
            sys.stderr.write("there is no baseline to compare with; --store keeps one\n")
            return 2
        baseline = Baseline()
    build_kernels()
    measured: dict[str, ShapeFigures] = {}
    lines: list[Line] = []
    for shape in shapes:
        cases = cases_of(SHAPES[shape].machines)
        raw = measure_apart(SHAPES[shape], cases, quick)
        figures = _figures(raw)
        judged = judge(shape, raw, figures, baseline)
        if not options.store and any(line.regressed for line in judged):
            # A busy neighbour is more likely than a regression: look again before saying so.
            sys.stderr.write(f"{shape}: looks slower than the baseline, measured once more\n")
            again = measure_apart(SHAPES[shape], cases, quick)
            figures = _both(figures, _figures(again))
            judged = judge(shape, raw, figures, baseline)
        measured[shape] = figures
        lines += judged
        _emit(judged, raw, figures)
        if options.store:
            write_baseline(baseline.replaced(measured))
    sys.stderr.write("\n".join(["", *table(lines), "", *summary(lines, baseline)]) + "\n")
    if options.store:
        return 0
    return int(any(line.regressed for line in lines))


def chosen(words: Sequence[str]) -> list[str]:
    """The shapes that were asked for: `5k,50k` and `5k 50k` mean the same."""
    names = [name for word in words for name in word.split(",") if name]
    if names == ["all"]:
        return list(SHAPES)
    return names or list(EVERY_DAY)


def judge(shape: str, raw: dict[str, Any], figures: ShapeFigures, baseline: Baseline) -> list[Line]:
    """Every figure of a shape beside its bar and its baseline."""
    lines = []
    for case, timing in figures.timings.items():
        best = timing.best_ms
        compared = baseline.compare_time(shape, case, timing)
        per_row = 1000 * best / raw["need_rows"]
        lines.append(Line(shape, case, best, "ms", bar_of(shape, case), compared, timing.best_cpu_ms, per_row))
    memory = figures.bytes_per_machine
    compared = baseline.compare_memory(shape, memory)
    lines.append(Line(shape, "memory per machine", memory, "B", memory_bar(raw["machines"]), compared))
    return lines


def table(lines: Sequence[Line]) -> Iterator[str]:
    """One line for each figure, aligned."""
    heads = f"{'figure':>11} {'of it CPU':>11} {'bar':>9}   {'':<6} {'per need row':>12}  {'of baseline':>11}"
    yield f"{'shape':<16} {'case':<19} {heads}"
    previous = ""
    for line in lines:
        shown = line.shape if line.shape != previous else ""
        previous = line.shape
        bar = f"{line.bar.most:,.0f} {line.bar.unit}" if line.bar else _in_brackets(reached(line.shape, line.case))
        word = "" if line.bar is None else "MISSED" if line.missed else "met"
        row = "" if line.per_row is None else f"{line.per_row:,.2f} µs"
        ratio = f"{line.comparison.ratio:.2f} ×" if line.comparison else "–"
        mark = "  REGRESSED" if line.regressed else ""
        figure = f"{_three_digits(line.figure)} {line.unit}"
        cpu = "" if line.cpu_ms is None else f"{_three_digits(line.cpu_ms)} ms"
        told = f"{figure:>11} {cpu:>11} {bar:>9}   {word:<6} {row:>12}  {ratio:>11}{mark}"
        yield f"{shown:<16} {line.case:<19} {told}".rstrip()


def summary(lines: Sequence[Line], baseline: Baseline) -> Iterator[str]:
    """What to take home, in plain sentences."""
    barred = [line for line in lines if line.bar]
    missed = [line for line in barred if line.missed]
    yield f"{len(barred) - len(missed)} of {len(barred)} bars met"
    for line in missed:
        if line.bar:
            over = line.figure / line.bar.most
            busy = line.cpu_ms is not None and line.bar.met_by(line.cpu_ms)
            why = "its CPU time would meet it: the machine is busy" if busy else why_missed(line.shape, line.case)
            figure = f"{_three_digits(line.figure)} {line.unit}"
            yield f"  missed: {line.shape}, {line.case}: {figure}, {over:.1f} × the bar; {why}"
    if any(not line.bar and reached(line.shape, line.case) for line in lines):
        yield "(in brackets: no bar, but what a prototype of the engine reached)"
    if left_out := [name for name in SHAPES if name not in {line.shape for line in lines}]:
        yield f"not measured: {', '.join(left_out)}; all of them: make bench-hot BENCH=all"
    compared = [line for line in lines if line.comparison]
    regressed = [line for line in compared if line.regressed]
    if len(compared) < len(lines):
        yield f"{len(lines) - len(compared)} of {len(lines)} figures have no baseline; --store keeps one"
    time, memory = baseline.tolerance.ratio, baseline.tolerance.memory_ratio
    yield (
        f"{len(regressed)} of {len(compared)} figures regressed "
        f"(more than {time:g} × the baseline's time, {memory:g} × its memory)"
    )
    for line in regressed:
        if line.comparison:
            yield f"  regressed: {line.shape}, {line.case}: {line.comparison.ratio:.2f} × the baseline"


def _in_brackets(bar: Bar | None) -> str:
    return f"({bar.most:g} {bar.unit})" if bar else "–"


def _three_digits(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def _figures(raw: dict[str, Any]) -> ShapeFigures:
    timings = {case: timing_of(entry["rounds"]) for case, entry in raw["cases"].items()}
    return ShapeFigures(timings, raw["bytes_per_machine"], provenance())


def _both(one: ShapeFigures, other: ShapeFigures) -> ShapeFigures:
    """The rounds of two processes together."""
    timings: dict[str, Timing] = {case: timing.with_more(other.timings[case]) for case, timing in one.timings.items()}
    return replace(one, timings=timings, bytes_per_machine=min(one.bytes_per_machine, other.bytes_per_machine))


def _emit(lines: Sequence[Line], raw: dict[str, Any], figures: ShapeFigures) -> None:
    for line in lines:
        case = raw["cases"].get(line.case, {})
        measured = against(line.figure, line.bar.most) if line.bar else {"value": round(line.figure, 4)}
        figure = {"ms" if line.unit == "ms" else "bytes_per_machine": measured}
        compared = line.comparison
        emit(
            "hot",
            shape=line.shape,
            case=line.case,
            **figure,
            **({"cpu_ms": round(line.cpu_ms, 4)} if line.cpu_ms is not None else {}),
            **({"why_missed": why_missed(line.shape, line.case)} if line.missed else {}),
            **({"us_per_need_row": round(line.per_row, 4)} if line.per_row is not None else {}),
            of_baseline={"ratio": round(compared.ratio, 3), "regressed": compared.regressed} if compared else None,
            rounds_ms=[one.ms for one in figures.timings[line.case].rounds] if line.case in figures.timings else [],
            **{key: value for key, value in case.items() if key != "rounds"},
            machines=raw["machines"],
            bound=raw["bound"],
            clusters=raw["clusters"],
            need_rows=raw["need_rows"],
            settle_cycles=raw["settle_cycles"],
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
