"""The shortfall ledger: demand that can't be met, per fingerprint, and for how long (spec/engine.md §3.12)."""

from collections.abc import Iterable

from bigfleet.core.requirements import Profile
from bigfleet.core.vectors import Vector, add
from bigfleet.engine.decisions import Shortfall
from bigfleet.engine.phase2 import Unresolved


class ShortfallLedger:
    """Ages of shortfalls, remembered between cycles."""

    def __init__(self) -> None:
        self._ages: dict[str, int] = {}

    def age(self, profile: Profile) -> int:
        return self._ages.get(profile.fingerprint, 0)

    def record(self, unresolved: Iterable[Unresolved]) -> list[Shortfall]:
        """This cycle's shortfalls: deficits of a fingerprint add up, its age grows by one; the others are forgotten.

        Sorted by priority, then older first (spec/engine.md §3.12).
        """
        deficits: dict[str, Vector] = {}
        profiles: dict[str, Profile] = {}
        for entry in unresolved:
            profile = entry.fill.need.profile
            profiles[profile.fingerprint] = profile
            deficits[profile.fingerprint] = add(deficits.get(profile.fingerprint, {}), entry.deficit)
        self._ages = {fingerprint: self._ages.get(fingerprint, 0) + 1 for fingerprint in deficits}
        shortfalls = (
            Shortfall(fingerprint, profiles[fingerprint], deficit, self._ages[fingerprint])
            for fingerprint, deficit in deficits.items()
        )
        return sorted(shortfalls, key=lambda s: (-s.profile.priority, -s.age_cycles, s.fingerprint))
