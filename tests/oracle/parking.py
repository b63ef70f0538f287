"""Parking: a gang that can't be placed stops holding a domain's free machines (spec/engine.md §3.9, ADR-0042)."""

from collections.abc import Iterable

from tests.oracle.fill import Fill


class Parking:
    """§3.9 "Parking (Same only; key cluster+group+fingerprint)". Remembered between cycles."""

    def __init__(self, park_after_cycles: int, probe_every: int) -> None:
        self._park_after_cycles = park_after_cycles
        self._probe_every = probe_every
        self._hopeless_cycles: dict[tuple[str, str, str], int] = {}

    def stamp(self, fill: Fill) -> None:
        """§3.9 "at ≥8 cycles Need is stamped parked except when counter % 32 == 0 (re-probe)".

        The age (§2.5 field 13) counts the cycles since the gang was first parked, probes included.
        """
        hopeless = self._hopeless_cycles.get(fill.need.key, 0)
        if fill.need.profile.same is None or hopeless < self._park_after_cycles:
            return
        fill.parked = hopeless % self._probe_every != 0
        fill.parked_age_cycles = hopeless - self._park_after_cycles + 1

    def update(self, fills: Iterable[Fill]) -> None:
        """§3.9 "counter++ each cycle the Need is unsatisfied AND …, else entry removed"."""
        self._hopeless_cycles = {
            fill.need.key: self._hopeless_cycles.get(fill.need.key, 0) + 1 for fill in fills if hopeless(fill)
        }


def hopeless(fill: Fill) -> bool:
    """§3.9 "unsatisfied AND acquired 0 AND not structurally satisfiable"."""
    return fill.need.profile.same is not None and not fill.met and fill.acquired == 0 and not fill.satisfiable
