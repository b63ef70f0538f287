"""Which part of the demand each shard has to meet: cluster N is served by shard N % shards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scaletest.model.demand.draw import Draw
from scaletest.model.demand.needs import DrawnDemand, burst_machines, count_demand
from scaletest.model.documents.catalog import Archetype
from scaletest.model.documents.profile import Burst


@dataclass(frozen=True)
class DemandShare:
    """One shard's part."""

    shard: int
    # Of its clusters, those that were drawn.
    draws: tuple[Draw, ...]
    # Of all its clusters.
    demand: DrawnDemand


def shares_of(
    draws: Iterable[Draw],
    *,
    clusters: int,
    shards: int,
    density: int,
    configured_fraction: float,
    bursts: Iterable[Burst],
    archetypes: Mapping[str, Archetype],
) -> list[DemandShare]:
    """Every shard's part, in order."""
    drawn: list[list[Draw]] = [[] for _ in range(shards)]
    for draw in draws:
        drawn[draw.ordinal % shards].append(draw)
    shares, bursts = [], tuple(bursts)
    for shard, mine in enumerate(drawn):
        ordinals = range(shard, clusters, shards)
        extra = burst_machines(bursts, archetypes, ordinals, density)
        demand = count_demand(mine, len(ordinals), density, configured_fraction, extra)
        shares.append(DemandShare(shard, tuple(mine), demand))
    return shares
