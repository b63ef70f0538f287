"""A need: one cluster's aggregate demand of one profile (and one gang)."""

from dataclasses import dataclass, field

from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import Vector


@dataclass(frozen=True)
class Need:
    """`aggregate` in total, on machines that each cover `min_unit`."""

    cluster: str
    profile: NeedProfile
    aggregate: Vector = field(hash=False)
    min_unit: Vector = field(hash=False)
    group: str = ""
    # First sight of (cluster, fingerprint, group) in seconds; older needs go first among equal priorities.
    arrival: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """(cluster, fingerprint, group): what a later roll-up replaces."""
        return self.cluster, self.profile.fingerprint, self.group
