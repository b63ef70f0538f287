"""Hints of free capacity for the clusters that demand it (docs/reference/engine.md#hints)."""

from collections.abc import Iterable

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, NeedProfile
from bigfleet.core.vectors import Vector
from bigfleet.engine.decisions import CapacityHint
from tests.oracle.snapshot import Snapshot


def capacity_hints(needs: Iterable[Need], snapshot: Snapshot) -> list[CapacityHint]:
    """For each cluster and profile that it demands, before anything is claimed (docs/reference/engine.md#hints).

    Whether the cluster is connected, and whether the news is worth sending, is the shard's to say.
    """
    demanded = {(need.cluster, need.profile.fingerprint): need.profile for need in needs}
    return [_hint(cluster, demanded[cluster, fingerprint], snapshot) for cluster, fingerprint in sorted(demanded)]


def _hint(cluster: str, profile: NeedProfile, snapshot: Snapshot) -> CapacityHint:
    """Idle and Speculative machines, and what the cheapest Idle one costs if types are pinned.

    See docs/reference/engine.md#hints.
    """
    idle = _offered(profile, snapshot.in_state(MachineState.IDLE))
    speculative = _offered(profile, snapshot.in_state(MachineState.SPECULATIVE))
    pinned = profile.pinned_instance_types is not None
    cost = min((machine.price_per_hour for machine in idle), default=0.0) if pinned else 0.0
    count = len(idle) + len(speculative)
    return CapacityHint(cluster, profile, count, len(idle), len(speculative), cost, _least([*idle, *speculative]))


def _least(machines: list[Machine]) -> Vector:
    """What every machine that is counted has, per dimension (docs/reference/engine.md#hints)."""
    dimensions = {name for machine in machines for name in machine.allocatable}
    least = {name: min(machine.allocatable.get(name, 0) for machine in machines) for name in dimensions}
    return {name: amount for name, amount in least.items() if amount > 0}


def _offered(profile: NeedProfile, machines: Iterable[Machine]) -> list[Machine]:
    """Those of the pinned instance types, or all; no other requirement is looked at.

    See docs/reference/engine.md#hints.
    """
    pinned = profile.pinned_instance_types
    return [machine for machine in machines if pinned is None or machine.attribute(INSTANCE_TYPE_KEY) in pinned]
