"""A whole simulated world, put together and run: provider, shard, clusters, one timeline."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from bigfleet.core.machines import TRANSITIONAL, UNASSIGNED, Machine, MachineState
from bigfleet.engine import EngineOptions
from bigfleet.sim.world.cluster import Cluster, ClusterModel
from bigfleet.sim.world.decider import Decider
from bigfleet.sim.world.provider import ProviderModel, SimulatedProvider
from bigfleet.sim.world.recorder import Recorder
from bigfleet.sim.world.shard import ShardModel, SimulatedShard
from bigfleet.sim.world.timeline import Rank, Timeline

_SAMPLES = 400


@dataclass(frozen=True)
class WorldModel:
    """Everything about a world but its machines and its demand."""

    seed: int = 1
    engine: EngineOptions = field(default_factory=EngineOptions)
    # Hold a roll-up that drops nearly all demand until it was confirmed twice.
    guard: bool = True
    shard: ShardModel = field(default_factory=ShardModel)
    provider: ProviderModel = field(default_factory=ProviderModel)
    cluster: ClusterModel = field(default_factory=ClusterModel)
    # Seconds between two roll-ups of a cluster. Clusters report one after the other, not all at once.
    rollup_seconds: float = 10.0


class Simulation:
    """Build it, add clusters and events, run it."""

    def __init__(self, model: WorldModel, machines: Iterable[Machine], clusters: Iterable[str], seconds: float) -> None:
        self.model = model
        self.seconds = seconds
        self.timeline = Timeline()
        self.provider = SimulatedProvider(self.timeline, model.provider, model.seed)
        for machine in machines:
            self.provider.add(machine)
        dimensions = sorted({name for machine in self.provider.machines.values() for name in machine.allocatable})
        self.clusters = {name: Cluster(name, self.timeline, dimensions, model.cluster) for name in clusters}
        self.decider = Decider(model.engine, model.guard, lambda: self.timeline.now)
        self.shard = SimulatedShard(self.timeline, self.provider, self.decider, model.shard)
        # Machines that each storm hit, by its time: one that hits nothing proves nothing.
        self.struck: dict[float, int] = {}
        # Hears of each roll-up that said something new: (cluster, rows).
        self.on_rollup: Callable[[str, int], None] = lambda _cluster, _rows: None
        self.recorder = Recorder(self.timeline, self.shard, self.provider, self.clusters, max(1.0, seconds / _SAMPLES))
        self.shard.on_cycle = self.recorder.cycle

    def random(self, purpose: str) -> Random:
        """Numbers of their own for each purpose, so that a change in one does not shift the others."""
        return Random(f"{self.model.seed}/{purpose}")

    def prepare(self) -> None:
        """Let the shard list its fleet, and the clusters learn of their nodes; no Pod is placed yet."""
        self.shard.reconcile()
        for machine in self.shard.machines.values():
            if machine.state is MachineState.CONFIGURED and machine.cluster in self.clusters:
                self.clusters[machine.cluster].node_ready(machine)
        self.shard.operators.update(self.clusters)

    def start(self) -> None:
        """Plan the first roll-ups, cycle and sample."""
        every = self.model.rollup_seconds
        for index, cluster in enumerate(self.clusters.values()):
            offset = 0.0 if self.model.shard.lockstep else every * index / len(self.clusters)
            self._report(cluster, offset)
        self.shard.start()
        self.recorder.start()

    def run(self) -> None:
        """From the beginning to the end."""
        self.prepare()
        for cluster in self.clusters.values():
            cluster.bind()
        self.start()
        self.timeline.run_until(self.seconds)

    def _report(self, cluster: Cluster, when: float) -> None:
        def report() -> None:
            # What found no place when its Pod came may find one now: Pods have left since.
            cluster.bind()
            needs = cluster.rollup()
            if not cluster.partitioned and self.shard.receive(cluster.name, needs):
                self.on_rollup(cluster.name, len(needs))
            self._report(cluster, self.timeline.now + self.model.rollup_seconds)

        self.timeline.at(when, Rank.ROLLUP, report)

    def problems(self) -> list[str]:
        """What must never be true, whatever happened: a machine leaked, or a state that the truth does not have."""
        found = []
        known = {machine.id: _as_told(machine) for machine in self.shard.machines.values()}
        truth = self.provider.machines
        if leaked := sorted(self.provider.owned ^ truth.keys()):
            found.append(f"{len(leaked)} machines leaked, the first is {leaked[0]}")
        unseen = self.provider.news.keys()
        if apart := [i for i in known.keys() | truth.keys() if i not in unseen and known.get(i) != truth.get(i)]:
            found.append(f"the shard is wrong about {len(apart)} machines, the first is {min(apart)}")
        for cluster in self.clusters.values():
            ready = {m.id for m in known.values() if m.state is MachineState.CONFIGURED and m.cluster == cluster.name}
            if missing := sorted(ready - cluster.nodes.rows.keys()):
                found.append(f"{cluster.name} has no node for {missing[0]}")
        return found

    def unsettled(self) -> dict[str, str]:
        """Machines that are on their way or broken, with their state."""
        stuck = (*TRANSITIONAL, MachineState.FAILED)
        return {m.id: m.state.label for m in self.provider.machines.values() if m.state in stuck}


def _as_told(machine: Machine) -> Machine:
    """What a provider can know of a machine: not the demand for which it is being created."""
    return replace(machine, assignment=UNASSIGNED) if machine.state is MachineState.CREATING else machine
