"""Reads gates from Prometheus: value, observations and the histogram's ceiling for each."""

import asyncio

from scaletest.run.gates import INFORMATIONAL, RECLAIM_QUIET_SECONDS, RECLAIMS, UNMEASURED_VALUE, Gate, Reading
from scaletest.run.prometheus import Prometheus, PrometheusUnreachable


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


class ReclaimCount:
    """Counts reclaims from the moment the fleet has been free of them for a while; until then it has no start."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._since: float | None = None

    async def try_start(self, now: float) -> None:
        """Begin counting if the last seconds saw no reclaim."""
        if self._since is None and await self._prometheus.growth(RECLAIMS, now - RECLAIM_QUIET_SECONDS, now) == 0:
            self._since = now

    async def reading(self, now: float) -> Reading:
        try:
            counted = await self._prometheus.growth(RECLAIMS, self._since or now - RECLAIM_QUIET_SECONDS, now)
        except PrometheusUnreachable as error:
            return Reading(None, problem=str(error))
        if counted is not None and self._since is None:
            return Reading(counted, problem=f"reclaims never paused for {RECLAIM_QUIET_SECONDS} s")
        return Reading(counted)
