"""Phase 2: preemption, where a need takes machines from work of strictly lower priority (spec/engine.md §3.10)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.vectors import Vector, positive, subtract
from bigfleet.engine.decisions import Action, ActionKind
from tests.oracle.fill import Claims, Fill
from tests.oracle.parking import hopeless
from tests.oracle.snapshot import Snapshot
from tests.oracle.spread import Balance, binding_terms

# §3.4 "drain_s = constant 30"; "max(intPen, 0.01)".
_ASSUMED_DRAIN_SECONDS = 30.0
_PENALTY_FLOOR_DOLLARS = 0.01
# §3.4 "Drain grace by gap: >900 000→10 s; >500 000→30 s; >100 000→2 min; else 10 min".
_GRACE_BY_GAP = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_SECONDS = 600


@dataclass(frozen=True, eq=False)
class Unresolved:
    """§3.10 "Residual deficit ⇒ unresolved (with a flag "some victims picked")"."""

    fill: Fill
    deficit: Vector
    some_victims: bool


@dataclass
class Preemption:
    """What Phase 2 decided (§3.10)."""

    actions: list[Action] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    # Ids of the victims, and of the machines whose drain is already under way for one of the needs.
    taken: set[str] = field(default_factory=set)


def preempt(fills: Iterable[Fill], snapshot: Snapshot, claims: Claims) -> Preemption:
    """§3.10 "Residual Needs sorted priority desc"; "from head until freed allocatable covers the deficit vector"."""
    preemption = Preemption()
    for fill in fills:
        if fill.met:
            continue
        deficit, some = fill.missing, False
        if _may_preempt(fill):
            for machine in _victims(fill, snapshot, claims, preemption.taken):
                deficit, some = positive(subtract(deficit, machine.allocatable)), True
                preemption.taken.add(machine.id)
                if machine.state is MachineState.CONFIGURED:
                    preemption.actions.append(_preempt_action(machine, fill))
                if not deficit:
                    break
        if deficit:
            preemption.unresolved.append(Unresolved(fill, deficit, some))
    return preemption


def _may_preempt(fill: Fill) -> bool:
    """§3.10 "Skip parked; skip Same Needs with no chosen domain".

    A gang whose probe finds nothing is skipped too (ADR 6): it is parked again in the next cycle, and would evict
    others at every probe without ever using what it freed.
    """
    if fill.parked or (fill.parked_age_cycles and hopeless(fill)):
        return False
    return fill.need.profile.same is None or fill.domain is not None


def _victims(fill: Fill, snapshot: Snapshot, claims: Claims, taken: set[str]) -> Iterable[Machine]:
    """§3.10 eligible victims: those whose drain is under way, then "score-sort", "Tie: machine id asc" (§3.4).

    A drain under way is a victim already made, in this or an earlier cycle (ADR 6): without it a need would take new
    victims in every cycle until the first ones are free. A spread limits victims as it limits acquisition (ADR 6):
    without that a need would evict what it may not take afterwards.
    """
    priority = fill.need.profile.priority
    by_score = sorted(
        snapshot.in_state(MachineState.CONFIGURED),
        key=lambda machine: (-victim_score(priority, machine), machine.id),
    )
    candidates: Sequence[Machine] = [*snapshot.in_state(MachineState.DRAINING), *by_score]
    eligible = [m for m in candidates if m.id not in taken and _eligible(m, fill, claims.holder(m))]
    if binding_terms(fill.need.profile):
        return Balance(fill, snapshot).in_turn(eligible)
    return eligible


def _eligible(machine: Machine, fill: Fill, holder: Fill | None) -> bool:
    """§3.10 "assigned priority strictly lower, profile match, covers min_unit, in the Need's domain when Same".

    The need that the machine serves in this cycle must be of lower priority too, whatever the machine was acquired for
    (ADR 6): the spec looks at the assigned priority only, and would let a need rob its betters, or itself.
    """
    need = fill.need
    return (
        machine.assignment.priority < need.profile.priority
        and (holder is None or holder.need.profile.priority < need.profile.priority)
        and machine.id in fill.usable
        and (need.profile.same is None or machine.attribute(need.profile.same.key) == fill.domain)
    )


def victim_score(preemptor_priority: int, victim: Machine) -> float:
    """§3.4 "Victim score (higher = better victim)", locked."""
    assignment = victim.assignment
    return (
        priority_gap(preemptor_priority, victim) * 1.0
        + (1 / _ASSUMED_DRAIN_SECONDS) * 0.1
        + (1 / max(assignment.interruption_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
        + (1 / max(assignment.reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
    )


def priority_gap(preemptor_priority: int, victim: Machine) -> int:
    """§3.4 "gap = max(0, preemptorPrio − victimPrio)"."""
    return max(0, preemptor_priority - victim.assignment.priority)


def drain_grace_seconds(gap: int) -> int:
    """§3.4 "Drain grace by gap": how long a victim may take to leave."""
    return next((seconds for above, seconds in _GRACE_BY_GAP if gap > above), LONGEST_GRACE_SECONDS)


def _preempt_action(victim: Machine, fill: Fill) -> Action:
    """§3.10 "Emit Preempt(cluster = victim's cluster, grace by gap, preemptor priority)"; the reason is §3.5's."""
    priority = fill.need.profile.priority
    return Action(
        ActionKind.PREEMPT,
        victim.id,
        victim.cluster,
        "phase2.inversion",
        grace_seconds=drain_grace_seconds(priority_gap(priority, victim)),
        preemptor_priority=priority,
    )
