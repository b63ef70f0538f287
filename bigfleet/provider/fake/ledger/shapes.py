"""What each machine of the fleet file is: copied before the kit gets hold of it, so that the kit can be held to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import CapacityType
from bigfleet.core.vectors import parse_vector
from bigfleet.provider.kit import MachineRecord, Shape

# Where a machine is and what it has, whatever it costs.
Slot = tuple[str, str, frozenset[tuple[str, int]], frozenset[tuple[str, str]]]

# Prices are added and taken away for hours: whole numbers of these do not drift.
NANODOLLARS = 1_000_000_000


@dataclass(frozen=True, eq=False)
class FleetShape:
    """What machines of one kind have in common, in the fleet file's words."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    price_per_hour: float
    interruption_probability: float
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    milli: Mapping[str, int]
    """`allocatable` in milli-units."""
    nanodollars_per_hour: int
    slot: Slot

    @classmethod
    def of(cls, shape: Shape) -> "FleetShape":
        milli = parse_vector(shape.allocatable)
        return cls(
            instance_type=shape.instance_type,
            zone=shape.zone,
            capacity_type=shape.capacity_type,
            price_per_hour=shape.price_per_hour,
            interruption_probability=shape.interruption_probability,
            allocatable=dict(shape.allocatable),
            labels=dict(shape.labels),
            milli=milli,
            nanodollars_per_hour=round(shape.price_per_hour * NANODOLLARS),
            slot=(shape.instance_type, shape.zone, frozenset(milli.items()), frozenset(shape.labels.items())),
        )

    def differences(self, told: pb.Machine) -> list[str]:
        """The fields in which an answer describes a machine otherwise."""
        allocatable = told.allocatable if told.HasField("allocatable") else told.resources
        pairs = {
            "price_per_hour": (told.price_per_hour, self.price_per_hour),
            "interruption_probability": (told.interruption_probability, self.interruption_probability),
            "capacity_type": (told.capacity_type, self.capacity_type),
            "allocatable": (dict(allocatable.resources), self.allocatable),
            "zone": (told.zone, self.zone),
            "instance_type": (told.instance_type, self.instance_type),
            "labels": (dict(told.labels), self.labels),
        }
        return [field for field, (said, is_so) in pairs.items() if said != is_so]


class FleetShapes:
    """The shape of every machine; those that look alike share one."""

    def __init__(self) -> None:
        self._of_machine: dict[str, FleetShape] = {}
        self._known: dict[Shape, FleetShape] = {}

    def __contains__(self, machine_id: object) -> bool:
        return machine_id in self._of_machine

    def add(self, machines: Iterable[MachineRecord]) -> None:
        for machine in machines:
            shape = self._known.get(machine.shape)
            if shape is None:
                shape = self._known[machine.shape] = FleetShape.of(machine.shape)
            self._of_machine[machine.id] = shape

    def get(self, machine_id: str) -> FleetShape | None:
        return self._of_machine.get(machine_id)
