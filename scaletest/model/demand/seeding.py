"""The machines that exist before the first Pod: seeded for the demand that will really be drawn.

The result is neutral (kinds, counts, states, clusters); the fake provider reads it and knows nothing of the harness.
Why it is so: docs/reference/harness.md#seeding.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from bigfleet.core.vectors import format_vector
from scaletest.model.demand.draw import Workload, cluster_id, ordinal_of
from scaletest.model.demand.needs import DrawnDemand, held_at_start, needs_of
from scaletest.model.demand.shard_shares import DemandShare
from scaletest.model.demand.sizing import allocate_machines, exact, largest_remainder, machine_share, raise_to_floors
from scaletest.model.documents.catalog import Archetype, Catalog
from scaletest.model.documents.profile import Seed
from scaletest.model.labels import RACK_KEY

RACKS_PER_ZONE = 10
ARCHETYPE_LABEL = "scaletest.bigfleet/archetype"
# A Pod count that never binds before cpu and memory do (docs/reference/harness.md#seeding).
_PODS_PER_MACHINE_LIMIT = "1100"


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

# Machines by archetype in each tier.
TierCounts = dict[Tier, dict[str, int]]


@dataclass(frozen=True)
class Slot:
    """A place in the data centre."""

    zone: str
    rack: int
    instance_type: str
    # One value for each of the archetype's label axes.
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class OwnedRack:
    """A rack, and the shard whose machines stand in it."""

    shard: int
    name: str


def owned_racks(catalog: Catalog, shards: int) -> Iterator[OwnedRack]:
    """Every rack that a machine may be seeded in."""
    zones = dict.fromkeys(zone for archetype in catalog.seeded for zone in archetype.zones)
    for rack in range(shards * RACKS_PER_ZONE):
        for zone in zones:
            yield OwnedRack(rack // RACKS_PER_ZONE, rack_name(zone, rack))


# A need's fingerprint and group, as the shard stamps them on what it acquires.
Owner = tuple[str, str]
NO_OWNER: Owner = ("", "")
# Gives the owner of a drawn workload's machines; the second argument tells whether it is a gang of several machines.
OwnerOf = Callable[[Workload, bool], Owner]


@dataclass(frozen=True)
class MachineGroup:
    """`count` equal machines."""

    tier: Tier
    archetype: Archetype
    slot: Slot
    count: int
    cluster: str = ""
    priority: int = 0
    # The need that the machines were made for, as (fingerprint, group); NO_OWNER: they are not for a certain need.
    owner: Owner = NO_OWNER


def free_machines(catalog: Catalog, demand: DrawnDemand, seed: Seed, density: int) -> TierCounts:
    """A shard's machines that no cluster holds at the start, by tier and archetype: in the mix of its clusters' demand,
    gangs whole."""
    total = sum(demand.machines.values())
    burst = sum(demand.burst_machines.values()) if seed.speculative_count is None else 0
    wanted = {
        IDLE: int(total * exact(seed.idle_headroom_fraction)),
        SPECULATIVE: _speculative(seed, total),
        SPOT: seed.spot_count,
    }
    mix: Mapping[str, Any] = demand.machines
    if catalog.seed_archetypes:
        mix = {archetype.name: machine_share(archetype, density) for archetype in catalog.seeded}
    counts = {
        tier: raise_to_floors(largest_remainder(number, mix), _gangs_of(catalog, mix)) if number else {}
        for tier, number in wanted.items()
    }
    if burst and seed.is_elastic:
        # A burst asks for what the steady mix may not have at all, so its machines come on top.
        for name, number in demand.burst_machines.items():
            counts[SPECULATIVE][name] = counts[SPECULATIVE].get(name, 0) + number
    return counts


def total_of(shares: Iterable[TierCounts]) -> TierCounts:
    """The free machines of several shards."""
    total: TierCounts = {}
    for share in shares:
        for tier, counts in share.items():
            mine = total.setdefault(tier, {})
            for name, number in counts.items():
                mine[name] = mine.get(name, 0) + number
    return total


def _gangs_of(catalog: Catalog, mix: Mapping[str, Any]) -> list[Archetype]:
    """Gang archetypes that are really asked for: a floor for one that is not drawn would add machines without use."""
    return [archetype for archetype in catalog.seeded if mix.get(archetype.name)]


def _speculative(seed: Seed, total: int) -> int:
    if seed.speculative_count is not None:
        return seed.speculative_count
    return (seed.speculative_multiplier or 0) * total


def seed_share(
    catalog: Catalog, share: DemandShare, free: TierCounts, seed: Seed, density: int, owner_of: OwnerOf
) -> Iterator[MachineGroup]:
    """Every machine of a shard: those that its clusters hold, in the places their gangs need; then the free ones.

    They stand in racks that no other shard has machines in: a rack is the domain by which shards own machines.
    """
    first_rack = share.shard * RACKS_PER_ZONE
    gangs: Counter[str] = Counter()
    for draw in share.draws:
        cluster = cluster_id(draw.ordinal)
        needs = needs_of(draw, density)
        held_of = held_at_start(needs, seed.configured_fraction)
        if catalog.seed_archetypes:
            shares = allocate_machines(catalog.seeded, sum(held_of), density)
            for archetype in catalog.seeded:
                slots = islice(_slots(archetype, first_rack), shares[archetype.name])
                yield from _grouped(CONFIGURED, archetype, slots, cluster, max(archetype.priority_classes))
            continue
        for need, held in zip(needs, held_of, strict=True):
            archetype, start = need.archetype, 0
            if need.is_gang and archetype.gang:
                # Each gang starts in a block of its own, where spare machines stand too.
                start = gangs[archetype.name] * archetype.gang.largest
                gangs[archetype.name] += 1
            slots = islice(_slots(archetype, first_rack, need.axes), start, start + held)
            owner = owner_of(draw.workload(need.workload), need.is_gang)
            yield from _grouped(CONFIGURED, archetype, slots, cluster, need.priority, owner)
    seeded = {archetype.name: archetype for archetype in catalog.seeded}
    for tier, counts in free.items():
        for name, number in counts.items():
            yield from _grouped(tier, seeded[name], islice(_slots(seeded[name], first_rack), number))


def _slots(archetype: Archetype, first_rack: int, axes: tuple[int, ...] | None = None) -> Iterator[Slot]:
    """Places for machines of an archetype, for ever: gangs in blocks of one rack or zone, others one by one."""
    scope = archetype.gang.scope if archetype.gang else None
    size = archetype.gang.largest if archetype.gang else 1
    zones, types = archetype.zones, archetype.instance_types
    rng = random.Random(f"axes/{archetype.name}")
    for block in count():
        # Shifted by one each time round, so that three types meet all of three zones.
        zone, instance_type = zones[block % len(zones)], types[(block + block // len(zones)) % len(types)]
        labels = tuple(rng.randrange(axis.count) for axis in archetype.label_axes) if axes is None else axes
        rack = block // len(zones)
        for member in range(size):
            shift = member if scope == "sameZone" else 0
            yield Slot(zone, first_rack + (rack + shift) % RACKS_PER_ZONE, instance_type, labels)


def _grouped(
    tier: Tier,
    archetype: Archetype,
    slots: Iterable[Slot],
    cluster: str = "",
    priority: int = 0,
    owner: Owner = NO_OWNER,
) -> list[MachineGroup]:
    counts = Counter(slots)
    return [MachineGroup(tier, archetype, slot, count, cluster, priority, owner) for slot, count in counts.items()]


def fleet_document(groups: Iterable[MachineGroup], density: int) -> dict[str, Any]:
    """The fleet file of the fake provider."""
    kinds: dict[str, Any] = {}
    machines: list[dict[str, Any]] = []
    next_prefix: Counter[str] = Counter()
    for group in groups:
        kind = _kind_name(group)
        kinds.setdefault(kind, _kind(group, density))
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
            entry["metadata"] = _assignment(group)
        machines.append(entry)
    return {"kinds": kinds, "machines": machines}


def rack_name(zone: str, rack: int) -> str:
    """The value of a machine's rack label. Racks are counted through all shards, so that no two shards share one."""
    return f"{zone}-rack-{rack}"


