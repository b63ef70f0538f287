"""Reads gates from Prometheus: value, observations and the histogram's ceiling for each."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from scaletest.judge.gates import INFORMATIONAL, RECLAIM_QUIET_SECONDS, RECLAIMS, UNMEASURED_VALUE, Gate, Reading
from scaletest.judge.prometheus import Point, Prometheus, PrometheusUnreachable, grown

# A quiet while begins at a sample, and the first one is up to so much later than the time that was asked for.
_SCRAPE_SECONDS = 10


async def read_gate(prometheus: Prometheus, gate: Gate, window_seconds: int, soak_start: float, at: float) -> Reading:
    """What Prometheus says about one gate at the end of the soak."""
    try:
        value, observations, ceiling = await asyncio.gather(
            prometheus.value(gate.windowed(window_seconds), at),
            _observations(prometheus, gate.count, max(soak_start, at - window_seconds), at),
            _ceiling(prometheus, gate.histogram, at),
        )
    except PrometheusUnreachable as error:
        return Reading(None, problem=str(error))
    return Reading(value, observations, ceiling)


async def _observations(prometheus: Prometheus, counter: str, start: float, end: float) -> int | None:
    if not counter:
        return None
    grown = await prometheus.growth(counter, start, end)
    return None if grown is None else round(grown)


async def _ceiling(prometheus: Prometheus, histogram: str, at: float) -> float | None:
    if not histogram:
        return None
    bounds = [
        float(sample.labels["le"]) for sample in await prometheus.samples(f"count by (le) ({histogram}_bucket)", at)
    ]
    return max((bound for bound in bounds if bound != float("inf")), default=None)


async def read_informational(prometheus: Prometheus, window_seconds: int, at: float) -> dict[str, float]:
    """The figures that are shown but not judged; −1 where there is none (ADR-0017)."""

    async def read(query: str) -> float:
        try:
            value = await prometheus.value(query.replace("{w}", f"{window_seconds}s"), at)
        except PrometheusUnreachable:
            value = None
        return UNMEASURED_VALUE if value is None else value

    values = await asyncio.gather(*(read(query) for query in INFORMATIONAL.values()))
    return dict(zip(INFORMATIONAL, values, strict=True))


async def read_reclaims(prometheus: Prometheus, counted_from: float, now: float) -> Reading:
    """Reclaims since the fleet was free of them for a while, at `counted_from` or later."""
    try:
        found = await prometheus.series(RECLAIMS, counted_from - RECLAIM_QUIET_SECONDS - _SCRAPE_SECONDS, now)
    except PrometheusUnreachable as error:
        return Reading(None, problem=str(error))
    return count_reclaims(found, counted_from)


def count_reclaims(found: Sequence[Sequence[Point]], counted_from: float) -> Reading:
    """Count from the first quiet moment on; where none comes, the count of all of it fails its gate."""
    growths: dict[float, float] = {}
    for row in found:
        for before, after in pairwise(row):
            growths[after[0]] = growths.get(after[0], 0.0) + grown([before[1], after[1]])
    if max(growths, default=0.0) < counted_from:
        return Reading(None)  # nobody looked since
    quiet_since = min(row[0][0] for row in found if row)
    for at, grew in sorted(growths.items()):
        if grew:
            quiet_since = at
        elif at >= counted_from and at - quiet_since >= RECLAIM_QUIET_SECONDS:
            return Reading(sum(later for when, later in growths.items() if when > at))
    return Reading(sum(growths.values()), problem=f"reclaims never paused for {RECLAIM_QUIET_SECONDS} s")
