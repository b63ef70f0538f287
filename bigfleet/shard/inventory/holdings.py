"""What each cluster has: its Configured machines added up, kept while machines come and go."""

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from bigfleet.core.machines import Machine, MachineState

# Whole numbers add up and are taken away again without a trace, which dollars in floats do not.
_NANO_DOLLARS = 1e9
# Above this, a price is a mistake; it must not cost us the sum.
_DEAREST = 1e9


@dataclass
class Holding:
    """The Configured machines of one cluster together."""

    machines: int = 0
    nano_dollars_per_hour: int = 0
    # Milli-units. A resource that the last machine took with it stays, at 0.
    allocatable: Counter[str] = field(default_factory=Counter)

    @property
    def dollars_per_hour(self) -> float:
        return self.nano_dollars_per_hour / _NANO_DOLLARS


class Holdings:
    """Cluster → its holding. One whose machines are all gone stays, at 0. Nothing is kept of a single machine."""

    def __init__(self) -> None:
        self.by_cluster: dict[str, Holding] = {}
        # Clusters whose holding changed and that `Claims.changes` has not taken over yet.
        self.changed: set[str] = set()

    def count(self, machine: Machine, step: int) -> None:
        """Add a machine (step 1) or take it away as it was added (−1); only Configured ones count."""
        if machine.state is not MachineState.CONFIGURED:
            return
        cluster = machine.cluster
        holding = self.by_cluster.get(cluster)
        if holding is None:
            holding = self.by_cluster[cluster] = Holding()
        holding.machines += step
        holding.nano_dollars_per_hour += step * _nano_dollars(machine.price_per_hour)
        allocatable = holding.allocatable
        for name, milli in machine.allocatable.items():
            allocatable[name] += step * milli
        self.changed.add(cluster)


# A fleet has few prices and many machines.
@lru_cache(maxsize=4096)
def _nano_dollars(price: float) -> int:
    return round(min(price, _DEAREST) * _NANO_DOLLARS)
