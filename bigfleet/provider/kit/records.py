"""Machine records: immutable values, so that a reader of a snapshot never sees half a change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.kit.transitions import Kind


@dataclass(frozen=True, eq=False)
class Shape:
    """What machines of one kind have in common; thousands of records share one."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    price_per_hour: float
    interruption_probability: float
    allocatable: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)

    def same_as(self, other: "Shape") -> bool:
        return self.wire == other.wire

    @cached_property
    def wire(self) -> pb.Machine:
        """The part of the message that this shape decides; copy it, never change it."""
        resources = pb.Resources(resources=self.allocatable)
        return pb.Machine(
            instance_type=self.instance_type,
            zone=self.zone,
            capacity_type=self.capacity_type.name,
            price_per_hour=self.price_per_hour,
            interruption_probability=self.interruption_probability,
            resources=resources,
            allocatable=resources,
            labels=self.labels,
        )


@dataclass(frozen=True, slots=True, eq=False)
class MachineRecord:
    """One machine. Changes are new values (`dataclasses.replace`)."""

    id: str
    shape: Shape
    state: MachineState
    host: str = ""
    cluster: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    last_error: str = ""
    failed_in: Kind | None = None
    """The transition that a Failed machine failed in; None when it was lost."""
    operation: str = ""
    """Id of the last accepted call. It survives a restart, so a backend can pass it on as its own request's token."""

    def write(self, message: pb.Machine, provider_id: str) -> pb.Machine:
        """Fill an empty message with this machine."""
        message.MergeFrom(self.shape.wire)
        message.id = self.id
        message.state = self.state  # type: ignore[assignment]  # the stubs know no plain numbers
        if self.host:
            message.host.provider = provider_id
            message.host.ref = self.host
        message.cluster = self.cluster
        message.last_error = self.last_error
        message.shard_metadata.update(self.metadata)
        return message
