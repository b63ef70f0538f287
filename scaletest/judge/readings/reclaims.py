"""Reclaims at steady demand, counted from the first quiet moment: a storm that goes on for ever has none."""

from collections.abc import Sequence
from itertools import pairwise

from scaletest.judge.gates.figures import RECLAIMS
from scaletest.judge.gates.gate import Reading
from scaletest.judge.gates.hop_gates import RECLAIM_QUIET_SECONDS
from scaletest.judge.gates.windows import Stretch
from scaletest.judge.prometheus import Point, Prometheus, grown

# A quiet while begins at a sample, and the first one is up to so much later than the time that was asked for.
_SCRAPE_SECONDS = 10


async def read_reclaims(prometheus: Prometheus, counted_from: float, stretches: Sequence[Stretch]) -> Reading:
    """Reclaims since the fleet was free of them for a while, at `counted_from` or later."""
    since, until = counted_from - RECLAIM_QUIET_SECONDS - _SCRAPE_SECONDS, stretches[-1].end
    found = [points for _, points in await prometheus.series(RECLAIMS, since, until)]
    return count_reclaims(found, counted_from, stretches)


def count_reclaims(found: Sequence[Sequence[Point]], counted_from: float, stretches: Sequence[Stretch] = ()) -> Reading:
    """Count from the first quiet moment on; where none comes, the count of all of it fails its gate.

    With `stretches`, what falls between them is left out: there machines have to go.
    """
    growths: dict[float, float] = {}
    for row in found:
        for before, after in pairwise(row):
            growths[after[0]] = growths.get(after[0], 0.0) + grown([before[1], after[1]])
    if max(growths, default=0.0) < counted_from:
        return Reading(None)  # no scrape since `counted_from`

    def counts(at: float) -> bool:
        return not stretches or any(one.start <= at <= one.end for one in stretches)

    quiet_since = min(row[0][0] for row in found if row)
    for at, grew in sorted(growths.items()):
        if grew:
            quiet_since = at
        elif at >= counted_from and at - quiet_since >= RECLAIM_QUIET_SECONDS:
            return Reading(sum(later for when, later in growths.items() if when > at and counts(when)))
    return Reading(sum(growths.values()), problem=f"reclaims never paused for {RECLAIM_QUIET_SECONDS} s")
