"""Slots that machines take of a provider's region: everything but a Speculative machine takes one."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

from bigfleet.core.machines import Machine, MachineState

REGION_KEY = "topology.kubernetes.io/region"
# A provider's name and a machine's region label, empty where it has none.
Place = tuple[str, str]


class SlotCounts:
    """Machines by place: how many take a slot, and which could take one. Nothing is counted before it is `watched`."""

    def __init__(self, provider_of: Callable[[str], str]) -> None:
        self._provider_of = provider_of
        self._taken: Counter[Place] = Counter()
        self._free: defaultdict[Place, set[str]] = defaultdict(set)
        self._watched = False

    def watch(self, machines: Iterable[Machine]) -> None:
        """Count from now on; `machines` are all that there are."""
        if self._watched:
            return
        self._watched = True
        for machine in machines:
            self.count(machine, 1)

    def place(self, machine: Machine) -> Place:
        return self._provider_of(machine.id), machine.labels.get(REGION_KEY, "")

    def taken(self, place: Place) -> int:
        return self._taken[place]

    def free(self, place: Place) -> Collection[str]:
        """Ids of Speculative machines."""
        return self._free.get(place, ())

    def count(self, machine: Machine, step: int) -> None:
        """Add a machine (step 1) or take it away as it was added (−1)."""
        if not self._watched:
            return
        place = self.place(machine)
        if machine.state is not MachineState.SPECULATIVE:
            self._taken[place] += step
        elif step > 0:
            self._free[place].add(machine.id)
        else:
            self._free[place].discard(machine.id)
