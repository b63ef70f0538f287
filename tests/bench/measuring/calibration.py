"""A fixed piece of work, timed beside every bench, so that a slower machine or hour does not look like slower code."""

import statistics
import time

import numpy as np

_CALLS = 5
_NUMBERS = np.random.Generator(np.random.PCG64(1)).integers(0, 1 << 30, 150_000)


def kernel_ms() -> float:
    """Milliseconds of CPU time that the calibration kernel takes: the median of a few calls."""
    return 1000 * statistics.median(_timed() for _ in range(_CALLS))


def _timed() -> float:
    began = time.process_time()
    _work()
    return time.process_time() - began


def _work() -> int:
    """Like the engine: sorts and gathers of columns, and a dictionary of small objects."""
    order = np.argsort(_NUMBERS, kind="stable")
    total = int(np.cumsum(_NUMBERS[order])[-1])
    seen: dict[str, tuple[int, int]] = {}
    for index in range(15_000):
        seen[f"machine-{index}"] = index, total
    return len(seen)
