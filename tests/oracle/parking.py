"""Parking: a gang that can't be placed stops holding a domain's free machines (spec/engine.md §3.9, ADR-0042)."""

from collections.abc import Iterable

from bigfleet.engine.fill import Fill


class Parking:
    """Counts, per gang, the cycles in which it could not be placed at all. Remembered between cycles."""

    def __init__(self, park_after_cycles: int, probe_every: int) -> None:
        self._park_after_cycles = park_after_cycles
        self._probe_every = probe_every
        self._hopeless_cycles: dict[tuple[str, str, str], int] = {}

    def stamp(self, fill: Fill) -> None:
        """Mark a gang that has been hopeless for long, except in cycles in which it probes (spec/engine.md §3.9)."""
        hopeless = self._hopeless_cycles.get(fill.need.key, 0)
        if fill.need.profile.same is None or hopeless < self._park_after_cycles:
            return
        fill.parked = hopeless % self._probe_every != 0
        fill.parked_age_cycles = hopeless - self._park_after_cycles + 1

    def update(self, fills: Iterable[Fill]) -> None:
        """Count this cycle; a gang that is placed, that acquires or that has gone starts anew (spec/engine.md §3.9)."""
        self._hopeless_cycles = {
            fill.need.key: self._hopeless_cycles.get(fill.need.key, 0) + 1 for fill in fills if _hopeless(fill)
        }


def _hopeless(fill: Fill) -> bool:
    """Unsatisfied, nothing acquired, and no domain that could ever do (spec/engine.md §3.9)."""
    return fill.need.profile.same is not None and not fill.met and fill.acquired == 0 and not fill.satisfiable
