"""What must hold in every cycle of every world, whatever the rules in detail."""

from collections import Counter
from collections.abc import Iterator

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.vectors import covers, is_zero
from bigfleet.engine.decisions import ActionKind, Decisions, NeedView, UnmetReason
from tests.agreement.world import Disagreement, World
from tests.oracle.snapshot import smallest_useful_machine

STARTS_FROM = {
    ActionKind.BOOTSTRAP: MachineState.IDLE,
    ActionKind.PROVISION: MachineState.SPECULATIVE,
    ActionKind.PREEMPT: MachineState.CONFIGURED,
    ActionKind.RECLAIM: MachineState.CONFIGURED,
    ActionKind.DELETE: MachineState.IDLE,
}
_CREDITABLE = (MachineState.CONFIGURED, MachineState.CONFIGURING, MachineState.CREATING)
_FREE = (MachineState.IDLE, MachineState.SPECULATIVE)


class WatchedWorld(World):
    """A world whose engine is held to the invariants instead of to the oracle."""

    def decide(self) -> Decisions:
        decisions = self.engine.cycle(self.fleet, self.now)
        broken = list(violations(self, decisions))
        if broken:
            raise Disagreement("\n".join(broken))
        return decisions


def violations(world: World, decisions: Decisions) -> Iterator[str]:
    """Sentences about what does not hold."""
    yield from _actions_are_possible(world, decisions)
    yield from _machines_serve_one_need(world, decisions)
    yield from _priority_order_holds(world, decisions)
    yield from _gangs_stay_together(world, decisions)
    yield from _reclaims_are_few_and_asked_for(world, decisions)
    yield from _reports_are_consistent(decisions)


def _actions_are_possible(world: World, decisions: Decisions) -> Iterator[str]:
    """One action per machine, from the state that it starts from, for the cluster that has the machine."""
    for machine_id, count in Counter(action.machine_id for action in decisions.actions).items():
        if count > 1:
            yield f"{machine_id!r} is acted on {count} times"
    for action in decisions.actions:
        machine = world.machines.get(action.machine_id)
        if machine is None or machine.state is not STARTS_FROM[action.kind]:
            yield f"{action} on {machine}"
        elif action.kind in (ActionKind.PREEMPT, ActionKind.RECLAIM) and action.cluster != machine.cluster:
            yield f"{action} takes from another cluster than {machine}"
        elif action.profile is not None and not action.profile.matches(machine.attribute):
            yield f"{action} on a machine that does not match: {machine}"
        elif action.kind is ActionKind.DELETE:
            held = world.now - world.idle_since.get(machine.id, world.now)
            if held <= world.options.idle_hold(machine.capacity_type):
                yield f"{action} after {held} s only"


def _machines_serve_one_need(world: World, decisions: Decisions) -> Iterator[str]:
    kinds = Counter(action.kind for action in decisions.actions)
    states = Counter(machine.state for machine in world.machines.values())
    if sum(view.bootstraps for view in decisions.views) != kinds[ActionKind.BOOTSTRAP]:
        yield "the views count other bootstraps than the actions"
    if sum(view.provisions for view in decisions.views) != kinds[ActionKind.PROVISION]:
        yield "the views count other provisions than the actions"
    if sum(view.claimed for view in decisions.views) > sum(states[state] for state in _CREDITABLE):
        yield "more machines are claimed than there are"
    # A machine that serves a need may be preempted from it, but not be reclaimed.
    reported = world.demand()
    of_reported = sum(m.state is MachineState.CONFIGURED and m.cluster in reported for m in world.machines.values())
    claimed = sum(view.claimed for view in decisions.views) - states[MachineState.CONFIGURING]
    put_off = sum(decisions.reclaims_capped.values())
    if claimed - states[MachineState.CREATING] + kinds[ActionKind.RECLAIM] + put_off > of_reported:
        yield "a machine that serves a need is reclaimed"


def _useful(machine: Machine, need: Need) -> bool:
    return need.profile.matches(machine.attribute) and covers(machine.allocatable, smallest_useful_machine(need))


def _priority_order_holds(world: World, decisions: Decisions) -> Iterator[str]:
    """A short plain need sees nobody lesser take what it could use, and leaves nothing useful free."""
    gained = [(a.profile.priority, world.machines[a.machine_id]) for a in decisions.actions if a.profile]
    taken = {machine.id for _, machine in gained}
    for view in decisions.views:
        profile = view.need.profile
        if view.satisfied or profile.same or profile.spread:
            continue
        for priority, machine in gained:
            if priority < profile.priority and _useful(machine, view.need):
                yield f"{machine.id!r} goes to priority {priority} while {view.need} is short"
        for machine in world.machines.values():
            if machine.state in _FREE and machine.id not in taken and _useful(machine, view.need):
                yield f"{machine.id!r} stays free while {view.need} is short"
    for action in decisions.actions:
        if action.kind is ActionKind.PREEMPT:
            victim = world.machines[action.machine_id]
            if not victim.assignment.priority < action.preemptor_priority:
                yield f"{action} although the victim has priority {victim.assignment.priority}"
            if not any(_short_at(view, action.preemptor_priority) for view in decisions.views):
                yield f"{action} for nobody"


def _short_at(view: NeedView, priority: int) -> bool:
    return not view.satisfied and not view.parked and view.need.profile.priority == priority


def _gangs_stay_together(world: World, decisions: Decisions) -> Iterator[str]:
    domains = {view.need.key: view.same_domain for view in decisions.views if view.need.profile.same}
    for action in decisions.actions:
        same = action.profile.same if action.profile else None
        if action.profile and same:
            domain = domains[action.cluster, action.profile.fingerprint, action.group]
            if world.machines[action.machine_id].attribute(same.key) != domain:
                yield f"{action} outside the gang's domain {domain!r}"


def _reclaims_are_few_and_asked_for(world: World, decisions: Decisions) -> Iterator[str]:
    fraction = world.options.reclaim_cap_fraction
    reclaims = Counter(action.cluster for action in decisions.actions if action.kind is ActionKind.RECLAIM)
    for cluster, count in reclaims.items():
        configured = sum(m.state is MachineState.CONFIGURED and m.cluster == cluster for m in world.machines.values())
        if cluster not in world.demand():
            yield f"{count} reclaims from {cluster!r}, which has not reported"
        if fraction and count > max(1, int(fraction * configured)):
            yield f"{count} reclaims from the {configured} machines of {cluster!r}"


def _reports_are_consistent(decisions: Decisions) -> Iterator[str]:
    short = {view.need.profile.fingerprint for view in decisions.views if not view.satisfied}
    for shortfall in decisions.shortfalls:
        if shortfall.fingerprint not in short or is_zero(shortfall.deficit) or shortfall.age_cycles < 1:
            yield f"{shortfall} although nothing is missing"
    for view in decisions.views:
        satisfied = is_zero(view.residual)
        if view.satisfied != satisfied or satisfied != (view.reason is UnmetReason.UNSPECIFIED):
            yield f"{view} contradicts itself"
        if not covers(view.need.aggregate, view.residual):
            yield f"{view} misses more than it asks for"
