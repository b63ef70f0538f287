"""What must go on is judged by its longest gap: a process that hangs is in no histogram."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from scaletest.judge.gates.gate import Reading
from scaletest.judge.gates.measures import LongestGap
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.prometheus import Point, Prometheus


async def longest_gap(
    prometheus: Prometheus, measure: LongestGap, expected: Sequence[str], stretch: Stretch
) -> Reading:
    found = await prometheus.series(measure.counter, stretch.start, stretch.end)
    rows: dict[str, list[list[Point]]] = {}
    for labels, points in found:
        rows.setdefault(labels.get(measure.member, ""), []).append(points)
    return worst_gap(rows, expected, stretch)


def worst_gap(rows: Mapping[str, Sequence[Sequence[Point]]], expected: Sequence[str], stretch: Stretch) -> Reading:
    """The longest gap of any member, named; one that was never seen has been away all the time."""
    gaps = {name: gap_of(rows.get(name, ()), stretch) for name in expected}
    if not gaps:
        return Reading(None)
    name, (since, until) = max(gaps.items(), key=lambda item: item[1][1] - item[1][0])
    detail = f"{name}, from {since - stretch.start:.0f} s to {until - stretch.start:.0f} s of the window"
    return Reading(round(until - since, 3), detail=detail, at=(since, until))


def gap_of(series: Sequence[Sequence[Point]], stretch: Stretch) -> tuple[float, float]:
    """The longest time between two moments at which a counter grew, or the window's ends; several lives count as one.

    A counter that fell was restarted, and counted since.
    """
    moments = {stretch.start, stretch.end}
    for points in series:
        before: float | None = None
        for at, value in points:
            if before is not None and value != before:
                moments.add(at)
            before = value
    ordered = sorted(moments)
    return max(pairwise(ordered), key=lambda pair: pair[1] - pair[0])
