"""Columns that grow: numpy arrays with room to spare."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]


def grown(column: NDArray[Any], size: int, fill: float = 0, axis: int = 0) -> NDArray[Any]:
    """The column with room for `size` entries along an axis; a quarter more when it must move."""
    room = column.shape[axis]
    if size <= room:
        return column
    shape = list(column.shape)
    shape[axis] = max(size, room + room // 4 + 16)
    # Zeros take no memory before the first write to their page.
    larger = np.full(shape, fill, dtype=column.dtype) if fill else np.zeros(shape, dtype=column.dtype)
    larger[tuple(slice(0, length) for length in column.shape)] = column
    return larger
