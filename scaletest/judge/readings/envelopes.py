"""A claim runs behind its witness, and demand never rests: it must lie between what the witness was lately.

Equality at one instant would fail every healthy run; a bar on the mean would pass a claim that is wrong and constant.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scaletest.judge.gates.gate import Component, Reading
from scaletest.judge.gates.measures import Envelope, SecondsOutside
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.prometheus import Point, Prometheus

# Give or take so much of the witness, and what the envelope allows besides.
SLACK_SHARE = 0.005
# A fleet of thousands of clusters is looked at less often: this many points are asked for at most.
_MOST_POINTS = 2_000_000
_STEP_SECONDS = 5
# Whether the shards were seen at all at a moment; a claim that is missing then is a claim of nothing.
_SPEAKS = "count(last_over_time(bigfleet_shard_cycle_duration_seconds_count[9s]))"

Key = tuple[str, ...]
Curve = Mapping[float, float]


@dataclass(frozen=True)
class Curves:
    """A claim and its witness at the same moments, by key."""

    claim: Mapping[Key, Curve]
    lowest: Mapping[Key, Curve]
    highest: Mapping[Key, Curve]
    slack: Mapping[Key, float]
    # When the claiming process was seen.
    spoke: frozenset[float]


@dataclass(frozen=True)
class Outside:
    """For how long one key was outside, when, and the worst moment of it."""

    key: Key
    seconds: float
    since: float
    until: float
    claim: float
    lowest: float
    highest: float


async def read_envelopes(
    prometheus: Prometheus, measure: SecondsOutside, clusters: Sequence[str], stretches: Sequence[Stretch]
) -> Reading:
    worst: Outside | None = None
    witnessed: set[str] = set()
    for envelope in measure.envelopes:
        for stretch in stretches:
            curves, step = await _curves(prometheus, envelope, stretch)
            witnessed |= {key[0] for key in curves.lowest}
            found = seconds_outside(curves, step)
            if found and (worst is None or found.seconds > worst.seconds):
                worst = found
    if measure.expects == "clusters" and (silent := next((name for name in clusters if name not in witnessed), "")):
        return Reading(None, problem=f"there is no witness of {silent}")
    if worst is None:
        return Reading(0.0) if witnessed else Reading(None)
    component: Component | None = None
    if measure.go_between and not await _passed_on_wrongly(prometheus, measure.go_between, worst, stretches):
        component = measure.blame_beyond
    return Reading(worst.seconds, detail=_sentence(worst), at=(worst.since, worst.until), component=component)


async def _passed_on_wrongly(
    prometheus: Prometheus, go_between: Envelope, worst: Outside, stretches: Sequence[Stretch]
) -> bool:
    """Whether the program between witness and claim was outside of the envelope too, for half of that time at least."""
    seconds = 0.0
    for stretch in stretches:
        curves, step = await _curves(prometheus, go_between, stretch)
        found = [_outside(curves, key, step) for key in curves.lowest if key[0] == worst.key[0]]
        seconds += max((one.seconds for one in found if one), default=0.0)
    return seconds >= worst.seconds / 2


async def _curves(prometheus: Prometheus, envelope: Envelope, stretch: Stretch) -> tuple[Curves, float]:
    members = max(1, len(await prometheus.samples(envelope.lowest, stretch.end)))
    step = max(_STEP_SECONDS, math.ceil(3 * members * stretch.seconds / _MOST_POINTS))
    queries = (envelope.claim, envelope.lowest, envelope.highest, _SPEAKS)
    claim, lowest, highest, spoke = await asyncio.gather(
        *(prometheus.series(query, stretch.start, stretch.end, step) for query in queries)
    )
    slack = await prometheus.samples(envelope.slack, stretch.end) if envelope.slack else []
    by = envelope.by
    curves = Curves(
        claim=_by_key(claim, by),
        lowest=_by_key(lowest, by),
        highest=_by_key(highest, by),
        slack={tuple(sample.labels.get(label, "") for label in by): sample.value for sample in slack},
        spoke=frozenset(at for _, points in spoke for at, _ in points),
    )
    return curves, step


def _by_key(found: Sequence[tuple[Mapping[str, str], Sequence[Point]]], by: Sequence[str]) -> dict[Key, Curve]:
    return {tuple(labels.get(label, "") for label in by): dict(points) for labels, points in found}


def seconds_outside(curves: Curves, step_seconds: float) -> Outside | None:
    """The key that was outside for longest; None if none ever was. Too much is as wrong as too little."""
    found = [one for key in curves.lowest.keys() | curves.claim.keys() if (one := _outside(curves, key, step_seconds))]
    return max(found, key=lambda one: one.seconds, default=None)


def _outside(curves: Curves, key: Key, step_seconds: float) -> Outside | None:
    claimed, low, high = (curve.get(key, {}) for curve in (curves.claim, curves.lowest, curves.highest))
    slack = curves.slack.get(key, 0.0)
    cluster = key[0]
    witnessed = {at for other, curve in curves.lowest.items() if other[0] == cluster for at in curve}
    moments: list[tuple[float, float, float, float]] = []
    for at in sorted(witnessed & (curves.spoke | claimed.keys())):
        # A combination that the witness of this cluster does not have is one that no Pod asks for.
        lowest, highest, claim = low.get(at, 0.0), high.get(at, 0.0), claimed.get(at, 0.0)
        room = max(slack, SLACK_SHARE * highest)
        if claim < lowest - room - _ROUNDING * highest or claim > highest + room + _ROUNDING * highest:
            moments.append((at, claim, lowest, highest))
    if not moments:
        return None
    _, claim, lowest, highest = max(moments, key=lambda one: max(one[2] - one[1], one[1] - one[3]))
    return Outside(key, len(moments) * step_seconds, moments[0][0], moments[-1][0], claim, lowest, highest)


# Sums of floats in another order.
_ROUNDING = 1e-9


def _sentence(one: Outside) -> str:
    what = " ".join(part for part in one.key if part)
    between = f"{one.lowest:g}" if one.lowest == one.highest else f"{one.lowest:g} to {one.highest:g}"
    return f"{what}: {one.claim:g} is claimed where the witness has {between}"
