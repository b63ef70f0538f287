"""What is known of every machine's binding, from any source: given to a cluster, joined, in service, leaving. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bigfleet.process.watermarks import Watermarks
from bigfleet.provider.fake.ledger.shapes import FleetShape, FleetShapes


@dataclass(slots=True)
class Binding:
    """A machine in a cluster; the last one of a machine is remembered when it is over."""

    machine_id: str
    cluster: str
    operation: str
    """Of the Configure that began it; empty for a machine that the cluster began with."""
    began: float
    ready: bool = False
    """Its Node is Ready now."""
    joined: bool = False
    """Its Node has been Ready since the binding began."""
    leaving: bool = False
    """A Drain was accepted."""
    over: bool = False

    @property
    def serves(self) -> bool:
        return self.ready and not self.leaving and not self.over

    @property
    def seeded(self) -> bool:
        return not self.operation


class ClusterFigures:
    """What one cluster has in service, in milli-units and nanodollars, and which machines it waits for."""

    def __init__(self) -> None:
        self.machines = Watermarks()
        self.price = Watermarks()
        self.allocatable: dict[str, Watermarks] = {}
        self.serving: set[str] = set()
        # Machines that were carried out and whose Node is not Ready: since when, oldest first.
        self.waiting: dict[str, float] = {}

    def add(self, machine_id: str, shape: FleetShape | None) -> None:
        self.serving.add(machine_id)
        self._count(shape, 1)

    def remove(self, machine_id: str, shape: FleetShape | None) -> None:
        self.serving.discard(machine_id)
        self._count(shape, -1)

    def _count(self, shape: FleetShape | None, sign: int) -> None:
        self.machines.add(sign)
        if shape is None:
            return
        self.price.add(sign * shape.nanodollars_per_hour)
        for resource, milli in shape.milli.items():
            self.allocatable.setdefault(resource, Watermarks()).add(sign * milli)


class Book:
    """The bindings of all machines. Times are the caller's, on one clock."""

    def __init__(self, shapes: FleetShapes) -> None:
        self._shapes = shapes
        self._bindings: dict[str, Binding] = {}
        self.clusters: dict[str, ClusterFigures] = {}

    def get(self, machine_id: str) -> Binding | None:
        return self._bindings.get(machine_id)

    def cluster(self, name: str) -> ClusterFigures:
        return self.clusters.setdefault(name, ClusterFigures())

    def live(self, machine_id: str) -> Binding | None:
        binding = self._bindings.get(machine_id)
        return binding if binding and not binding.over else None

    def begin(self, machine_id: str, cluster: str, operation: str, now: float) -> Binding:
        """A Configure was accepted. One that goes on after a restart is the same binding still."""
        known = self.live(machine_id)
        if known and (known.cluster, known.operation) == (cluster, operation):
            return known
        self.end(machine_id)
        self.cluster(cluster)
        binding = self._bindings[machine_id] = Binding(machine_id, cluster, operation, now)
        return binding

    def carried_out(self, machine_id: str, now: float) -> None:
        binding = self.live(machine_id)
        if binding and not binding.ready and not binding.leaving:
            self.cluster(binding.cluster).waiting.setdefault(machine_id, now)

    def arrived(self, machine_id: str, cluster: str) -> Binding | None:
        """The Node is Ready: the binding that it now serves, None if that is no news."""
        binding = self.live(machine_id)
        if binding is None or binding.cluster != cluster or binding.ready:
            return None
        binding.ready = True
        figures = self.cluster(cluster)
        figures.waiting.pop(machine_id, None)
        if not binding.leaving:
            figures.add(machine_id, self._shapes.get(machine_id))
        return binding

    def departed(self, machine_id: str, cluster: str, now: float) -> bool:
        """The Node is not Ready any more: whether the machine was in service. Then it waits for its Node again."""
        binding = self.live(machine_id)
        if binding is None or binding.cluster != cluster:
            return False
        served = self._retire(binding)
        binding.ready = False
        if served:
            self.cluster(cluster).waiting.setdefault(machine_id, now)
        return served

    def drain(self, machine_id: str) -> Binding | None:
        """A Drain was accepted: the binding, if the machine was in it and not leaving already."""
        binding = self.live(machine_id)
        if binding is None or binding.leaving:
            return None
        self._retire(binding)
        self.cluster(binding.cluster).waiting.pop(machine_id, None)
        binding.leaving = True
        return binding

    def end(self, machine_id: str) -> bool:
        """The binding is over: whether the machine was in service until now."""
        binding = self.live(machine_id)
        if binding is None:
            return False
        served = self._retire(binding)
        self.cluster(binding.cluster).waiting.pop(machine_id, None)
        binding.over = True
        return served

    def missing(self, cluster: str, ready: Iterable[str]) -> list[str]:
        """Machines in service that are not among those whose node is Ready."""
        return sorted(self.cluster(cluster).serving.difference(ready))

    def waiting_seconds(self, now: float) -> Iterator[tuple[str, float]]:
        """The age of each cluster's oldest machine that waits for its Node."""
        for name, figures in self.clusters.items():
            since = next(iter(figures.waiting.values()), now)
            yield name, max(0.0, now - since)

    def _retire(self, binding: Binding) -> bool:
        served = binding.serves
        if served:
            self.cluster(binding.cluster).remove(binding.machine_id, self._shapes.get(binding.machine_id))
        return served
