"""CPU pressure of this machine: how much of the time something waited for a core (PSI `some`)."""

from collections.abc import Iterable
from pathlib import Path

from scaletest.cluster.load.pressure import SOURCE, waited_seconds

WINDOW_SECONDS = 60.0

# Unix seconds, and the seconds since boot in which something waited.
PressureSample = tuple[float, float]


def read_pressure(now: float, source: Path = SOURCE) -> PressureSample | None:
    """The kernel's count at this moment; None where it keeps none."""
    waited = waited_seconds(source)
    return None if waited is None else (now, waited)


def worst_percent(samples: Iterable[PressureSample]) -> float | None:
    """The worst minute, or all of it if it was shorter.

    From the kernel's total, because its avg60 still remembers what was before the first sample.
    """
    return max((share for _, _, share in _minutes(samples)), default=None)


def pressed_minutes(samples: Iterable[PressureSample], limit_percent: float) -> tuple[tuple[float, float], ...]:
    """Every minute that was beyond the limit, as (start, end) in unix seconds; those that overlap are one."""
    found: list[tuple[float, float]] = []
    for start, end, share in _minutes(samples):
        if share <= limit_percent:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return tuple(found)


def _minutes(samples: Iterable[PressureSample]) -> list[tuple[float, float, float]]:
    """(start, end, percent) of each minute that ends at a sample; of all, if it was shorter."""
    ordered = sorted(samples)
    if len(ordered) < 2:
        return []
    found = []
    first = 0
    for last in range(1, len(ordered)):
        # The latest start that is still a whole minute ago.
        while first + 1 < last and ordered[last][0] - ordered[first + 1][0] >= WINDOW_SECONDS:
            first += 1
        if ordered[last][0] - ordered[first][0] >= WINDOW_SECONDS:
            found.append((ordered[first][0], ordered[last][0], _share(ordered[first], ordered[last])))
    return found or [(ordered[0][0], ordered[-1][0], _share(ordered[0], ordered[-1]))]


def _share(start: PressureSample, end: PressureSample) -> float:
    seconds = end[0] - start[0]
    return min(100.0, 100 * (end[1] - start[1]) / seconds) if seconds > 0 else 0.0
