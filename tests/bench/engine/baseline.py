"""The stored figures of an earlier run, and whether today's are worse (tests/bench/engine/baseline.json).

CPU times are compared, in units of the calibration kernel that ran beside them: who else uses the machine, and how fast
it is, cancels out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True)
class Round:
    """The medians of one round, and the kernel's CPU time before and after it."""

    # By the clock: what a bar is about.
    ms: float
    cpu_ms: float
    kernel_ms: float

    @property
    def in_kernels(self) -> float:
        return self.cpu_ms / self.kernel_ms


@dataclass(frozen=True)
class Timing:
    """One case's rounds."""

    rounds: tuple[Round, ...]

    @property
    def best_ms(self) -> float:
        """The best of the medians."""
        return min(one.ms for one in self.rounds)

    @property
    def spread_ms(self) -> tuple[float, float]:
        return self.best_ms, max(one.ms for one in self.rounds)

    @property
    def best_cpu_ms(self) -> float:
        return min(one.cpu_ms for one in self.rounds)

    @property
    def in_kernels(self) -> float:
        return min(one.in_kernels for one in self.rounds)

    def with_more(self, other: "Timing") -> "Timing":
        return Timing((*self.rounds, *other.rounds))


@dataclass(frozen=True)
class Tolerance:
    """How much worse than the baseline a figure may be before it counts as a regression."""

    # Today's figure over the stored one.
    ratio: float = 1.5
    # Milliseconds of today's machine; below this, a difference is the clock's and the cache's.
    least_ms: float = 0.3
    memory_ratio: float = 1.15


@dataclass(frozen=True)
class Comparison:
    """One figure beside the stored one. A ratio below 1 is better than it was."""

    ratio: float
    regressed: bool


@dataclass(frozen=True)
class ShapeFigures:
    """What one process measured of one shape."""

    timings: Mapping[str, Timing]
    bytes_per_machine: float
    # Where, when and with what; text only.
    provenance: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """All stored shapes."""

    shapes: Mapping[str, ShapeFigures] = field(default_factory=dict)
    tolerance: Tolerance = Tolerance()

    def compare_time(self, shape: str, case: str, now: Timing) -> Comparison | None:
        """None if nothing is stored for it."""
        stored = self.shapes.get(shape)
        then = stored.timings.get(case) if stored else None
        if then is None:
            return None
        ratio = now.in_kernels / then.in_kernels
        slower_ms = now.best_cpu_ms * (1 - 1 / ratio)
        return Comparison(ratio, ratio > self.tolerance.ratio and slower_ms > self.tolerance.least_ms)

    def compare_memory(self, shape: str, bytes_per_machine: float) -> Comparison | None:
        stored = self.shapes.get(shape)
        if stored is None:
            return None
        ratio = bytes_per_machine / stored.bytes_per_machine
        return Comparison(ratio, ratio > self.tolerance.memory_ratio)

    def replaced(self, measured: Mapping[str, ShapeFigures]) -> "Baseline":
        """With new figures for the shapes that were measured; the others stay."""
        return Baseline({**self.shapes, **measured}, self.tolerance)


def read_baseline(path: Path = STORED) -> Baseline:
    """What is stored; FileNotFoundError if nothing is: an empty baseline would hide every regression."""
    document = json.loads(path.read_text())
    return Baseline(
        {name: _figures(entry) for name, entry in document["shapes"].items()}, Tolerance(**document["tolerance"])
    )


def write_baseline(baseline: Baseline, path: Path = STORED) -> None:
    document = {
        "about": "written by `python -m tests.bench.engine.hot --store`; "
        "kernel_ms: tests/bench/measuring/calibration.py, run beside it",
        "tolerance": asdict(baseline.tolerance),
        "shapes": {name: _entry(figures) for name, figures in baseline.shapes.items()},
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def timing_of(rounds: Sequence[Mapping[str, float]]) -> Timing:
    return Timing(tuple(Round(one["ms"], one["cpu_ms"], one["kernel_ms"]) for one in rounds))


def _figures(entry: Mapping[str, Any]) -> ShapeFigures:
    timings = {case: timing_of(stored["rounds"]) for case, stored in entry["cases"].items()}
    return ShapeFigures(timings, entry["bytes_per_machine"], entry["provenance"])


def _entry(figures: ShapeFigures) -> dict[str, Any]:
    cases = {
        case: {
            "best_ms": timing.best_ms,
            "spread_ms": list(timing.spread_ms),
            "rounds": [asdict(one) for one in timing.rounds],
        }
        for case, timing in figures.timings.items()
    }
    return {
        "provenance": dict(figures.provenance),
        "bytes_per_machine": figures.bytes_per_machine,
        "cases": cases,
    }
