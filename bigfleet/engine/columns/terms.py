"""The spread terms of all profiles, in columns."""

from dataclasses import dataclass

import numpy as np

from bigfleet.engine.columns.fleet import Fleet
from bigfleet.engine.columns.growing import Ints, Longs


@dataclass(frozen=True, eq=False)
class Terms:
    """The spread terms of all profiles: those of profile p are at starts[p]:starts[p + 1]."""

    starts: Longs
    keys: Ints
    skews: Longs
    # Where in a row's balance the counts of a term begin, and how many values it has.
    offsets: Longs
    sizes: Longs

    @classmethod
    def of(cls, fleet: Fleet) -> "Terms":
        terms = fleet.profiles.terms
        flat = [term for one in terms for term in one]
        keys = np.array([key for key, _skew in flat], np.int32)
        sizes = np.array([len(fleet.kinds.values[key].texts) for key in keys.tolist()], np.int64)
        starts = np.cumsum([0] + [len(one) for one in terms]).astype(np.int64)
        before = np.cumsum(np.append(0, sizes))[:-1] if flat else np.zeros(0, np.int64)
        firsts = np.repeat(starts[:-1], np.diff(starts))
        return cls(starts, keys, np.array([skew for _key, skew in flat], np.int64), before - before[firsts], sizes)

    def rooms(self) -> Longs:
        """How many counts the balance of each profile's rows has."""
        before = np.append(0, np.cumsum(self.sizes))
        return np.asarray(before[self.starts[1:]] - before[self.starts[:-1]])
