"""A provider in virtual time: transitions that take a while, calls that are refused, machines that break or vanish."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from bigfleet.core.machines import (
    LEGAL_EDGES,
    UNASSIGNED,
    Assignment,
    CapacityType,
    Machine,
    MachineState,
    invariant_violation,
)
from bigfleet.engine import TRANSITION_OF, ActionKind
from bigfleet.errors import BigFleetError
from bigfleet.provider.fake.latency import Latency
from bigfleet.sim.world.timeline import Rank, Timeline

INSTANT = Latency(0.0, 0.0)

_S = MachineState


class CallRefused(BigFleetError):
    """The provider does not take the call; it may do so later."""


@dataclass(frozen=True)
class ProviderModel:
    """How a provider behaves when nothing special happens."""

    # Seconds that each action takes from call to end.
    latencies: dict[ActionKind, Latency] = field(default_factory=dict)
    # Share of each kind of action that ends Failed.
    failure_ratios: dict[ActionKind, float] = field(default_factory=dict)
    # A Failed machine is back after so long: bare metal as Idle, others as Speculative; 0 = never.
    repair_seconds: float = 0.0


class SimulatedProvider:
    """The truth about all machines. Shards learn of it through `news`."""

    def __init__(self, timeline: Timeline, model: ProviderModel, seed: int) -> None:
        self.machines: dict[str, Machine] = {}
        # Ids that changed since a shard looked, in order of change.
        self.news: dict[str, None] = {}
        # Calls that would be refused, by rule; each says why.
        self.refusals: list[Callable[[ActionKind, Machine], str]] = []
        # Actions of a kind that fail next, whatever the ratios say.
        self.fail_next: dict[ActionKind, int] = {}
        self.lost = 0
        # Configured machines, and since when they are.
        self.serving: dict[str, float] = {}
        # Machines that must be there: all that were ever added, less those that vanished.
        self.owned: set[str] = set()
        self._timeline = timeline
        self._model = model
        self._latency_random = Random(f"{seed}/latency")
        self._failure_random = Random(f"{seed}/failure")
        self._operations: dict[str, object] = {}

    def add(self, machine: Machine) -> None:
        violation = invariant_violation(machine)
        if violation:
            raise ValueError(f"machine {machine.id!r}: {violation[1]}")
        if machine.id in self.machines:
            raise ValueError(f"two machines are called {machine.id!r}")
        self.owned.add(machine.id)
        self._put(machine)

    def take_news(self) -> list[str]:
        """What changed since the last call."""
        changed, self.news = list(self.news), {}
        return changed

    # --- calls --------------------------------------------------------------------------------------------------

    def call(self, kind: ActionKind, machine_id: str, cluster: str = "", assignment: Assignment = UNASSIGNED) -> None:
        """Take an action; raises CallRefused. Its end is news later, or at once if it takes no time."""
        machine = self.machines.get(machine_id)
        if machine is None:
            raise CallRefused(f"no machine {machine_id!r}")
        for rule in self.refusals:
            if reason := rule(kind, machine):
                raise CallRefused(reason)
        _, through, target = TRANSITION_OF[kind]
        if through not in LEGAL_EDGES[machine.state]:
            raise CallRefused(f"{machine_id} is {machine.state.label}")
        bound = cluster if kind is ActionKind.BOOTSTRAP else machine.cluster
        # A Create carries no metadata: only the shard knows the demand for which the machine is bought.
        told = assignment if kind is ActionKind.BOOTSTRAP else UNASSIGNED
        echoed = machine.assignment if through is _S.DRAINING else told
        self._put(replace(machine, state=through, cluster=bound, assignment=echoed))
        operation = self._operations[machine_id] = object()
        seconds = self._model.latencies.get(kind, INSTANT).sample(self._latency_random)
        if seconds > 0:
            self._timeline.after(seconds, Rank.PROVIDER, lambda: self._complete(kind, machine_id, operation, target))
        else:
            self._complete(kind, machine_id, operation, target)

    def _complete(self, kind: ActionKind, machine_id: str, operation: object, target: MachineState) -> None:
        if self._operations.get(machine_id) is not operation:
            return  # lost meanwhile
        del self._operations[machine_id]
        if self._fails(kind):
            self._break(self.machines[machine_id], f"{kind} failed")
            return
        machine = self.machines[machine_id]
        if target is _S.CONFIGURED:
            self._put(replace(machine, state=target))
        else:
            host = f"host-{machine_id}" if target is _S.IDLE else ""
            self._put(replace(machine, state=target, host=host, cluster="", assignment=UNASSIGNED))

    def _fails(self, kind: ActionKind) -> bool:
        if self.fail_next.get(kind, 0):
            self.fail_next[kind] -= 1
            return True
        ratio = self._model.failure_ratios.get(kind, 0.0)
        return ratio > 0 and self._failure_random.random() < ratio

    # --- what happens to machines -------------------------------------------------------------------------------

    def lose(self, machine_id: str, error: str) -> None:
        """A machine breaks, whatever it was doing."""
        self.lost += 1
        self._operations.pop(machine_id, None)
        self._break(self.machines[machine_id], error)

    def vanish(self, machine_id: str) -> None:
        """A machine is gone for good: the provider no longer lists it."""
        self.lost += 1
        self._operations.pop(machine_id, None)
        del self.machines[machine_id]
        self.owned.discard(machine_id)
        self.serving.pop(machine_id, None)
        self.news[machine_id] = None

    def _break(self, machine: Machine, error: str) -> None:
        broken = replace(machine, state=_S.FAILED, cluster="", assignment=UNASSIGNED, last_error=error)
        self._put(broken)
        if self._model.repair_seconds > 0:
            self._timeline.after(self._model.repair_seconds, Rank.PROVIDER, lambda: self._repair(broken))

    def _repair(self, broken: Machine) -> None:
        if self.machines.get(broken.id) is not broken:
            return
        if broken.capacity_type is CapacityType.BARE_METAL:
            self._put(replace(broken, state=_S.IDLE, host=f"host-{broken.id}", last_error=""))
        else:
            self._put(replace(broken, state=_S.SPECULATIVE, host="", last_error=""))

    def _put(self, machine: Machine) -> None:
        self.machines[machine.id] = machine
        if machine.state is _S.CONFIGURED:
            self.serving.setdefault(machine.id, self._timeline.now)
        else:
            self.serving.pop(machine.id, None)
        self.news[machine.id] = None
