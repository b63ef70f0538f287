"""Phase 2: preemption, where a need takes machines from work of strictly lower priority.

See docs/reference/engine.md#preemption.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.vectors import Vector, positive, subtract
from bigfleet.engine.decisions import Action, ActionKind
from tests.oracle.fill import Claims, Fill
from tests.oracle.parking import hopeless
from tests.oracle.snapshot import Snapshot
from tests.oracle.spread import Balance, binding_terms

# Of the victim's score (docs/reference/engine.md#victims).
_ASSUMED_DRAIN_SECONDS = 30.0
_PENALTY_FLOOR_DOLLARS = 0.01
# (gap above which, grace in seconds).
_GRACE_BY_GAP = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_SECONDS = 600


@dataclass(frozen=True, eq=False)
class Unresolved:
    """What neither acquisition nor preemption could meet (docs/reference/engine.md#preemption)."""

    fill: Fill
    deficit: Vector
    some_victims: bool


@dataclass
class Preemption:
    """What Phase 2 decided."""

    actions: list[Action] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    # Ids of the victims, and of the machines whose drain is already under way for one of the needs.
    taken: set[str] = field(default_factory=set)


def preempt(fills: Iterable[Fill], snapshot: Snapshot, claims: Claims, reported: Collection[str]) -> Preemption:
    """Victims for each short need, in order, until what they free covers it (docs/reference/engine.md#preemption)."""
    preemption = Preemption()
    for fill in fills:
        if fill.met:
            continue
        deficit, some = fill.missing, False
        if _may_preempt(fill):
            for machine in _victims(fill, snapshot, claims, preemption.taken, reported):
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
    """Parked gangs and gangs without a domain take nothing from others (docs/reference/engine.md#preemption).

    A gang whose probe finds nothing is skipped too (ADR-6): it is parked again in the next cycle, and would evict
    others at every probe without ever using what it freed.
    """
    if fill.parked or (fill.parked_age_cycles and hopeless(fill)):
        return False
    return fill.need.profile.same is None or fill.domain is not None


def _victims(
    fill: Fill, snapshot: Snapshot, claims: Claims, taken: set[str], reported: Collection[str]
) -> Iterable[Machine]:
    """Machines whose drain is under way, then the others by score and id (docs/reference/engine.md#victims).

    A drain under way is a victim already made, in this or an earlier cycle (ADR-6): without it a need would take new
    victims in every cycle until the first ones are free. A spread limits victims as it limits acquisition (ADR-6):
    without that a need would evict what it may not take afterwards. A cluster that has not sent a roll-up loses nothing
    (ADR-36); what already drains is freed all the same.
    """
    priority = fill.need.profile.priority
    by_score = sorted(
        (machine for machine in snapshot.in_state(MachineState.CONFIGURED) if machine.cluster in reported),
        key=lambda machine: (-victim_score(priority, machine), machine.id),
    )
    candidates: Sequence[Machine] = [*snapshot.in_state(MachineState.DRAINING), *by_score]
    eligible = [m for m in candidates if m.id not in taken and _eligible(m, fill, claims.holder(m))]
    if binding_terms(fill.need.profile):
        return Balance(fill, snapshot).in_turn(eligible)
    return eligible


def _eligible(machine: Machine, fill: Fill, holder: Fill | None) -> bool:
    """Of lower priority, of use to the need, and in the gang's domain (docs/reference/engine.md#preemption).

    The need that the machine serves in this cycle must be of lower priority too, whatever the machine was acquired for
    (ADR-6): by the assigned priority alone a need could rob its betters, or itself.
    """
    need = fill.need
    return (
        machine.assignment.priority < need.profile.priority
        and (holder is None or holder.need.profile.priority < need.profile.priority)
        and machine.id in fill.usable
        and (need.profile.same is None or machine.attribute(need.profile.same.key) == fill.domain)
    )


def victim_score(preemptor_priority: int, victim: Machine) -> float:
    """The higher, the better a victim (docs/reference/engine.md#victims)."""
    assignment = victim.assignment
    return (
        priority_gap(preemptor_priority, victim) * 1.0
        + (1 / _ASSUMED_DRAIN_SECONDS) * 0.1
        + (1 / max(assignment.interruption_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
        + (1 / max(assignment.reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
    )


def priority_gap(preemptor_priority: int, victim: Machine) -> int:
    """By how much the preemptor is more important, at least 0 (docs/reference/engine.md#victims)."""
    return max(0, preemptor_priority - victim.assignment.priority)


def drain_grace_seconds(gap: int) -> int:
    """How long a victim may take to leave (docs/reference/engine.md#victims)."""
    return next((seconds for above, seconds in _GRACE_BY_GAP if gap > above), LONGEST_GRACE_SECONDS)


def _preempt_action(victim: Machine, fill: Fill) -> Action:
    """For the victim's cluster, with the grace that the gap leaves it (docs/reference/engine.md#actions)."""
    priority = fill.need.profile.priority
    return Action(
        ActionKind.PREEMPT,
        victim.id,
        victim.cluster,
        "phase2.inversion",
        grace_seconds=drain_grace_seconds(priority_gap(priority, victim)),
        preemptor_priority=priority,
    )
