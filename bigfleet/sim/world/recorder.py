"""What a run was like: counters, series over time, and how long deciding took."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bigfleet.core.machines import MachineState
from bigfleet.engine import Action, ActionKind, Decisions
from bigfleet.scheduling.placement import used_share
from bigfleet.sim.world.cluster import Cluster
from bigfleet.sim.world.provider import SimulatedProvider
from bigfleet.sim.world.shard import SimulatedShard
from bigfleet.sim.world.timeline import Rank, Timeline

# States in which a machine is paid for.
_PAID = (
    MachineState.CREATING,
    MachineState.IDLE,
    MachineState.CONFIGURING,
    MachineState.CONFIGURED,
    MachineState.DRAINING,
    MachineState.DELETING,
)


@dataclass(frozen=True)
class FleetSample:
    """One look at the fleet."""

    at: float
    states: Mapping[str, int]
    pods: int
    bound: int
    shortfalls: int
    usd_per_hour: float
    # Part of the Configured capacity that Pods ask for, in the fullest dimension.
    used_share: float
    actions: Mapping[str, int]
    lost: int


class CycleFigures(NamedTuple):
    """One cycle, after it has acted."""

    at: float
    decided: int
    taken: int
    # Machines on their way: what the provider has still to do.
    in_flight: int
    shortfalls: int
    oldest_shortfall_cycles: int


@dataclass
class Recorder:
    """Listens to the cycles and samples the rest."""

    timeline: Timeline
    shard: SimulatedShard
    provider: SimulatedProvider
    clusters: Mapping[str, Cluster]
    sample_seconds: float
    samples: list[FleetSample] = field(default_factory=list)
    actions: Counter[ActionKind] = field(default_factory=Counter)
    # Virtual time of each action, by kind.
    times: dict[ActionKind, list[float]] = field(default_factory=lambda: {kind: [] for kind in ActionKind})
    cycles: list[CycleFigures] = field(default_factory=list)
    usd: float = 0.0
    on_sample: Callable[[FleetSample], None] = lambda _sample: None
    _price_since: float = 0.0
    _usd_per_hour: float = 0.0

    def start(self) -> None:
        self._sample()

    def cycle(self, decisions: Decisions, taken: Sequence[Action]) -> None:
        now = self.timeline.now
        for action in taken:
            self.actions[action.kind] += 1
            self.times[action.kind].append(now)
        oldest = max((shortfall.age_cycles for shortfall in decisions.shortfalls), default=0)
        decided, standing = len(decisions.actions), len(decisions.shortfalls)
        self.cycles.append(CycleFigures(now, decided, len(taken), self.shard.in_flight, standing, oldest))

    @property
    def standing(self) -> int:
        """Shortfalls of the last cycle."""
        return self.cycles[-1].shortfalls if self.cycles else 0

    def between(self, kind: ActionKind, start: float, end: float) -> int:
        """Actions of a kind after `start`, up to and at `end`."""
        return sum(start < at <= end for at in self.times[kind])

    def worst_shortfall(self, start: float, end: float) -> int:
        """The most shortfalls that stood at once at any time from `start` to `end`."""
        before = [cycle.shortfalls for cycle in self.cycles if cycle.at <= start]
        within = [cycle.shortfalls for cycle in self.cycles if start < cycle.at <= end]
        return max([*before[-1:], *within], default=0)

    def _sample(self) -> None:
        now = self.timeline.now
        self.usd += self._usd_per_hour * (now - self._price_since) / 3600
        self._price_since = now
        paid = (m.price_per_hour for m in self.shard.machines.values() if m.state in _PAID)
        self._usd_per_hour = sum(paid)
        sample = FleetSample(
            at=now,
            states={state.label: self.shard.states[state] for state in MachineState if self.shard.states[state]},
            pods=sum(cluster.pods for cluster in self.clusters.values()),
            bound=sum(cluster.bound for cluster in self.clusters.values()),
            shortfalls=self.standing,
            usd_per_hour=self._usd_per_hour,
            used_share=used_share(cluster.nodes.load() for cluster in self.clusters.values()),
            actions={kind.value: self.actions[kind] for kind in ActionKind},
            lost=self.provider.lost,
        )
        self.samples.append(sample)
        self.on_sample(sample)
        self.timeline.after(self.sample_seconds, Rank.SAMPLE, self._sample)
