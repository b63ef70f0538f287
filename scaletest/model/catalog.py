"""The catalog of archetypes: what kinds of workloads a run asks for, in which mix (spec/harness.md §4.2)."""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bigfleet.core.quantity import parse_milli
from bigfleet.core.vectors import Vector, largest, parse_vector, scaled
from scaletest.model.base import Document

# Names whose workloads become StatefulSets.
STATEFUL = frozenset({"stateful-db", "memory-cache"})
# Resources that a machine of `density` pods has plenty of; any other one makes a pod fill its machine.
_DIVISIBLE = frozenset({"cpu", "memory", "ephemeral-storage"})


class Size(Document):
    """One pod size; a workload draws one by weight."""

    weight: Annotated[int, Field(gt=0)] = 1
    resources: dict[str, str]

    @field_validator("resources")
    @classmethod
    def _are_quantities(cls, resources: dict[str, str]) -> dict[str, str]:
        for name, text in resources.items():
            if parse_milli(text) <= 0:
                raise ValueError(f"{name}: {text} must be above zero")
        return resources


class Gang(Document):
    """Pods that must share one rack or one zone."""

    scope: Literal["sameRack", "sameZone"]
    group_size_range: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]
    # Documentation only: whether a partial gang is of use to its owner.
    allow_partial: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> "Gang":
        low, high = self.group_size_range
        if low > high:
            raise ValueError(f"groupSizeRange starts at {low}, above its end {high}")
        return self

    @property
    def largest(self) -> int:
        return self.group_size_range[1]


class SpreadConstraint(Document):
    """A topology spread that a workload carries with the given probability."""

    probability: Annotated[float, Field(ge=0, le=1)] = 1.0
    topology_key: str = "topology.kubernetes.io/zone"
    max_skew: Annotated[int, Field(ge=1)] = 1
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]


class Archetype(Document):
    """One kind of workload."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
    weight: Annotated[float, Field(ge=0)] = 1.0
    instance_types: Annotated[tuple[str, ...], Field(min_length=1)]
    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    sizes: Annotated[tuple[Size, ...], Field(min_length=1)]
    priority_classes: Annotated[tuple[int, ...], Field(min_length=1)] = (1000,)
    interruption_penalty: Annotated[float, Field(ge=0)] = 0.0
    reclamation_penalty: Annotated[float, Field(ge=0)] = 0.0
    # Pods that one machine of this archetype holds; default: the profile's density, or 1 for accelerator shapes.
    pods_per_node: Annotated[int, Field(gt=0)] | None = None
    gang: Gang | None = None
    spread: SpreadConstraint | None = None
    # Pods of finite life leave after this long on average; 0 is for ever.
    mean_lifetime_seconds: Annotated[float, Field(ge=0)] = 0.0
    # Drawn only by bursts that name it.
    burst_only: bool = False

    @cached_property
    def largest_pod(self) -> Vector:
        """The largest request in each dimension over the sizes."""
        top: Vector = {}
        for size in self.sizes:
            top = largest(top, parse_vector(size.resources))
        return top

    def pods_per_machine(self, density: int) -> int:
        if self.pods_per_node:
            return self.pods_per_node
        divisible = all(name in _DIVISIBLE for size in self.sizes for name in size.resources)
        return density if divisible else 1

    def machine_allocatable(self, density: int) -> Vector:
        """What one machine of this archetype offers: room for that many of its largest pods."""
        return scaled(self.largest_pod, self.pods_per_machine(density))


class Catalog(Document):
    """The archetypes of one file under profiles/archetypes/."""

    archetypes: Annotated[tuple[Archetype, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _sound(self) -> "Catalog":
        names = [archetype.name for archetype in self.archetypes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"archetype {twice[0]} is defined twice")
        if all(archetype.burst_only for archetype in self.archetypes):
            raise ValueError("every archetype is burstOnly, so there is no steady demand")
        return self

    def __getitem__(self, name: str) -> Archetype:
        return next(archetype for archetype in self.archetypes if archetype.name == name)
