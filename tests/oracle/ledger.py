"""The shortfall ledger: demand that can't be met, per fingerprint, and for how long.

See docs/reference/engine.md#shortfalls.
"""

from collections.abc import Iterable

from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import Vector, add
from bigfleet.engine.decisions import Shortfall
from tests.oracle.phase2 import Unresolved


class ShortfallLedger:
    """By fingerprint. Ages are remembered between cycles."""

    def __init__(self) -> None:
        self._ages: dict[str, int] = {}

    def age(self, profile: NeedProfile) -> int:
        return self._ages.get(profile.fingerprint, 0)

    def record(self, unresolved: Iterable[Unresolved]) -> list[Shortfall]:
        """Deficits are added up; what does not come again is forgotten (docs/reference/engine.md#shortfalls).

        By priority, the older first; then by fingerprint. That a report carries a hundred is the shard's cut.
        """
        deficits: dict[str, Vector] = {}
        profiles: dict[str, NeedProfile] = {}
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
