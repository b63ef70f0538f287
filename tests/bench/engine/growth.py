"""`python -m tests.bench growth`: how the cycle's cost grows with machines, clusters and need rows, each on its own.

CPU time, because a line is only as straight as its noisiest point. Writes docs/engine-growth.json and draws
docs/engine-growth.svg from it.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaletest.project import PROJECT
from tests.bench.engine.baseline import timing_of
from tests.bench.engine.fleets import Shape
from tests.bench.engine.growth_picture import draw
from tests.bench.engine.one_shape import build_kernels, measure_apart
from tests.bench.measuring.provenance import provenance
from tests.bench.measuring.report import emit

FIGURES = PROJECT / "docs" / "engine-growth.json"
PICTURE = PROJECT / "docs" / "engine-growth.svg"
CASES = ("steady", "one roll-up", "2 % churn", "cold")
_MACHINES = (3_000, 10_000, 30_000, 100_000, 300_000)
_CLUSTERS = (10, 30, 100, 300, 1_000)
_ROWS = (1_000, 3_000, 10_000, 30_000, 100_000)
# One machine in so many is bound, as in the ladder's shapes.
_FREE_FOR_EACH_BOUND = 4


def shapes() -> Iterator[tuple[str, int, Shape]]:
    """(what grows, how many of it, the shape): the other two stay as they are."""
    for machines in _MACHINES:
        yield "machines", machines, _shape(machines, clusters=10, rows=1_000)
    for clusters in _CLUSTERS:
        yield "clusters", clusters, _shape(100_000, clusters, rows=10_000)
    for rows in _ROWS:
        yield "need rows", rows, _shape(100_000, clusters=50, rows=rows)


def _shape(machines: int, clusters: int, rows: int) -> Shape:
    # What gangs take comes on top, so that the plain rows get a little less.
    plain = max(1, machines // clusters // (_FREE_FOR_EACH_BOUND + 1))
    return Shape(f"{machines}/{clusters}/{rows}", clusters, machines, rows // clusters, plain)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The k of cost ∝ n^k: the slope of the least-squares line through the points on logarithmic axes."""
    xs = [math.log(n) for n, _ in points]
    ys = [math.log(cost) for _, cost in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def main() -> int:
    build_kernels()
    axes: dict[str, list[dict[str, Any]]] = {}
    for axis, number, shape in shapes():
        raw = measure_apart(shape, CASES, quick=True)
        ms = {case: timing_of(entry["rounds"]).best_cpu_ms for case, entry in raw["cases"].items()}
        point = {
            **{key: raw[key] for key in ("machines", "clusters", "need_rows", "bound")},
            "ms": ms,
        }
        axes.setdefault(axis, []).append({"n": number, **point})
        emit("growth", grows=axis, **point)
    document = {"provenance": provenance(), "axes": axes, "exponents": _exponents(axes)}
    FIGURES.write_text(json.dumps(document, indent=1) + "\n")
    redraw(FIGURES, PICTURE)
    return 0


def redraw(figures: Path, picture: Path) -> None:
    """The picture of stored figures."""
    document = json.loads(figures.read_text())
    picture.write_text(draw(document["axes"], document["exponents"]))


def _exponents(axes: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, float]]:
    return {
        axis: {case: round(exponent([(point["n"], point["ms"][case]) for point in points]), 2) for case in CASES}
        for axis, points in axes.items()
    }


if __name__ == "__main__":
    sys.exit(main())
