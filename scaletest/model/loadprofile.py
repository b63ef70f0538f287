"""What the load-driver of one cluster is told: the file that the chart mounts as its load profile."""

from typing import Annotated

from pydantic import Field

from scaletest.model.base import Document
from scaletest.model.catalog import Archetype, Catalog
from scaletest.model.profile import Burst, DemandStep, ScaleDown


class LoadProfile(Document):
    """The demand of every cluster: how much, of what, changing how. One file for all; the ordinal tells them apart."""

    # Pods per cluster.
    target: Annotated[int, Field(ge=0)]
    # Share of the target's Pods that is replaced each minute of the soak.
    churn_per_minute: Annotated[float, Field(ge=0)] = 0.0
    # Repeats the draw, the churn and every other random choice.
    seed: int = 1
    pre_bind_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    anchors: bool = False
    bursts: tuple[Burst, ...] = ()
    scale_downs: tuple[ScaleDown, ...] = ()
    demand_steps: tuple[DemandStep, ...] = ()
    open_loop_demand_multiplier: Annotated[float, Field(ge=0)] = 1.0
    archetypes: Annotated[tuple[Archetype, ...], Field(min_length=1)]

    @property
    def catalog(self) -> Catalog:
        return Catalog(archetypes=self.archetypes)
