"""What a catalog is expected to need: effective machines, gang floors, seed sizes.

docs/reference/harness.md#catalog-arithmetic has the formulas.

Exact rational arithmetic: a rounding error here would seed one machine too few. The draw (draw.py) is what is really
asked for; these formulas predict it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from scaletest.model.documents.catalog import STATEFUL, Archetype
from scaletest.model.documents.profile import Seed

# (weight, smallest, largest): most services are small, a few are very large (docs/reference/harness.md#service-sizes).
REPLICAS = ((55, 1, 5), (30, 6, 25), (12, 26, 100), (3, 101, 400))
STATEFUL_CAP = 25

K = TypeVar("K", str, int)


@dataclass(frozen=True)
class SeedSizes:
    """How many machines the formulas ask for, and how many that becomes when every gang gets its floor."""

    effective: int
    configured_per_cluster: int
    configured_per_cluster_floored: int
    idle_per_shard: int
    idle_per_shard_floored: int
    speculative_per_shard: int
    speculative_per_shard_floored: int
    spot_per_shard: int

    def records_per_shard(self, clusters: int, shards: int) -> int:
        """Machines that one shard keeps in memory."""
        configured = math.ceil(clusters / shards) * self.configured_per_cluster_floored
        return configured + self.idle_per_shard_floored + self.speculative_per_shard_floored + self.spot_per_shard


def mean_replicas(archetype: Archetype) -> Fraction:
    """Expected replicas of one workload."""
    if archetype.gang:
        low, high = archetype.gang.group_size_range
        return Fraction(low + high, 2)
    cap = STATEFUL_CAP if archetype.name in STATEFUL else None
    return sum((weight * _mean_between(low, high, cap) for weight, low, high in REPLICAS), Fraction()) / 100


def _mean_between(low: int, high: int, cap: int | None) -> Fraction:
    """Mean of a uniform draw, each cut at `cap`."""
    if cap is None or cap >= high:
        return Fraction(low + high, 2)
    return Fraction(sum(min(value, cap) for value in range(low, high + 1)), high - low + 1)


def pod_share(archetype: Archetype) -> Fraction:
    """How much of the demand is this archetype's, relative to the others'."""
    return Fraction(0) if archetype.burst_only else archetype.weight * mean_replicas(archetype)


def mean_workload(archetypes: Iterable[Archetype]) -> Fraction:
    """Expected Pods of a drawn workload."""
    drawn = [archetype for archetype in archetypes if not archetype.burst_only]
    return sum(map(pod_share, drawn), Fraction()) / sum(archetype.weight for archetype in drawn)


def machine_share(archetype: Archetype, density: int) -> Fraction:
    return pod_share(archetype) / archetype.pods_per_machine(density)


def gang_floor(archetype: Archetype) -> int:
    """A tier must be able to hold the largest gang in every zone."""
    if archetype.gang is None or archetype.burst_only:
        return 0
    return archetype.gang.largest * len(archetype.zones)


def effective_machines(archetypes: Iterable[Archetype], total_pods: int, density: int) -> dict[str, int]:
    """Machines that the demand is expected to take, by archetype, gang floors included."""
    archetypes = tuple(archetypes)
    whole = sum(map(pod_share, archetypes), Fraction())
    return {
        a.name: math.ceil(total_pods * pod_share(a) / whole / a.pods_per_machine(density)) + gang_floor(a)
        for a in archetypes
    }


def largest_remainder(total: int, weights: Mapping[K, Fraction | int]) -> dict[K, int]:
    """Share `total` out in proportion to `weights`, to the last one."""
    whole = sum(weights.values())
    if not whole:
        return dict.fromkeys(weights, 0)
    parts = {name: divmod(total * weight, whole) for name, weight in weights.items()}
    shares = {name: int(share) for name, (share, _) in parts.items()}
    by_remainder = sorted(weights, key=lambda name: (-parts[name][1], name))
    for name in by_remainder[: total - sum(shares.values())]:
        shares[name] += 1
    return shares


def allocate_machines(archetypes: Iterable[Archetype], total: int, density: int) -> dict[str, int]:
    """`total` machines by archetype, then every gang archetype raised to its floor, on top."""
    archetypes = tuple(archetypes)
    shares = largest_remainder(total, {a.name: machine_share(a, density) for a in archetypes})
    return raise_to_floors(shares, archetypes) if total else shares


def raise_to_floors(shares: Mapping[str, int], archetypes: Iterable[Archetype]) -> dict[str, int]:
    return dict(shares) | {a.name: max(shares.get(a.name, 0), gang_floor(a)) for a in archetypes}


def seed_sizes(
    seed: Seed, archetypes: Iterable[Archetype], total_pods: int, density: int, clusters: int, shards: int
) -> SeedSizes:
    """The sizes of every tier."""
    archetypes = tuple(archetypes)
    effective = sum(effective_machines(archetypes, total_pods, density).values())
    configured = math.floor(effective * exact(seed.configured_fraction) / clusters)
    idle = math.floor(effective * exact(seed.idle_headroom_fraction) / shards)
    speculative = (
        effective * (seed.speculative_multiplier or 0) // shards
        if seed.speculative_count is None
        else seed.speculative_count
    )

    def floored(total: int) -> int:
        return sum(allocate_machines(archetypes, total, density).values())

    return SeedSizes(
        effective=effective,
        configured_per_cluster=configured,
        configured_per_cluster_floored=floored(configured),
        idle_per_shard=idle,
        idle_per_shard_floored=floored(idle),
        speculative_per_shard=speculative,
        speculative_per_shard_floored=floored(speculative),
        spot_per_shard=seed.spot_count,
    )


def exact(number: float) -> Fraction:
    """A decimal as it was written: 0.2 is one fifth, not the nearest binary."""
    return Fraction(repr(number))
