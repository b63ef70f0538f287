"""The bars of the hot benches: design.md §7, and the plan's 100 ms for bursts (ADR-0013) and for 500K in use (M27)."""

from dataclasses import dataclass

from tests.bench.fleets import SHAPES

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
