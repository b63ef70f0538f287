"""The catalog of archetypes: what kinds of workloads a run asks for, in which mix.

See docs/reference/harness.md#catalogs.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bigfleet.core import penalty
from bigfleet.core.labels import MOST_LABEL_CHARACTERS, check_label_key
from bigfleet.core.vectors import Vector, largest, parse_vector, scaled
from scaletest.model.documents.base import Document, refuse_all
from scaletest.model.documents.profile import Fraction, NonNegative
from scaletest.model.documents.quantities import Quantity
from scaletest.model.labels import INSTANCE_TYPE_KEY, RACK_KEY, ZONE_KEY

# Names whose workloads become StatefulSets.
STATEFUL = frozenset({"stateful-db", "memory-cache"})
# Resources that a machine of `density` Pods has plenty of; any other one makes a Pod fill its machine.
_DIVISIBLE = frozenset({"cpu", "memory", "ephemeral-storage"})

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
LabelValue = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$", max_length=MOST_LABEL_CHARACTERS)
]
# Each machine's rack is named after its zone, and is a label's value too.
ZoneName = Annotated[LabelValue, Field(max_length=MOST_LABEL_CHARACTERS - len("-rack-99"))]
Weight = Annotated[int, Field(gt=0, le=1_000_000_000)]
LabelKey = Annotated[str, AfterValidator(check_label_key)]


def _is_a_resource(name: str) -> str:
    if name in _DIVISIBLE or "/" in name or name.startswith("hugepages-"):
        return name
    raise ValueError(f"{name} is no resource; known are cpu, memory, ephemeral-storage, or <domain>/<name>")


def _once_each(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise ValueError(f"{twice} stands twice")
    return values


Names = Annotated[tuple[LabelValue, ...], Field(min_length=1), AfterValidator(_once_each)]
Zones = Annotated[tuple[ZoneName, ...], Field(min_length=1), AfterValidator(_once_each)]
Priority = Annotated[int, Field(ge=0, le=2_000_000_000)]
Resources = Annotated[dict[Annotated[LabelKey, AfterValidator(_is_a_resource)], Quantity], Field(min_length=1)]


class Size(Document):
    """One Pod size; a workload draws one by weight."""

    weight: Weight = 1
    """Relative to the other sizes."""
    resources: Resources
    """Requests, and limits too."""


class Gang(Document):
    """Pods that must share one rack or one zone."""

    scope: Literal["sameRack", "sameZone"]
    """What they share."""
    group_size_range: tuple[Annotated[int, Field(gt=0, le=10_000)], Annotated[int, Field(gt=0, le=10_000)]]
    """Smallest and largest gang."""
    allow_partial: bool = False
    """Documentation only: whether a partial gang is of use to its owner."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = self.group_size_range
        if low > high:
            raise ValueError(f"groupSizeRange starts at {low}, above its end {high}")
        return self

    @property
    def topology_key(self) -> str:
        """The label of which all its Nodes have one value."""
        return RACK_KEY if self.scope == "sameRack" else ZONE_KEY

    @property
    def largest(self) -> int:
        return self.group_size_range[1]


class SpreadConstraint(Document):
    """A topology spread that a workload carries with the given probability."""

    probability: Fraction = 1.0
    """Share of the workloads that carry it."""
    topology_key: Literal["topology.kubernetes.io/zone", "topology.bigfleet/rack"] = "topology.kubernetes.io/zone"
    """What they spread over: the two labels that every machine carries."""
    max_skew: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Largest difference between two domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """A hard spread, or a wish."""

    @property
    def is_hard(self) -> bool:
        return self.when_unsatisfiable == "DoNotSchedule"


class LabelAxis(Document):
    """A label of which every workload asks for one value, `<name>-<0..count-1>`: multiplies the distinct needs."""

    key: LabelKey
    """The node label."""
    count: Annotated[int, Field(gt=0, le=1000)]
    """How many values it has."""

    @model_validator(mode="after")
    def _values_are_labels(self) -> Self:
        if len(longest := self.value(self.count - 1)) > MOST_LABEL_CHARACTERS:
            raise ValueError(
                f"key: its last value, {longest}, is longer than the {MOST_LABEL_CHARACTERS} characters of a label"
            )
        return self

    def value(self, index: int) -> str:
        return f"{self.key.rpartition('/')[2]}-{index}"


