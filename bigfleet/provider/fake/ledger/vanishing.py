"""Nodes that left a cluster although their machine was neither struck nor drained. Pure."""

from typing import NamedTuple

# An operator that has emptied a node says so before its shard asks the provider for the Drain: the Node goes first. A
# shard that is held up for this long has not asked at all.
EXPLAINED_WITHIN_SECONDS = 30.0


class Departure(NamedTuple):
    """A Node that has left, and no cause is known yet."""

    machine_id: str
    cluster: str
    since: float


class Vanishing:
    """A departure that nothing explains within its time is a violation, also when the Node has come back."""

    def __init__(self) -> None:
        self._suspects: dict[str, Departure] = {}

    def suspect(self, machine_id: str, cluster: str, now: float) -> None:
        # The first one stands: it is judged before the second is due.
        self._suspects.setdefault(machine_id, Departure(machine_id, cluster, now))

    def explain(self, machine_id: str) -> None:
        """The machine was struck, a shard asked for its Drain, or its binding has ended."""
        self._suspects.pop(machine_id, None)

    def excuse(self, seconds: float) -> None:
        """The ledger looks so many seconds late: an explanation may have come and not been read yet."""
        self._suspects = {
            machine_id: suspect._replace(since=suspect.since + seconds)
            for machine_id, suspect in self._suspects.items()
        }

    def convicted(self, now: float) -> list[Departure]:
        """Those whose time is over, each told once."""
        due = []
        for suspect in self._suspects.values():
            if suspect.since > now - EXPLAINED_WITHIN_SECONDS:
                break  # the others are later still
            due.append(suspect)
        for suspect in due:
            del self._suspects[suspect.machine_id]
        return due
