"""Machine kinds: machines that no need and no order but the id's can tell apart, known by one number."""

from dataclasses import dataclass

import numpy as np

from bigfleet.core.machines import CapacityType, Machine
from bigfleet.core.penalty import ALL_BUCKETS, effective_cost, upper_bound
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.core.vectors import Vector
from bigfleet.engine.columns.dimensions import Dimensions, rescaled
from bigfleet.engine.columns.growing import Flags, Floats, Ints, Longs, grown
from bigfleet.engine.columns.names import Names

_PENALTIES = [upper_bound(bucket) for bucket in ALL_BUCKETS]


@dataclass(frozen=True)
class Base:
    """What a machine is without its labels."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    price_per_hour: float
    interruption_probability: float
    # The number of the allocatable vector.
    allocatable: int

    def attribute(self, key: str, labels: dict[str, str]) -> str | None:
        """As Machine.attribute."""
        if key == INSTANCE_TYPE_KEY and self.instance_type:
            return self.instance_type
        if key == ZONE_KEY and self.zone:
            return self.zone
        return labels.get(key)


class Kinds:
    """Interns machines by base and by the attributes that some need refers to; other labels make no kind."""

    def __init__(self, dimensions: Dimensions) -> None:
        self.bases: list[Base] = []
        # The keys that needs refer to. Instance types are always of interest: hints count them.
        self.keys: dict[str, int] = {INSTANCE_TYPE_KEY: 0}
        self.values: list[Names] = [Names()]
        # [key, kind] → number of the value, −1 = none.
        self.attributes: Ints = np.full((1, 64), -1, np.int32)
        # [bucket, kind] → effective cost for a need with that interruption penalty.
        self.costs: Floats = np.zeros((len(_PENALTIES), 64))
        self.allocatable_of: Ints = np.zeros(64, np.int32)
        # Machines of the kind, in any state.
        self.machines: Longs = np.zeros(64, np.int64)
        self.capacity_types: Flags = np.zeros(64, np.uint8)
        # Allocatable vectors: as given, and in units.
        self.vectors: list[Vector] = []
        self.allocatable: Longs = np.zeros((0, dimensions.width), np.int64)
        self._dimensions = dimensions
        self._vector_numbers: dict[frozenset[tuple[str, int]], int] = {}
        self._numbers: dict[tuple[Base, tuple[str | None, ...]], int] = {}

    def __len__(self) -> int:
        return len(self.bases)

    def vector_number(self, vector: Vector) -> int:
        """−1 for a vector that no machine has offered yet."""
        return self._vector_numbers.get(frozenset(vector.items()), -1)

    def add_vector(self, vector: Vector) -> int:
        """An admitted vector."""
        number = len(self.vectors)
        self._vector_numbers[frozenset(vector.items())] = number
        self.vectors.append(dict(vector))
        self.allocatable = grown(self.allocatable, number + 1)
        self._dimensions.write(vector, self.allocatable[number])
        return number

    def rescale(self, factors: list[int]) -> None:
        self.allocatable = rescaled(self.allocatable, self._dimensions.width, factors)

    def of(self, machine: Machine, vector: int) -> int:
        """The machine's kind; `vector` is the number of its allocatable."""
        base = Base(
            machine.instance_type,
            machine.zone,
            machine.capacity_type,
            machine.price_per_hour,
            machine.interruption_probability,
            vector,
        )
        return self.intern(base, machine.labels)

    def intern(self, base: Base, labels: dict[str, str]) -> int:
        values = tuple(base.attribute(key, labels) for key in self.keys)
        kind = self._numbers.get((base, values))
        return self._add(base, values) if kind is None else kind

    def refer(self, key: str) -> bool:
        """Tell machines apart by this key too; True if machines must be interned again."""
        if key in self.keys:
            return False
        self.keys[key] = len(self.keys)
        self.values.append(Names())
        self.attributes = grown(self.attributes, len(self.keys), -1)
        return True

    def _add(self, base: Base, values: tuple[str | None, ...]) -> int:
        kind = len(self.bases)
        self._numbers[base, values] = kind
        self.bases.append(base)
        if kind >= len(self.machines):
            self.attributes = grown(self.attributes, kind + 1, -1, axis=1)
            self.costs = grown(self.costs, kind + 1, axis=1)
            self.allocatable_of = grown(self.allocatable_of, kind + 1)
            self.machines = grown(self.machines, kind + 1)
            self.capacity_types = grown(self.capacity_types, kind + 1)
        for key, value in enumerate(values):
            self.attributes[key, kind] = -1 if value is None else self.values[key].number(value)
        price, probability = base.price_per_hour, base.interruption_probability
        self.costs[:, kind] = [effective_cost(price, probability, penalty) for penalty in _PENALTIES]
        self.allocatable_of[kind] = base.allocatable
        self.capacity_types[kind] = base.capacity_type
        return kind
