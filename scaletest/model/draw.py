"""The demand draw: one deterministic function of (seed, cluster ordinal, catalog), shared by all (design.md §4).

The load-driver creates what is drawn, the plan seeds machines for it, preflight checks it: they cannot drift apart.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.core.vectors import Vector, parse_vector, scaled
from scaletest.model.catalog import STATEFUL, Archetype, Catalog, Size

# (weight, smallest, largest): most services are small, a few are very large (spec/harness.md §4.1).
_REPLICAS = ((55, 1, 5), (30, 6, 25), (12, 26, 100), (3, 101, 400))
_STATEFUL_CAP = 25


@dataclass(frozen=True)
class Workload:
    """One Deployment or StatefulSet to be created; all its replicas are alike."""

    name: str
    archetype: Archetype
    replicas: int
    size: Size
    priority: int
    has_spread: bool
    # The gang's label value; empty for workloads that are no gang.
    group: str

    @property
    def stateful(self) -> bool:
        return self.archetype.name in STATEFUL

    @property
    def aggregate(self) -> Vector:
        """What all replicas ask for together."""
        return scaled(parse_vector(self.size.resources), self.replicas)


def cluster_id(ordinal: int) -> str:
    return f"kwok-cluster-{ordinal}"


def ordinal_of(cluster: str) -> int:
    """The trailing integer of a cluster id (or pod name)."""
    return int(cluster.rpartition("-")[2])


def draw_demand(catalog: Catalog, target: int, seed: int, ordinal: int) -> list[Workload]:
    """The workloads of one cluster: objects are drawn until their replicas reach `target` exactly.

    The last object is cut to what is left, except gangs: a gang that does not fit whole is not begun, and an
    ordinary workload fills the rest (a catalog of gangs only may therefore end below the target).
    """
    rng = random.Random(f"draw/{seed}/{ordinal}")
    steady = [archetype for archetype in catalog.archetypes if not archetype.burst_only]
    drawn: list[Workload] = []
    left = target
    while left > 0:
        fitting = [a for a in steady if a.gang is None or a.gang.group_size_range[0] <= left]
        if not fitting:
            break
        archetype = rng.choices(fitting, weights=[a.weight or 1 for a in fitting])[0]
        workload = _draw_one(rng, archetype, len(drawn), left, cluster_id(ordinal))
        drawn.append(workload)
        left -= workload.replicas
    return drawn


def _draw_one(rng: random.Random, archetype: Archetype, sequence: int, left: int, cluster: str) -> Workload:
    name = f"{cluster}-{archetype.name}-{sequence}"
    if archetype.gang:
        low, high = archetype.gang.group_size_range
        replicas = rng.randint(low, min(high, left))
    else:
        replicas = min(_replicas(rng, _STATEFUL_CAP if archetype.name in STATEFUL else None), left)
    return Workload(
        name=name,
        archetype=archetype,
        replicas=replicas,
        size=rng.choices(archetype.sizes, weights=[size.weight for size in archetype.sizes])[0],
        priority=rng.choice(archetype.priority_classes),
        has_spread=archetype.spread is not None and rng.random() < archetype.spread.probability,
        group=f"{cluster}-{archetype.name}-grp-{sequence}" if archetype.gang else "",
    )


def _replicas(rng: random.Random, cap: int | None) -> int:
    _, low, high = rng.choices(_REPLICAS, weights=[row[0] for row in _REPLICAS])[0]
    count = rng.randint(low, high)
    return min(count, cap) if cap else count


def total_pods(workloads: Sequence[Workload]) -> int:
    return sum(workload.replicas for workload in workloads)
