"""Resource dimensions: vectors as rows of int64, each dimension in the largest unit that all its values share."""

import math
from collections.abc import Iterable

import numpy as np

from bigfleet.core.vectors import ReadVector, Vector
from bigfleet.engine.columns.growing import Longs

# Amounts beyond this many units are taken for this many (ADR-15): sums of them saturate here too.
SATURATED = 2**62


class Dimensions:
    """Name → column. The unit of a dimension is the greatest common divisor of every amount seen so far."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.units: list[int] = []
        self._columns: dict[str, int] = {}

    @property
    def width(self) -> int:
        return max(1, len(self.names))

    def by_name(self) -> Longs:
        """The columns in the order of their names: the order in which scores are summed."""
        return np.array(sorted(range(len(self.names)), key=self.names.__getitem__), np.int64)

    def admit(self, vectors: Iterable[ReadVector]) -> list[int] | None:
        """Make sure that these vectors can be written exactly.

        Returns the factor by which each earlier column must be multiplied; None if all stays as it is.
        """
        before = None
        for vector in vectors:
            for name, amount in vector.items():
                column = self._columns.get(name)
                if column is None:
                    before = list(self.units) if before is None else before
                    self._columns[name] = len(self.names)
                    self.names.append(name)
                    self.units.append(abs(amount))
                elif not self.units[column] or amount % self.units[column]:
                    if not amount:
                        continue
                    before = list(self.units) if before is None else before
                    self.units[column] = math.gcd(self.units[column], amount)
        if before is None:
            return None
        return [old // new if old and new else 1 for old, new in zip(before, self.units, strict=False)]

    def write(self, vector: ReadVector, row: Longs) -> None:
        """An admitted vector, in units."""
        for name, amount in vector.items():
            if amount:
                column = self._columns[name]
                row[column] = max(-SATURATED, min(SATURATED, amount // self.units[column]))

    def read(self, row: Iterable[int]) -> Vector:
        """The dimensions above zero, in milli-units."""
        return {
            name: int(amount) * unit
            for name, unit, amount in zip(self.names, self.units, row, strict=False)
            if amount > 0
        }


def rescaled(table: Longs, width: int, factors: list[int]) -> Longs:
    """A table of vectors after the units changed."""
    wider = np.zeros((table.shape[0], width), np.int64)
    wider[:, : table.shape[1]] = table
    for column, factor in enumerate(factors[: table.shape[1]]):
        if factor != 1:
            most = SATURATED // factor
            values = wider[:, column]
            wider[:, column] = np.where(
                values > most, SATURATED, np.where(values < -most, -SATURATED, np.clip(values, -most, most) * factor)
            )
    return wider
