"""Machines: their states, legal edges, invariants, and what a need may ask of them.

See docs/reference/engine.md#machine-states.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.core.vectors import Vector


class MachineState(IntEnum):
    """Numbers are the wire's."""

    UNSPECIFIED = 0
    SPECULATIVE = 1
    CREATING = 2
    IDLE = 3
    CONFIGURING = 4
    CONFIGURED = 5
    DRAINING = 6
    DELETING = 7
    FAILED = 8

    @property
    def label(self) -> str:
        """`Configured`, as metrics, tables and the fleet file spell it."""
        return self.name.capitalize()


class CapacityType(IntEnum):
    """Numbers are the wire's."""

    UNSPECIFIED = 0
    BARE_METAL = 1
    RESERVED = 2
    ON_DEMAND = 3
    SPOT = 4

    @property
    def label(self) -> str:
        """`OnDemand`, as metrics, tables and the fleet file spell it."""
        return "CapacityType(0)" if self is CapacityType.UNSPECIFIED else self.name.title().replace("_", "")


TRANSITIONAL = (MachineState.CREATING, MachineState.CONFIGURING, MachineState.DRAINING, MachineState.DELETING)
_CLUSTER_REQUIRED = (MachineState.CONFIGURED, MachineState.DRAINING)
_HOST_REQUIRED = (MachineState.IDLE, MachineState.CONFIGURING, MachineState.DELETING, *_CLUSTER_REQUIRED)

LEGAL_EDGES: dict[MachineState, tuple[MachineState, ...]] = {
    MachineState.SPECULATIVE: (MachineState.CREATING,),
    MachineState.CREATING: (MachineState.IDLE, MachineState.FAILED),
    MachineState.IDLE: (MachineState.CONFIGURING, MachineState.DELETING),
    MachineState.CONFIGURING: (MachineState.CONFIGURED, MachineState.FAILED, MachineState.IDLE),
    MachineState.CONFIGURED: (MachineState.DRAINING,),
    MachineState.DRAINING: (MachineState.IDLE, MachineState.FAILED),
    MachineState.DELETING: (MachineState.SPECULATIVE, MachineState.FAILED),
    MachineState.FAILED: (),
}


class Transition(NamedTuple):
    """From a stable state, through a transitional one, to a stable one."""

    source: MachineState
    through: MachineState
    target: MachineState


CREATE = Transition(MachineState.SPECULATIVE, MachineState.CREATING, MachineState.IDLE)
CONFIGURE = Transition(MachineState.IDLE, MachineState.CONFIGURING, MachineState.CONFIGURED)
DRAIN = Transition(MachineState.CONFIGURED, MachineState.DRAINING, MachineState.IDLE)
DELETE = Transition(MachineState.IDLE, MachineState.DELETING, MachineState.SPECULATIVE)


@dataclass(frozen=True)
class Assignment:
    """The demand a machine was acquired for. The provider echoes it as shard_metadata, so it survives a restart."""

    priority: int = 0
    interruption_dollars: float = 0.0
    reclamation_dollars: float = 0.0
    fingerprint: str = ""
    group: str = ""


UNASSIGNED = Assignment()


@dataclass(frozen=True)
class Machine:
    """One machine as its shard knows it. Changes are new values (`dataclasses.replace`)."""

    id: str
    state: MachineState
    instance_type: str = ""
    zone: str = ""
    capacity_type: CapacityType = CapacityType.UNSPECIFIED
    price_per_hour: float = 0.0
    interruption_probability: float = 0.0
    allocatable: Vector = field(default_factory=dict, hash=False)
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    host: str = ""
    cluster: str = ""
    last_error: str = ""
    assignment: Assignment = UNASSIGNED

    def attribute(self, key: str) -> str | None:
        """The value a requirement on `key` looks at: top-level fields first, then labels."""
        if key == INSTANCE_TYPE_KEY and self.instance_type:
            return self.instance_type
        if key == ZONE_KEY and self.zone:
            return self.zone
        return self.labels.get(key)


def invariant_violation(machine: Machine) -> tuple[str, str] | None:
    """(metric reason, sentence) for the first broken invariant, None for a sound machine."""
    if not machine.price_per_hour >= 0 or math.isinf(machine.price_per_hour):
        return "price", f"price_per_hour {machine.price_per_hour} is not a finite number ≥ 0"
    if not 0 <= machine.interruption_probability <= 1:
        return (
            "interruption_probability",
            f"interruption_probability {machine.interruption_probability} is not in [0, 1]",
        )
    state = machine.state
    negative = next((name for name, milli in machine.allocatable.items() if milli < 0), None)
    if negative is not None:
        return "structural", f"allocatable[{negative!r}] is negative"
    if not machine.id:
        return "structural", "the machine has no id"
    if state is MachineState.UNSPECIFIED:
        return "structural", "the state is unspecified"
    if state in (MachineState.SPECULATIVE, MachineState.CREATING) and (machine.host or machine.cluster):
        return "structural", f"a {state.label} machine has a host or a cluster"
    if state in _HOST_REQUIRED and not machine.host:
        return "structural", f"a {state.label} machine has no host"
    if state in _CLUSTER_REQUIRED and not machine.cluster:
        return "structural", f"a {state.label} machine has no cluster"
    if state is MachineState.FAILED and not machine.last_error:
        return "structural", "a Failed machine has no last_error"
    return None
