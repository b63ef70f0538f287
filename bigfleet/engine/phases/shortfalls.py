"""The shortfall ledger: demand that can't be met, per fingerprint, and for how long.

See docs/reference/engine.md#shortfalls.
"""

from collections.abc import Mapping

import numpy as np

from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.decisions import Shortfall
from bigfleet.engine.phases.acquisition import Short
from bigfleet.engine.phases.preemption import Preemption


class ShortfallLedger:
    """Ages of shortfalls, remembered between cycles."""

    def __init__(self) -> None:
        # Replaced, never changed: code that keeps a cycle's ages still sees them as they were.
        self.ages: Mapping[str, int] = {}

    def record(self, fleet: Fleet, short: Short, preemption: Preemption) -> list[Shortfall]:
        """This cycle's shortfalls: deficits of a fingerprint add up, its age grows by one; the others are forgotten.

        Sorted by priority, then older first.
        """
        unresolved = np.flatnonzero((preemption.deficits > 0).any(axis=1))
        ages: dict[str, int] = {}
        shortfalls = []
        for number in np.unique(short.profiles[unresolved]).tolist():
            profile = fleet.profiles.known[number]
            if profile is None:
                continue
            rows = preemption.deficits[unresolved[short.profiles[unresolved] == number]]
            # Python's integers: a sum over many rows may be larger than one amount may be.
            totals = rows.sum(axis=0).tolist() if rows.max() < 2**40 else [sum(column) for column in rows.T.tolist()]
            fingerprint = profile.fingerprint
            ages[fingerprint] = self.ages.get(fingerprint, 0) + 1
            shortfalls.append(Shortfall(fingerprint, profile, fleet.dimensions.read(totals), ages[fingerprint]))
        self.ages = ages
        return sorted(shortfalls, key=lambda s: (-s.profile.priority, -s.age_cycles, s.fingerprint))