class Archetype(Document):
    """One kind of workload."""

    name: Name
    """Unique in its catalog. `stateful-db` and `memory-cache` become StatefulSets, all others Deployments."""
    weight: Weight = 1
    """How often it is drawn, relative to the others."""
    instance_types: Names
    """Machines it may run on."""
    zones: Zones
    """Zones it may run in."""
    sizes: tuple[Size, ...] = ()
    """Pod sizes, drawn by weight. Excludes resources."""
    resources: Resources | None = None
    """The one Pod size. Excludes sizes."""
    priority_classes: Annotated[tuple[Annotated[int, Field(ge=0, le=2_000_000_000)], ...], Field(min_length=1)] = (
        1000,
    )
    """Priorities, drawn evenly."""
    interruption_penalty: NonNegative = 0.0
    """Dollars lost when a Pod is interrupted."""
    reclamation_penalty: NonNegative = 0.0
    """Dollars lost when a Pod's machine is reclaimed."""
    pods_per_node: Annotated[int, Field(gt=0, le=1000)] | None = None
    """Pods that one machine of this archetype holds; left out: the density, or 1 for accelerator shapes."""
    gang: Gang | None = None
    """Every workload is a gang."""
    spread: SpreadConstraint | None = None
    """A topology spread."""
    label_axes: tuple[LabelAxis, ...] = ()
    """Labels that split the demand into more distinct needs."""
    mean_lifetime_seconds: NonNegative = 0.0
    """Pods of finite life leave after this long on average; 0 is for ever."""
    burst_only: bool = False
    """Drawn only by bursts that name it."""

    @model_validator(mode="after")
    def _one_way_to_size(self) -> Self:
        refuse_all([*self._sizing_problems(), *self._axis_problems()])
        return self

    def _sizing_problems(self) -> Iterator[str]:
        if self.sizes and self.resources:
            yield "sizes and resources exclude each other"
        if not self.sizes and not self.resources:
            yield "sizes is missing (or resources, for one size only)"

    def _axis_problems(self) -> Iterator[str]:
        for index, axis in enumerate(self.label_axes):
            if axis.key in (INSTANCE_TYPE_KEY, ZONE_KEY, RACK_KEY):
                yield f"labelAxes[{index}].key: {axis.key} has a meaning of its own"
            if axis.key in (other.key for other in self.label_axes[:index]):
                yield f"labelAxes[{index}].key: {axis.key} stands twice"

    @cached_property
    def pod_sizes(self) -> tuple[Size, ...]:
        """The sizes, whichever way they were spelled."""
        return self.sizes or (Size(resources=self.resources or {}),)

    @cached_property
    def largest_pod(self) -> Vector:
        """The largest request in each dimension over the sizes."""
        top: Vector = {}
        for size in self.pod_sizes:
            top = largest(top, parse_vector(size.resources))
        return top

    @property
    def is_one_need(self) -> bool:
        """Whether all its Pods in a cluster are alike to BigFleet: of one need, and of one size."""
        all_spread_alike = self.spread is None or self.spread.probability in (0, 1)
        one_of_each = len(self.pod_sizes) == len(self.priority_classes) == 1
        return all_spread_alike and one_of_each and not (self.gang or self.label_axes)

    def pods_per_machine(self, density: int) -> int:
        if self.pods_per_node:
            return self.pods_per_node
        return density if self.largest_pod.keys() <= _DIVISIBLE else 1

    def machine_allocatable(self, density: int) -> Vector:
        """What one machine of this archetype offers: room for that many of its largest Pods."""
        return scaled(self.largest_pod, self.pods_per_machine(density))


class Catalog(Document):
    """The archetypes of one file under profiles/archetypes/."""

    archetypes: tuple[Archetype, ...] = ()
    """Demand and seeded machines alike."""
    demand_archetypes: tuple[Archetype, ...] = ()
    """What is asked for, where that differs from what is seeded."""
    seed_archetypes: tuple[Archetype, ...] = ()
    """What is seeded, where that differs from what is asked for."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        refuse_all([*self._list_problems(), *self._archetype_problems()])
        return self

    def _list_problems(self) -> Iterator[str]:
        if bool(self.demand_archetypes) != bool(self.seed_archetypes):
            yield "demandArchetypes and seedArchetypes go together"
        elif bool(self.archetypes) == bool(self.demand_archetypes):
            yield "give archetypes, or demandArchetypes and seedArchetypes"

    def _archetype_problems(self) -> Iterator[str]:
        lists = {
            "archetypes": self.archetypes,
            "demandArchetypes": self.demand_archetypes,
            "seedArchetypes": self.seed_archetypes,
        }
        for field, archetypes in lists.items():
            names = [archetype.name for archetype in archetypes]
            for index, name in enumerate(names):
                if name in names[:index]:
                    yield f"{field}[{index}].name: {name} is defined twice"
            if archetypes and all(archetype.burst_only for archetype in archetypes):
                yield f"{field}: every archetype is burstOnly, so there is no steady demand"

    @property
    def demand(self) -> tuple[Archetype, ...]:
        """What is asked for."""
        return self.archetypes or self.demand_archetypes

    @property
    def seeded(self) -> tuple[Archetype, ...]:
        """What machines are made for."""
        return self.archetypes or self.seed_archetypes

    @cached_property
    def by_name(self) -> Mapping[str, Archetype]:
        """The demanded archetypes."""
        return {archetype.name: archetype for archetype in self.demand}

    @cached_property
    def penalty_buckets(self) -> tuple[str, ...]:
        """The interruption-penalty buckets that the demand falls into, as metrics call them."""
        buckets = {penalty.bucket_of(archetype.interruption_penalty) for archetype in self.demand}
        return tuple(map(penalty.label, sorted(buckets)))

    def __getitem__(self, name: str) -> Archetype:
        return self.by_name[name]
