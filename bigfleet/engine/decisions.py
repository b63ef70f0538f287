"""What a cycle decides: actions on machines, and what the shard reports about every need."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from bigfleet.core.machines import CONFIGURE, CREATE, DELETE, DRAIN, CapacityType
from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile
from bigfleet.core.vectors import Vector


class ActionKind(StrEnum):
    """Values are the audit log's and the metrics' spelling (docs/reference/engine.md#actions)."""

    BOOTSTRAP = "Bootstrap"
    PROVISION = "Provision"
    PREEMPT = "Preempt"
    RECLAIM = "Reclaim"
    DELETE = "Delete"


# What a provider does for each action.
TRANSITION_OF = {
    ActionKind.BOOTSTRAP: CONFIGURE,
    ActionKind.PROVISION: CREATE,
    ActionKind.PREEMPT: DRAIN,
    ActionKind.RECLAIM: DRAIN,
    ActionKind.DELETE: DELETE,
}


@dataclass(frozen=True)
class Action:
    """One step for one machine. The shard executes it if the machine is still in the state it was decided for."""

    kind: ActionKind
    machine_id: str
    # The cluster that gains (Bootstrap, Provision) or loses (Preempt, Reclaim) the machine; empty for Delete.
    cluster: str
    reason: str
    # The need's profile and gang, for the assignment; Bootstrap and Provision only.
    profile: NeedProfile | None = None
    group: str = ""
    # How long the drain may take; Preempt and Reclaim only.
    grace_seconds: int = 0
    preemptor_priority: int = 0


class UnmetReason(IntEnum):
    """Why a need is not satisfied. Numbers are the wire's (docs/reference/wire.md#need-views)."""

    UNSPECIFIED = 0  # satisfied
    PRIORITY_STARVED = 1
    NO_MATCHING_SUPPLY = 2
    TOPOLOGY_UNSATISFIABLE = 3
    PREEMPTION_EXHAUSTED = 4


@dataclass(frozen=True)
class Shortfall:
    """Demand of one profile that neither acquisition nor preemption could meet.

    See docs/reference/engine.md#shortfalls.
    """

    fingerprint: str
    profile: NeedProfile
    deficit: Vector = field(hash=False)
    # Consecutive cycles with a shortfall of this fingerprint, this one included: 1 in the first.
    age_cycles: int


@dataclass(frozen=True)
class NeedView:
    """What one cycle made of one need, after folding (docs/reference/wire.md#need-views)."""

    need: Need
    # Whether Phase 1 covered the whole aggregate, machines acquired in this cycle included.
    satisfied: bool
    # What Phase 1 left uncovered.
    residual: Vector = field(hash=False)
    # Machines credited to the need: bound to its cluster or being created for it. Those of this cycle come on top.
    claimed: int
    bootstraps: int
    provisions: int
    same_domain: str
    same_satisfiable: bool
    parked: bool
    # Cycles since the gang was first parked, this one included; counts on while a parked gang probes.
    parked_age_cycles: int
    # Age of the shortfall of this need's fingerprint; 0 when satisfied, or when preemption under way will cover it.
    age_cycles_unmet: int
    reason: UnmetReason


@dataclass(frozen=True)
class CapacityHint:
    """What a cluster could still get for one profile (docs/reference/engine.md#hints). The shard suppresses repeats."""

    cluster: str
    profile: NeedProfile
    available: int
    idle: int
    speculative: int
    cost_per_hour: float
    # What each of them has at least; nothing when there is none.
    resources: Vector = field(hash=False)


def _no_views(cluster: str) -> Sequence[NeedView]:  # noqa: ARG001
    return ()


@dataclass(frozen=True)
class Decisions:
    """The whole outcome of one cycle."""

    # In phase order: Bootstrap and Provision, then Preempt, then Reclaim, then Delete.
    actions: Sequence[Action]
    # Priority descending, then older first; every one of them (a report carries the first hundred).
    shortfalls: Sequence[Shortfall]
    # In InspectNeeds order: priority descending, arrival ascending, cluster ascending.
    views: Sequence[NeedView]
    # By cluster, then fingerprint.
    hints: Sequence[CapacityHint]
    # Reclaims that the cap put off, by cluster; clusters without any are not in it.
    reclaims_capped: Mapping[str, int] = field(default_factory=dict)
    # Deletes of Idle machines that the cap put off.
    releases_capped: int = 0
    # When time alone lets the next of these go, in seconds of the engine's clock; infinite if none was put off.
    again_at: float = math.inf
    # The views of one cluster, in the same order, made without those of the others.
    views_of: Callable[[str], Sequence[NeedView]] = field(default=_no_views, compare=False)


def _default_holds() -> Mapping[CapacityType, float]:
    return dict.fromkeys(CapacityType, math.inf) | {CapacityType.ON_DEMAND: 300.0, CapacityType.SPOT: 60.0}


@dataclass(frozen=True)
class EngineOptions:
    """The knobs of the engine; the defaults are the product's."""

    # Reclaims of a cluster within any window, as a part of its Configured machines (at least 1); 0 = no cap.
    reclaim_cap_fraction: float = 0.05
    # Deletes within any window, as a part of all bought machines that have a hold (at least 1); 0 = no cap.
    release_cap_fraction: float = 0.05
    # The window of both, in seconds: a cap of 0.05 is 30 % a minute, at any cycle rate (ADR-36).
    cap_window_seconds: float = 10.0
    # Seconds for which a machine must have been excess before it is reclaimed; 0 = at once (ADR-20).
    reclaim_after_seconds: float = 0.0
    # Seconds an unclaimed Idle machine is kept before it is deleted; a type that is absent is kept for ever.
    idle_hold_seconds: Mapping[CapacityType, float] = field(default_factory=_default_holds)
    # A gang that can't be placed for this many cycles stops holding a domain's free machines …
    park_after_cycles: int = 8
    # … and tries again every so many cycles.
    park_probe_every: int = 32

    def idle_hold(self, capacity_type: CapacityType) -> float:
        return self.idle_hold_seconds.get(capacity_type, math.inf)
