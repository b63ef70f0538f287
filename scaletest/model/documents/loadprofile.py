"""What the pods of a run are told about demand and machines: the files that the chart mounts."""

from typing import Annotated, Self

from pydantic import Field

from scaletest.model.documents.base import Document
from scaletest.model.documents.catalog import Archetype, Catalog
from scaletest.model.documents.profile import (
    Burst,
    DemandMode,
    DemandStep,
    Fraction,
    NonNegative,
    ScaleDown,
    Seed,
    SeedNumber,
)


class LoadProfile(Document):
    """The demand of every cluster: how much, of what, changing how. One file for all; the ordinal tells them apart."""

    target: Annotated[int, Field(ge=0)]
    """Pods per cluster."""
    mode: DemandMode = "pod"
    """Whether Pods ask, or CapacityRequests exist alone."""
    churn_per_minute: NonNegative = 0.0
    """Share of the target's Pods that is replaced each minute of the soak."""
    jittered_churn: bool = True
    """Whether each second's number is drawn around its mean."""
    micro_burst_rate_per_minute: NonNegative = 0.0
    """Seconds of a minute in which the churn is multiplied."""
    micro_burst_factor: NonNegative = 5.0
    """By how much."""
    seed: SeedNumber = 1
    """Repeats the draw, the churn and every other random choice."""
    pre_bind_fraction: Fraction = 0.0
    """Share of the fill that the load-driver binds itself."""
    anchors: bool = False
    """Force-bind one Pod of each gang."""
    bursts: tuple[Burst, ...] = ()
    scale_downs: tuple[ScaleDown, ...] = ()
    demand_steps: tuple[DemandStep, ...] = ()
    open_loop_demand_multiplier: NonNegative = 1.0
    archetypes: Annotated[tuple[Archetype, ...], Field(min_length=1)]
    """What is asked for."""


class Seeding(Document):
    """The machines of the whole fleet: with the load profile, all that the provider's fleet file is made from."""

    clusters: Annotated[int, Field(gt=0)]
    """KWOK clusters."""
    shards: Annotated[int, Field(gt=0)]
    """Shards, among which the free machines are shared out."""
    density: Annotated[int, Field(gt=0)]
    """Pods per machine."""
    machines: Seed
    """What the provider owns before the first Pod exists."""
    seed_archetypes: tuple[Archetype, ...] = ()
    """What machines are made for, where that differs from what is asked for."""

    def catalog(self, demand: LoadProfile) -> Catalog:
        if self.seed_archetypes:
            return Catalog(demand_archetypes=demand.archetypes, seed_archetypes=self.seed_archetypes)
        return Catalog(archetypes=demand.archetypes)

    @classmethod
    def of(cls, catalog: Catalog, seed: Seed, clusters: int, shards: int, density: int) -> Self:
        return cls(
            clusters=clusters, shards=shards, density=density, machines=seed, seed_archetypes=catalog.seed_archetypes
        )
