"""How soon a step of demand is covered, and how soon its excess is given back."""

import math
from collections.abc import Sequence

from scaletest.judge.gates.gate import Reading
from scaletest.judge.gates.measures import Recovery
from scaletest.judge.gates.windows import SoakWindow, Stretch
from scaletest.judge.prometheus import Point, Prometheus
from scaletest.model.plan import Move

# Before the step; the level to which the fleet has to come back.
LEVEL_SECONDS = 30
# So many machines more than before are none: losses and their replacements overlap …
SPARE_SHARE, SPARE_MACHINES = 0.01, 2
# … and of what the step brought, so much may stay: Pods of other sizes have moved onto it meanwhile.
KEPT_SHARE = 0.5


async def read_recovery(prometheus: Prometheus, measure: Recovery, soak: SoakWindow) -> Reading:
    """The slowest of the steps upwards, or downwards."""
    slowest: Reading | None = None
    for move in soak.moves:
        if move.up is not measure.up:
            continue
        window = soak.of(move)
        if measure.up:
            reading = covered_after(_points(await prometheus.series(measure.query, window.start, window.end)), window)
        else:
            step = rise_before(soak, move)
            earlier = _points(await prometheus.series(measure.query, step - LEVEL_SECONDS, step))
            later = _points(await prometheus.series(measure.query, window.start, window.end))
            reading = returned_after(earlier, later, window)
        if slowest is None or reading.value is None or (slowest.value or 0.0) < reading.value:
            slowest = reading
        if slowest.value is None:
            break
    return slowest or Reading(None)


def rise_before(soak: SoakWindow, fall: Move) -> float:
    """When the step upwards began that a step downwards ends: excess is what came with it."""
    rises = [move for move in soak.moves if move.up and move.at_seconds < fall.at_seconds]
    return soak.start + (rises[-1] if rises else fall).at_seconds


def _points(found: Sequence[tuple[object, Sequence[Point]]]) -> list[Point]:
    return [point for _, points in found for point in points if math.isfinite(point[1])]


def covered_after(uncovered_seconds: Sequence[Point], window: Stretch) -> Reading:
    """The longest time for which some cluster lacked capacity in the window of a step upwards."""
    if not uncovered_seconds:
        return Reading(None)
    at, longest = max(uncovered_seconds, key=lambda point: point[1])
    return Reading(longest, at=(max(window.start, at - longest), at))


def returned_after(before: Sequence[Point], after: Sequence[Point], window: Stretch) -> Reading:
    """From a step downwards until no more machines are held than before the step upwards, for good."""
    if not before or not after:
        return Reading(None)
    level = max(value for _, value in before)
    rise = max(value for _, value in after) - level
    allowed = level + max(SPARE_MACHINES, SPARE_SHARE * level, KEPT_SHARE * rise)
    beyond = [(at, value) for at, value in after if value > allowed]
    if not beyond:
        return Reading(0.0)
    last, held = beyond[-1]
    if last >= after[-1][0]:
        problem = f"{held:g} machines are still held at its end, {level:g} were before"
        return Reading(window.seconds + 1.0, problem=problem, at=(window.start, window.end))
    return Reading(round(last - window.start, 3), at=(window.start, last))
