"""The machines that exist before the first Pod: seeded for the demand that will really be drawn (design.md §4).

The result is neutral (kinds, counts, states, clusters); the fake provider reads it and knows nothing of the harness.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bigfleet.core.requirements import RACK_KEY
from bigfleet.core.vectors import Vector, add, format_vector
from scaletest.model.catalog import Archetype, Catalog
from scaletest.model.draw import Workload, cluster_id, ordinal_of
from scaletest.model.profile import Seed

RACKS_PER_ZONE = 10
ARCHETYPE_LABEL = "scaletest.bigfleet/archetype"
_PODS_PER_MACHINE_LIMIT = "110"


@dataclass(frozen=True)
class Tier:
    """How machines of one origin are paid for."""

    name: str
    state: str
    capacity_type: str
    price_per_hour: float
    interruption_probability: float


CONFIGURED = Tier("conf", "Configured", "BareMetal", 0.0, 0.0)
IDLE = Tier("idle", "Idle", "BareMetal", 0.0, 0.0)
SPECULATIVE = Tier("spec", "Speculative", "OnDemand", 1.0, 0.05)
SPOT = Tier("spot", "Speculative", "Spot", 0.3, 0.30)


@dataclass(frozen=True)
class Slot:
    """A place in the data centre."""

    zone: str
    rack: int
    instance_type: str


@dataclass(frozen=True)
class MachineGroup:
    """`count` equal machines."""

    tier: Tier
    archetype: str
    slot: Slot
    count: int
    cluster: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Fleet:
    """All seeded machines and the demand they were made for."""

    groups: tuple[MachineGroup, ...]
    # Machines that the drawn demand needs at least, over all clusters.
    demanded: int

    def count(self, tier: Tier) -> int:
        return sum(group.count for group in self.groups if group.tier is tier)


def machines_for(workloads: Iterable[Workload], density: int) -> dict[tuple[str, bool, int, str], int]:
    """Machines that each need takes: workloads of one (archetype, spread, priority, gang) aggregate into one need."""
    totals: dict[tuple[str, bool, int, str], Vector] = {}
    archetypes: dict[str, Archetype] = {}
    for workload in workloads:
        key = (workload.archetype.name, workload.has_spread, workload.priority, workload.group)
        totals[key] = add(totals.get(key, {}), workload.aggregate)
        archetypes[workload.archetype.name] = workload.archetype
    return {key: _covering(total, archetypes[key[0]].machine_allocatable(density)) for key, total in totals.items()}


def _covering(total: Vector, allocatable: Vector) -> int:
    return max(-(-milli // allocatable[name]) for name, milli in total.items())


def seed_fleet(catalog: Catalog, draws: Sequence[Sequence[Workload]], seed: Seed, density: int, shards: int) -> Fleet:
    """Configured machines per cluster for a share of its draw; Idle and Speculative ones for the whole fleet."""
    groups: list[MachineGroup] = []
    demanded: Counter[str] = Counter()
    gangs: Counter[str] = Counter()
    for ordinal, workloads in enumerate(draws):
        for (name, _, priority, gang), count in sorted(machines_for(workloads, density).items()):
            archetype = catalog[name]
            demanded[name] += count
            bound = round(count * seed.configured_fraction)
            # Each gang starts in a block of its own, where spare machines stand too.
            start = gangs[name] * archetype.gang.largest if archetype.gang and gang else 0
            gangs[name] += 1 if gang else 0
            slots = islice(_slots(archetype), start, start + bound)
            groups += _grouped(CONFIGURED, name, slots, cluster_id(ordinal), priority)
    total = sum(demanded.values())
    wanted = {
        IDLE: int(total * seed.idle_headroom_fraction),
        SPECULATIVE: _speculative(seed, total, shards),
        SPOT: seed.spot_count * shards,
    }
    for tier, count in wanted.items():
        for name, share in _largest_remainder(count, demanded).items():
            groups += _grouped(tier, name, islice(_slots(catalog[name]), share))
    return Fleet(tuple(groups), total)


def _speculative(seed: Seed, total: int, shards: int) -> int:
    if seed.speculative_count is not None:
        return seed.speculative_count * shards
    return (seed.speculative_multiplier or 0) * total


def _slots(archetype: Archetype) -> Iterator[Slot]:
    """Places for machines of an archetype, for ever: rack gangs in blocks of one rack, others one by one."""
    block = archetype.gang.largest if archetype.gang and archetype.gang.scope == "sameRack" else 1
    index = 0
    while True:
        zone = archetype.zones[index % len(archetype.zones)]
        rack = index // len(archetype.zones) % RACKS_PER_ZONE
        instance_type = archetype.instance_types[index % len(archetype.instance_types)]
        yield from (Slot(zone, rack, instance_type) for _ in range(block))
        index += 1


def _grouped(
    tier: Tier, archetype: str, slots: Iterable[Slot], cluster: str = "", priority: int = 0
) -> list[MachineGroup]:
    return [MachineGroup(tier, archetype, slot, count, cluster, priority) for slot, count in Counter(slots).items()]


def _largest_remainder(total: int, weights: Counter[str]) -> dict[str, int]:
    """Share `total` out in proportion to `weights`, to the last one."""
    whole = sum(weights.values())
    if not whole:
        return {}
    shares = {name: total * weight // whole for name, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda name: (-(total * weights[name] % whole), name))
    for name in by_remainder[: total - sum(shares.values())]:
        shares[name] += 1
    return shares


def fleet_document(fleet: Fleet, catalog: Catalog, density: int) -> dict[str, Any]:
    """The seed file of the fake provider."""
    kinds: dict[str, Any] = {}
    machines: list[dict[str, Any]] = []
    next_prefix: Counter[str] = Counter()
    for group in fleet.groups:
        archetype = catalog[group.archetype]
        kind = "-".join(
            [group.tier.name, archetype.name, group.slot.zone, f"r{group.slot.rack}", _dns(group.slot.instance_type)]
        )
        kinds.setdefault(kind, _kind(group, archetype, density))
        prefix = f"c{ordinal_of(group.cluster)}" if group.cluster else "f"
        serial = next_prefix[prefix]
        next_prefix[prefix] += 1
        entry: dict[str, Any] = {
            "idPrefix": f"{prefix}-{serial}",
            "kind": kind,
            "count": group.count,
            "state": group.tier.state,
        }
        if group.cluster:
            entry["cluster"] = group.cluster
            entry["metadata"] = _assignment(group, archetype)
        machines.append(entry)
    return {"kinds": kinds, "machines": machines}


def _dns(text: str) -> str:
    return text.replace(".", "-").lower()


def _kind(group: MachineGroup, archetype: Archetype, density: int) -> dict[str, Any]:
    return {
        "instanceType": group.slot.instance_type,
        "zone": group.slot.zone,
        "capacityType": group.tier.capacity_type,
        "pricePerHour": group.tier.price_per_hour,
        "interruptionProbability": group.tier.interruption_probability,
        "allocatable": format_vector(archetype.machine_allocatable(density)) | {"pods": _PODS_PER_MACHINE_LIMIT},
        "labels": {RACK_KEY: f"{group.slot.zone}-rack-{group.slot.rack}", ARCHETYPE_LABEL: archetype.name},
    }


def _assignment(group: MachineGroup, archetype: Archetype) -> dict[str, str]:
    return {
        "bigfleet.lucy.sh/assigned-priority": str(group.priority),
        "bigfleet.lucy.sh/assigned-interruption-penalty-dollars": f"{archetype.interruption_penalty:g}",
        "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": f"{archetype.reclamation_penalty:g}",
    }
