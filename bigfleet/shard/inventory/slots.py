"""Slots that machines take of a provider's region: everything but a Speculative machine takes one."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection

from bigfleet.core.machines import Machine, MachineState

REGION_KEY = "topology.kubernetes.io/region"
# A provider's name and a machine's region label, empty where it has none.
Place = tuple[str, str]


class SlotCounts:
    """Machines by place. The free ones are named only where somebody has to know them (`watch`)."""

    def __init__(self, provider_of: Callable[[str], str]) -> None:
        self._provider_of = provider_of
        self._taken: Counter[Place] = Counter()
        self._free: defaultdict[Place, set[str]] = defaultdict(set)
        self._watched = False

    def watch(self, machines: Collection[Machine]) -> None:
        """Name the Speculative machines from now on; `machines` are all that there are."""
        if self._watched:
            return
        self._watched = True
        for machine in machines:
            if machine.state is MachineState.SPECULATIVE:
                self._free[self.place(machine)].add(machine.id)

    def place(self, machine: Machine) -> Place:
        return self._provider_of(machine.id), machine.labels.get(REGION_KEY, "")

    def taken(self, place: Place) -> int:
        return self._taken[place]

    def free(self, place: Place) -> Collection[str]:
        """Ids of Speculative machines."""
        return self._free.get(place, ())

    def count(self, machine: Machine, step: int) -> None:
        """Add a machine (step 1) or take it away as it was added (−1)."""
        if machine.state is not MachineState.SPECULATIVE:
            self._taken[self.place(machine)] += step
        elif self._watched:
            free = self._free[self.place(machine)]
            (free.add if step > 0 else free.discard)(machine.id)
