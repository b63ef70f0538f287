"""Which machines a shard would keep: those in its topology domains. A hint that makes List's answers smaller."""

from collections.abc import Callable, Iterable

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.provider.kit.records import MachineRecord

Domain = tuple[str, str]
Owned = Callable[[MachineRecord], bool]


class ShardDomains:
    """(topology key, value) pairs by shard. A shard that is not named here is sent every machine."""

    def __init__(self, assignments: Iterable[str] = ()) -> None:
        """Each is `SHARD:KEY=VALUE`; raises ValueError."""
        self._domains: dict[str, set[Domain]] = {}
        for text in assignments:
            shard_id, _, domain = text.partition(":")
            key, _, value = domain.partition("=")
            if not (shard_id and key and value):
                raise ValueError(f"shard domain {text!r} is not SHARD:KEY=VALUE")
            self._domains.setdefault(shard_id, set()).add((key, value))

    def owned_by(self, shard_id: str) -> Owned | None:
        """Whether a machine lies in one of the shard's domains; None when it may own any."""
        domains = self._domains.get(shard_id)
        if domains is None:
            return None
        return lambda machine: any(_attribute(machine, key) == value for key, value in domains)


def _attribute(machine: MachineRecord, key: str) -> str | None:
    shape = machine.shape
    if key == INSTANCE_TYPE_KEY:
        return shape.instance_type
    return shape.zone if key == ZONE_KEY else shape.labels.get(key)
