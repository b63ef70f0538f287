"""Did the load come? Deletions, their successors, losses and steps, against what was planned, each at its time."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from scaletest.cluster.load.churn import planned_changes, planned_deletions
from scaletest.errors import PrometheusUnreachable
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.prometheus import Point, Prometheus
from scaletest.judge.selfcheck.checks import CheckRecord, check, judged, unmeasured
from scaletest.model.documents.substrate import SelfCheck
from scaletest.model.plan import Plan

_KEYS = ("loadDeliveredFraction", "loadScrapeGapSeconds")
# What is due in the last seconds of the soak may be done, or scraped, after its end.
_TAIL_SECONDS = 15.0
# Of few events one or two may be late, and nothing is wrong with the load.
_SPARE = 3
_SOURCES = 'up{component="kwok-cluster",metrics_port="load-driver"} or up{component="provider"}'
_LOSSES = "bigfleet_provider_ledger_planned_losses_total"
_LATE_LOSSES = "bigfleet_provider_ledger_late_losses_total"


@dataclass(frozen=True)
class Delivered:
    """Of one kind of event: how many were planned, how many came in time."""

    planned: float
    in_time: float

    @property
    def share(self) -> float:
        """All but a few is all: of ten events, one that is late is no sign of anything."""
        if self.in_time >= self.planned - _SPARE:
            return 1.0
        return self.in_time / self.planned


async def check_delivery(prometheus: Prometheus, plan: Plan, soak: Stretch) -> list[CheckRecord]:
    limits = plan.substrate.self_check
    try:
        delivered, gaps = await asyncio.gather(_delivered(prometheus, plan, soak), _gaps(prometheus, soak))
    except PrometheusUnreachable as error:
        return unmeasured(limits, _KEYS, str(error))
    return [judge_delivery(limits, delivered), judge_gaps(limits, gaps)]


async def _delivered(prometheus: Prometheus, plan: Plan, soak: Stretch) -> dict[str, Delivered | None]:
    async def came(event: str) -> float | None:
        counter = f'scaletest_load_events_total{{event="{event}",outcome="in_time"}}'
        return await prometheus.growth(counter, soak.start, soak.end)

    deletions, successors, changes, losses, late = await asyncio.gather(
        came("deletion"),
        came("successor"),
        came("change"),
        prometheus.growth(_LOSSES, soak.start, soak.end),
        prometheus.growth(_LATE_LOSSES, soak.start, soak.end),
    )
    seconds = max(0.0, soak.end - soak.start - _TAIL_SECONDS)
    clusters = range(plan.geometry.kwok_clusters)
    planned = sum(planned_deletions(plan.load_profile, ordinal, seconds) for ordinal in clusters)
    moved = sum(planned_changes(plan.load_profile, ordinal, seconds) for ordinal in clusters)
    return {
        "deletions": _of(planned, deletions),
        "successors of deleted Pods": _of(planned, successors),
        "steps of demand": _of(moved, changes),
        "losses": None if losses is None or late is None else Delivered(losses, losses - late),
    }


def _of(planned: int, in_time: float | None) -> Delivered | None:
    if in_time is None:
        return Delivered(0, 0) if not planned else None
    return Delivered(planned, in_time)


def judge_delivery(limits: SelfCheck, delivered: Mapping[str, Delivered | None]) -> CheckRecord:
    """The worst kind of event decides."""
    unknown = [what for what, one in delivered.items() if one is None]
    if unknown:
        return check(limits, _KEYS[0], "unmeasured", f"no process counted {', '.join(unknown)}")
    known = {what: one for what, one in delivered.items() if one is not None}
    what, worst = min(known.items(), key=lambda item: item[1].share)
    share = min(1.0, worst.share)
    came = f"{worst.in_time:g} of {worst.planned:g} {what} came in time"
    return judged(limits, _KEYS[0], share, f"{came}; at least {limits.load_delivered_fraction:.0%} must")


async def _gaps(prometheus: Prometheus, soak: Stretch) -> dict[str, float]:
    gaps: dict[str, float] = {}
    for selector in _SOURCES.split(" or "):
        for labels, points in await prometheus.raw(selector, soak.start, soak.end):
            name = labels.get("pod", "?")
            port = labels.get("metrics_port", "metrics")
            gaps[name if port == "metrics" else f"{name} ({port})"] = longest_unseen(points, soak)
    return gaps


def longest_unseen(up: list[Point], soak: Stretch) -> float:
    """The longest time without an answered scrape; the edges of the soak count as if one had been there."""
    seen = [soak.start, *(at for at, value in up if value == 1), soak.end]
    return max((after - before for before, after in pairwise(seen)), default=math.inf)


def judge_gaps(limits: SelfCheck, gaps: Mapping[str, float]) -> CheckRecord:
    if not gaps:
        return check(limits, _KEYS[1], "unmeasured", "Prometheus never saw a load-driver or the provider")
    name, gap = max(gaps.items(), key=lambda item: item[1])
    reason = f"{name} was not seen for {gap:.0f} s; the limit is {limits.load_scrape_gap_seconds:g} s"
    return judged(limits, _KEYS[1], gap, reason)
