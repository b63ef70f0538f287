"""Machines counted by topology domain: what a shard tells the coordinators of the domains that its providers list."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from bigfleet.core.machines import Machine, MachineState


class DomainCounts:
    """The machines of one domain: by instance type and state, and by the cluster that they are bound to."""

    __slots__ = ("bound", "machines")

    def __init__(self) -> None:
        self.machines: Counter[tuple[str, MachineState]] = Counter()
        self.bound: Counter[str] = Counter()

    def widen(self, other: "DomainCounts") -> None:
        """The larger of both counts, everywhere."""
        self.machines |= other.machines
        self.bound |= other.bound


class DomainTally:
    """Domains of one topology key, by value. Nothing is kept of a single machine."""

    def __init__(self, key: str = "") -> None:
        self.key = key
        self._by_value: defaultdict[str, DomainCounts] = defaultdict(DomainCounts)

    def count(self, machine: Machine, step: int = 1) -> None:
        """Add a machine (step 1) or take it away as it was added (−1); nothing without a key."""
        value = machine.attribute(self.key) if self.key else None
        if value is None:
            return
        counts = self._by_value[value]
        counts.machines[machine.instance_type, machine.state] += step
        if not counts.machines[machine.instance_type, machine.state]:
            del counts.machines[machine.instance_type, machine.state]
        if machine.cluster:
            counts.bound[machine.cluster] += step
            if not counts.bound[machine.cluster]:
                del counts.bound[machine.cluster]
        if not counts.machines:
            del self._by_value[value]

    def cluster_in(self, value: str) -> str | None:
        """A cluster that machines of this domain are bound to, if there is one."""
        return next(iter(self._by_value[value].bound), None) if value in self._by_value else None

    def __contains__(self, value: str | None) -> bool:
        return value in self._by_value

    def items(self) -> Iterator[tuple[str, DomainCounts]]:
        yield from self._by_value.items()


def together(*tallies: DomainTally) -> dict[str, DomainCounts]:
    """The domains of several tallies. One that changes hands is in two of them, and is not counted twice."""
    found: defaultdict[str, DomainCounts] = defaultdict(DomainCounts)
    for tally in tallies:
        for value, counts in tally.items():
            found[value].widen(counts)
    return dict(found)
