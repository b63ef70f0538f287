"""The four transitions, what brings a Failed machine back, and how long each may take.

See docs/reference/wire.md#provider-rpcs.
"""

from dataclasses import dataclass
from enum import StrEnum

from bigfleet.core.machines import CONFIGURE, CREATE, DELETE, DRAIN

# A grace is any int64; timers are not.
_LONGEST_SECONDS = 7 * 24 * 3600.0


class Kind(StrEnum):
    """A transition. The value is what metrics and last_error say."""

    CREATE = "create"
    CONFIGURE = "configure"
    DRAIN = "drain"
    DELETE = "delete"


TRANSITIONS = {Kind.CREATE: CREATE, Kind.CONFIGURE: CONFIGURE, Kind.DRAIN: DRAIN, Kind.DELETE: DELETE}

# What brings a Failed machine back (B705, docs/reference/wire.md#behaviour-numbers): the transition that failed, once
# more, or a step towards nothing.
# A drain that failed may have left workloads on the host: it is not configured for any cluster before it is drained.
# A lost machine (None) has no host any more: its slot can only be filled anew.
RECOVERY: dict[Kind | None, frozenset[Kind]] = {
    Kind.CREATE: frozenset({Kind.CREATE}),
    Kind.CONFIGURE: frozenset({Kind.CONFIGURE, Kind.DRAIN, Kind.DELETE}),
    Kind.DRAIN: frozenset({Kind.DRAIN, Kind.DELETE}),
    Kind.DELETE: frozenset({Kind.DELETE}),
    None: frozenset({Kind.CREATE}),
}


@dataclass(frozen=True)
class Timeouts:
    """Seconds until a transition that has not landed makes its machine Failed."""

    create_seconds: float = 300.0
    """From the ack of a Create to Idle."""
    configure_seconds: float = 300.0
    """Includes the wait for the node to be Ready."""
    delete_seconds: float = 300.0
    """From the ack of a Delete to Speculative."""
    drain_beyond_grace_seconds: float = 60.0
    """On top of the grace that the drain was asked with."""
    resumed_seconds: float = 60.0
    """What a transition that a restart interrupted has at least, unless its whole time-out is shorter."""

    def seconds(self, kind: Kind, grace_seconds: int = 0) -> float:
        match kind:
            case Kind.CREATE:
                return self.create_seconds
            case Kind.CONFIGURE:
                return self.configure_seconds
            case Kind.DELETE:
                return self.delete_seconds
            case Kind.DRAIN:
                return min(grace_seconds + self.drain_beyond_grace_seconds, _LONGEST_SECONDS)
