"""Parking: a gang that can't be placed stops holding a domain's free machines (docs/reference/engine.md#parking)."""

from collections.abc import Iterable

from tests.oracle.fill import Fill


class Parking:
    """Hopeless cycles of each gang. Remembered between cycles."""

    def __init__(self, park_after_cycles: int, probe_every: int) -> None:
        self._park_after_cycles = park_after_cycles
        self._probe_every = probe_every
        self._hopeless_cycles: dict[tuple[str, str, str], int] = {}

    def stamp(self, fill: Fill) -> None:
        """Park a gang that has been hopeless for long, except in the cycles in which it probes.

        See docs/reference/engine.md#parking.

        The age counts the cycles since the gang was first parked, probes included.
        """
        hopeless = self._hopeless_cycles.get(fill.need.key, 0)
        if fill.need.profile.same is None or hopeless < self._park_after_cycles:
            return
        fill.parked = hopeless % self._probe_every != 0
        fill.parked_age_cycles = hopeless - self._park_after_cycles + 1

    def update(self, fills: Iterable[Fill]) -> None:
        """Count this cycle; a gang that has any hope starts anew (docs/reference/engine.md#parking)."""
        self._hopeless_cycles = {
            fill.need.key: self._hopeless_cycles.get(fill.need.key, 0) + 1 for fill in fills if hopeless(fill)
        }


def hopeless(fill: Fill) -> bool:
    """Short, acquired nothing, and its domain could never do (docs/reference/engine.md#parking)."""
    return fill.need.profile.same is not None and not fill.met and fill.acquired == 0 and not fill.satisfiable
