"""Phase 2: preemption, where a need takes machines from work of strictly lower priority (spec/engine.md §3.10)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.vectors import Vector, positive, subtract
from bigfleet.engine.decisions import Action, ActionKind
from bigfleet.engine.fill import Claims, Fill
from bigfleet.engine.snapshot import Snapshot
from bigfleet.engine.spread import Balance, binding_terms

_ASSUMED_DRAIN_SECONDS = 30.0
_PENALTY_FLOOR_DOLLARS = 0.01
# (gap above which, grace in seconds): the more important the newcomer, the shorter the victim's notice.
_GRACE_BY_GAP = ((900_000, 10), (500_000, 30), (100_000, 120))
LONGEST_GRACE_SECONDS = 600


@dataclass(frozen=True, eq=False)
class Unresolved:
    """A need that neither acquisition nor preemption can meet."""

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


def preempt(fills: Iterable[Fill], snapshot: Snapshot, claims: Claims) -> Preemption:
    """Find victims for every need that Phase 1 left short, the most important need first (spec/engine.md §3.10)."""
    preemption = Preemption()
    victims = _Victims(snapshot, claims, preemption.taken)
    for fill in fills:
        if fill.met:
            continue
        deficit, some = fill.missing, False
        if _may_preempt(fill):
            for machine in victims.of(fill):
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
    """Parked gangs and gangs without a domain take nothing from others (spec/engine.md §3.10)."""
    return not fill.parked and (fill.need.profile.same is None or fill.domain is not None)


class _Victims:
    """Machines that a need may take from others, the best victim first."""

    def __init__(self, snapshot: Snapshot, claims: Claims, taken: set[str]) -> None:
        self._snapshot = snapshot
        self._claims = claims
        self._taken = taken
        self._ranked: dict[str, Sequence[Machine]] = {}

    def of(self, fill: Fill) -> Iterator[Machine]:
        """Eligible victims: those whose drain is under way, then by score.

        A drain under way is a victim already made, in this or an earlier cycle. The spec does not say so, but without
        it a need would take new victims in every cycle until the first ones are free. Nor does it say that a spread
        limits victims as it limits acquisition, but without that a need would evict what it may not take afterwards.
        """
        draining = self._snapshot.in_state(MachineState.DRAINING)
        eligible = (m for m in chain(draining, self._by_score(fill)) if self._eligible(m, fill))
        if binding_terms(fill.need.profile):
            return Balance(fill, self._snapshot).in_turn(list(eligible))
        return eligible

    def _by_score(self, fill: Fill) -> Sequence[Machine]:
        profile = fill.need.profile
        ranked = self._ranked.get(profile.fingerprint)
        if ranked is None:
            matching = self._snapshot.matching(profile)
            ranked = sorted(
                (
                    machine
                    for machine in self._snapshot.in_state(MachineState.CONFIGURED)
                    if machine.assignment.priority < profile.priority and self._snapshot.kind(machine) in matching
                ),
                key=lambda machine: (-victim_score(profile.priority, machine), machine.id),
            )
            self._ranked[profile.fingerprint] = ranked
        return ranked

    def _eligible(self, machine: Machine, fill: Fill) -> bool:
        """Strictly lower priority, useful to the need, in the gang's domain, and not taken yet (spec/engine.md §3.10).

        The need that the machine serves in this cycle must be of lower priority too, whatever the machine was acquired
        for: the spec looks at the assigned priority only, and would let a need rob its betters, or itself.
        """
        need, holder = fill.need, self._claims.holder(machine)
        return (
            machine.assignment.priority < need.profile.priority
            and (holder is None or holder.need.profile.priority < need.profile.priority)
            and self._snapshot.kind(machine) in fill.usable
            and (need.profile.same is None or machine.attribute(need.profile.same.key) == fill.domain)
            and machine.id not in self._taken
        )


def victim_score(preemptor_priority: int, victim: Machine) -> float:
    """How good a victim a machine is; higher is better (spec/engine.md §3.4, locked)."""
    assignment = victim.assignment
    return (
        priority_gap(preemptor_priority, victim) * 1.0
        + (1 / _ASSUMED_DRAIN_SECONDS) * 0.1
        + (1 / max(assignment.interruption_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
        + (1 / max(assignment.reclamation_dollars, _PENALTY_FLOOR_DOLLARS)) * 0.1
    )


def priority_gap(preemptor_priority: int, victim: Machine) -> int:
    return max(0, preemptor_priority - victim.assignment.priority)


def drain_grace_seconds(gap: int) -> int:
    """How long a victim may take to leave (spec/engine.md §3.4)."""
    return next((seconds for above, seconds in _GRACE_BY_GAP if gap > above), LONGEST_GRACE_SECONDS)


def _preempt_action(victim: Machine, fill: Fill) -> Action:
    priority = fill.need.profile.priority
    return Action(
        ActionKind.PREEMPT,
        victim.id,
        victim.cluster,
        "phase2.inversion",
        grace_seconds=drain_grace_seconds(priority_gap(priority, victim)),
        preemptor_priority=priority,
    )
