"""The bars of the hot benches, and where nobody has set one, what a prototype of the engine reached.

docs/reference/harness.md#speed-bars says what they were set against. Bursts have 100 ms (BF-0013), and so has every
case of 500,000 machines in use.
"""

from dataclasses import dataclass

from tests.bench.engine.fleets import SHAPES

# Milliseconds for steady, 2 % churn, 10 % burst and cold; None where nobody has set one.
_MILLISECONDS: dict[str, tuple[float | None, float | None, float | None, float | None]] = {
    "5k": (2, 10, 100, 30),
    "50k": (10, 30, 100, 120),
    "500k-aggregated": (5, 20, 100, 80),
    "500k-full": (100, 100, 100, None),
    "5m": (40, 250, 100, 900),
    "500k": (80, 300, None, 1200),
}
_CASES = ("steady", "2 % churn", "10 % burst", "cold")
# Bars that are known to be missed, and why; a miss without a reason here is news.
_WHY_MISSED = {
    ("5m", "10 % burst"): "all 500 clusters change at once, nothing remembered helps; a prototype took 142 ms",
}
# Milliseconds that a prototype took after one changed roll-up, the slowest of its runs.
_ONE_ROLLUP_REACHED = {"5k": 0.52, "5k-unfolded": 35, "50k": 0.5, "500k-aggregated": 0.56, "5m": 0.67, "500k": 1.0}
# A row that cannot be folded, in any of the cases.
UNFOLDED_ROW_MICROSECONDS = 10.0
BYTES_PER_MACHINE = 300.0
# Below this many machines, what a process needs for itself weighs more than the machines.
MEMORY_FROM_MACHINES = 100_000


@dataclass(frozen=True)
class Bar:
    """The most that a figure may be."""

    most: float
    unit: str

    def met_by(self, figure: float) -> bool:
        return figure <= self.most


def bar_of(shape: str, case: str) -> Bar | None:
    """The bar for one case of one shape, in milliseconds."""
    if case not in _CASES:
        return None
    if not SHAPES[shape].folds:
        return Bar(SHAPES[shape].need_rows * UNFOLDED_ROW_MICROSECONDS / 1000, "ms")
    most = _MILLISECONDS[shape][_CASES.index(case)]
    return None if most is None else Bar(most, "ms")


def memory_bar(machines: int) -> Bar | None:
    """The bar for the memory of one machine, where there are enough of them to tell."""
    return Bar(BYTES_PER_MACHINE, "B") if machines >= MEMORY_FROM_MACHINES else None


def why_missed(shape: str, case: str) -> str:
    """The reason of a miss that is known."""
    return _WHY_MISSED.get((shape, case), "no reason is known")


def reached(shape: str, case: str) -> Bar | None:
    """What was shown to be reachable for a case without a bar."""
    most = _ONE_ROLLUP_REACHED.get(shape) if case == "one roll-up" else None
    return None if most is None else Bar(most, "ms")
