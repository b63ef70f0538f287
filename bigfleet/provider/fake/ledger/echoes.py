"""What a shard stamps on a machine with Configure, and whether it is told back while the machine is bound. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from bigfleet.api.v1alpha1 import provider_pb2 as pb


class Stamp(NamedTuple):
    """The metadata of an accepted Configure."""

    operation: str
    metadata: Mapping[str, str]
    at: float


class Echoes:
    """The stamps of all bound machines. Times are the caller's, on one clock."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        # Configures that are not answered yet, by machine: either stamp may be told meanwhile.
        self._asked: Counter[str] = Counter()

    def ask(self, machine_id: str) -> None:
        self._asked[machine_id] += 1

    def answered(self, machine_id: str) -> None:
        self._asked[machine_id] -= 1
        if not self._asked[machine_id]:
            del self._asked[machine_id]

    def stamp(self, machine_id: str, operation: str, metadata: Mapping[str, str], state: int, now: float) -> None:
        """A Configure was accepted, its machine now in `state`. One that is repeated stamps nothing anew."""
        known = self._stamps.get(machine_id)
        repeated = known is not None and (known.operation == operation or state != pb.CONFIGURING)
        if not repeated:
            self._stamps[machine_id] = Stamp(operation, metadata, now)

    def forget(self, machine_id: str) -> None:
        """The binding is over."""
        self._stamps.pop(machine_id, None)

    def garbled(self, told: pb.Machine, asked_at: float) -> bool:
        """Whether an answer to what was asked then says something else than was stamped."""
        if not told.cluster:
            return bool(told.shard_metadata)  # cleared together with the cluster
        stamp = self._stamps.get(told.id)
        if stamp is None or stamp.at >= asked_at or told.id in self._asked:
            return False  # bound anew while this answer was made: the next one will be judged
        return dict(told.shard_metadata) != stamp.metadata
