"""A shard in virtual time: it cycles by timer or when woken, acts, and observes its machines (as bigfleet/shard)."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bigfleet.core.machines import TRANSITIONAL, UNASSIGNED, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.engine import TRANSITION_OF, Action, ActionKind, Decisions
from bigfleet.shard.convert import binding_of
from bigfleet.shard.inventory.inventory import kept_assignment
from bigfleet.sim.world.decider import Decider
from bigfleet.sim.world.provider import CallRefused, SimulatedProvider
from bigfleet.sim.world.timeline import Rank, Timeline

# As in bigfleet/shard/cycle.py: how often what is in flight is looked at, and the least time between two cycles.
_WATCH_SECONDS = 1.0
_SHORTEST_GAP_SECONDS = 0.1


class Operator(Protocol):
    """What a cluster hears from its shard."""

    @property
    def connected(self) -> bool: ...
    def node_ready(self, machine: Machine) -> None: ...
    def node_drained(self, machine_id: str) -> None: ...
    def node_lost(self, machine_id: str) -> None: ...
    def bind(self) -> None: ...


@dataclass(frozen=True)
class ShardModel:
    """How a shard of the simulation works."""

    # The longest time between two cycles.
    cycle_seconds: float = 10.0
    # Cycles by the timer only, and the provider is seen only then: one synchronous step per cycle (Appendix A).
    lockstep: bool = False
    # Off: the historic engine, which did not see what it had already ordered (before BF-0052).
    credits_creating: bool = True
    # Off: the kill switch or a dry run; everything is decided and nothing done.
    acts: bool = True


@dataclass(frozen=True)
class _Attempt:
    kind: ActionKind
    started: float
    target: MachineState


# Hears of every cycle: its decisions, and the actions that were really taken.
CycleListener = Callable[[Decisions, Sequence[Action]], None]


class SimulatedShard:
    """Knows what the provider last told it; the engine decides on that."""

    def __init__(self, timeline: Timeline, provider: SimulatedProvider, decider: Decider, model: ShardModel) -> None:
        self.operators: dict[str, Operator] = {}
        self.machines: dict[str, Machine] = {}
        self.states: Counter[MachineState] = Counter()
        self.cycles = 0
        self.outcomes: Counter[tuple[ActionKind, str]] = Counter()
        # What was decided and not done, because this shard does nothing; each cycle decides it anew.
        self.shelved: Counter[ActionKind] = Counter()
        # Seconds from Idle to Configured, one for each Bootstrap that succeeded.
        self.configure_seconds: list[float] = []
        self.on_cycle: CycleListener = lambda _decisions, _taken: None
        self._timeline = timeline
        self._provider = provider
        self._decider = decider
        self._model = model
        self._attempts: dict[str, _Attempt] = {}
        self._accepted: dict[str, Sequence[Need]] = {}
        # Clusters whose nodes changed, and whose Pods may therefore find another place.
        self._touched: dict[str, Operator] = {}
        self._planned = math.inf
        self._last_cycle = -math.inf
        self._look_at = math.inf

    @property
    def in_flight(self) -> int:
        return sum(self.states[state] for state in TRANSITIONAL)

    def start(self) -> None:
        """List the fleet and begin to cycle."""
        self._plan(self._timeline.now)

    def restart(self) -> None:
        """Die and come back: nothing is known but what the provider lists (docs/reference/engine.md#failures)."""
        self.reconcile()
        self._attempts.clear()
        self._accepted.clear()
        self.machines = dict(self._provider.machines)
        self._decider.restart(self.machines.values())

    def receive(self, cluster: str, needs: Sequence[Need]) -> bool:
        """A roll-up arrives; whether it was taken and said something new."""
        if self._accepted.get(cluster) is needs:
            self._decider.repeat_needs(cluster)  # the same list again
            return False
        verdict = self._decider.set_needs(cluster, needs)
        if verdict.accepted:
            self._accepted[cluster] = needs
        if verdict.accepted and verdict.changed:
            self._wake()
        return verdict.accepted and verdict.changed

    # --- when to cycle ------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._model.lockstep:
            self._plan(self._last_cycle + _SHORTEST_GAP_SECONDS)

    def _plan(self, when: float) -> None:
        when = max(when, self._timeline.now)
        if when >= self._planned:
            return
        self._planned = when

        def due() -> None:
            if self._planned == when:
                self._planned = math.inf
                self.cycle()
                self._plan(when + self._model.cycle_seconds)

        self._timeline.at(when, Rank.CYCLE, due)

    def _watch(self) -> None:
        """Look again soon while something is in flight, or when a machine that backs off may be tried."""
        if self._model.lockstep:
            return
        retry = self._decider.next_retry()
        waits = min(retry, _WATCH_SECONDS if self.in_flight else math.inf)
        when = self._timeline.now + waits
        if when >= self._look_at:
            return
        self._look_at = when

        def look() -> None:
            if self._look_at == when:
                self._look_at = math.inf
                if self.reconcile() or retry <= waits:
                    self._wake()
                self._watch()

        self._timeline.at(when, Rank.CYCLE, look)

    # --- one cycle ----------------------------------------------------------------------------------------------

    def cycle(self) -> Decisions:
        """Look at the provider, decide, act."""
        self.reconcile()
        self.cycles += 1
        self._last_cycle = self._timeline.now
        decisions = self._decider.cycle()
        taken: list[Action] = []
        if self._model.acts:
            taken = [action for action in decisions.actions if self._take(action)]
        else:
            self.shelved.update(action.kind for action in decisions.actions)
        self.reconcile()
        self.on_cycle(decisions, taken)
        self._watch()
        if not self._model.lockstep and decisions.again_at < math.inf:
            self._plan(max(decisions.again_at, self._last_cycle + _SHORTEST_GAP_SECONDS))
        return decisions

    def _take(self, action: Action) -> bool:
        machine = self.machines[action.machine_id]
        if action.machine_id in self._attempts or self._decider.held(action.machine_id):
            return False
        operator = self.operators.get(action.cluster)
        if action.kind is ActionKind.RECLAIM and operator and not operator.connected:
            return False  # a voluntary drain waits for the operator (ADR-36)
        _, through, target = TRANSITION_OF[action.kind]
        cluster, assignment = binding_of(action, machine)
        in_flight = replace(machine, state=through, cluster=cluster, assignment=assignment)
        try:
            self._provider.call(action.kind, machine.id, action.cluster, assignment)
        except CallRefused:
            self.outcomes[action.kind, "refused"] += 1
            self._decider.refused(action.kind, in_flight)
            return False
        self._decider.accepted(action.kind, in_flight)
        self._attempts[machine.id] = _Attempt(action.kind, self._timeline.now, target)
        self._put(in_flight)
        if through is MachineState.DRAINING:
            self._tell(machine.cluster, lambda operator: operator.node_drained(machine.id))
        return True

    # --- what the provider says ---------------------------------------------------------------------------------

    def reconcile(self) -> int:
        """Take over what changed; how many machines changed state."""
        changes = 0
        for machine_id in self._provider.take_news():
            seen = self._provider.machines.get(machine_id)
            known = self.machines.get(machine_id)
            changes += known is None or seen is None or known.state is not seen.state
            if seen is None:
                self._forget(machine_id)
            else:
                self._observe(known, seen)
        touched, self._touched = self._touched, {}
        for operator in touched.values():
            operator.bind()
        return changes

    def _observe(self, known: Machine | None, seen: Machine) -> None:
        self._put(replace(seen, assignment=kept_assignment(known, seen)) if known else seen)
        attempt = self._attempts.get(seen.id)
        if attempt and (seen.state is attempt.target or seen.state is MachineState.FAILED):
            self._finish(seen, attempt)
        was_ready = known is not None and known.state is MachineState.CONFIGURED
        if seen.state is MachineState.CONFIGURED and not was_ready:
            self._tell(seen.cluster, lambda operator: operator.node_ready(seen))
        elif known is not None and was_ready and seen.state is not MachineState.CONFIGURED:
            self._tell(known.cluster, lambda operator: operator.node_lost(seen.id))

    def _finish(self, machine: Machine, attempt: _Attempt) -> None:
        del self._attempts[machine.id]
        succeeded = machine.state is attempt.target
        self.outcomes[attempt.kind, "success" if succeeded else "failed"] += 1
        if succeeded:
            self._decider.arrived(machine.id)
            if attempt.kind is ActionKind.BOOTSTRAP:
                self.configure_seconds.append(self._timeline.now - attempt.started)

    def _forget(self, machine_id: str) -> None:
        machine = self.machines.pop(machine_id, None)
        if machine is None:
            return
        self.states[machine.state] -= 1
        self._decider.remove(machine_id)
        attempt = self._attempts.pop(machine_id, None)
        if attempt:
            self.outcomes[attempt.kind, "failed"] += 1
        if machine.state is MachineState.CONFIGURED:
            self._tell(machine.cluster, lambda operator: operator.node_lost(machine_id))

    def _put(self, machine: Machine) -> None:
        known = self.machines.get(machine.id)
        if known:
            self.states[known.state] -= 1
        self.states[machine.state] += 1
        self.machines[machine.id] = machine
        hidden = machine.state is MachineState.CREATING and not self._model.credits_creating
        self._decider.put(replace(machine, assignment=UNASSIGNED) if hidden else machine)

    def _tell(self, cluster: str, news: Callable[[Operator], None]) -> None:
        operator = self.operators.get(cluster)
        if operator:
            news(operator)
            self._touched[cluster] = operator


def state_counts(states: Mapping[MachineState, int]) -> dict[str, int]:
    """By label, without zeros, in the order of the life of a machine."""
    return {state.label: states[state] for state in MachineState if states.get(state)}