def _kind_name(group: MachineGroup) -> str:
    slot = group.slot
    parts = [group.tier.name, group.archetype.name, slot.zone, f"r{slot.rack}", slot.instance_type, *slot.axes]
    return "-".join(str(part).replace(".", "-").replace("_", "-").lower() for part in parts)


def _kind(group: MachineGroup, density: int) -> dict[str, Any]:
    archetype, slot = group.archetype, group.slot
    axes = {axis.key: axis.value(index) for axis, index in zip(archetype.label_axes, slot.axes, strict=True)}
    return {
        "instanceType": slot.instance_type,
        "zone": slot.zone,
        "capacityType": group.tier.capacity_type,
        "pricePerHour": group.tier.price_per_hour,
        "interruptionProbability": group.tier.interruption_probability,
        "allocatable": format_vector(archetype.machine_allocatable(density)) | {"pods": _PODS_PER_MACHINE_LIMIT},
        "labels": {RACK_KEY: rack_name(slot.zone, slot.rack), ARCHETYPE_LABEL: archetype.name} | axes,
    }


def _assignment(group: MachineGroup) -> dict[str, str]:
    archetype, (fingerprint, gang) = group.archetype, group.owner
    stamps = {
        "bigfleet.lucy.sh/assigned-need-fingerprint": fingerprint,
        "bigfleet.lucy.sh/assigned-group": gang,
    }
    return {key: value for key, value in stamps.items() if value} | {
        "bigfleet.lucy.sh/assigned-priority": str(group.priority),
        "bigfleet.lucy.sh/assigned-interruption-penalty-dollars": f"{archetype.interruption_penalty:g}",
        "bigfleet.lucy.sh/assigned-reclamation-penalty-dollars": f"{archetype.reclamation_penalty:g}",
    }
