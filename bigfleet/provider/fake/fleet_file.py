"""The fleet file: which machines a fake provider has at its start."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.core.quantity import QuantityError
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY
from bigfleet.core.vectors import parse_vector
from bigfleet.errors import BigFleetError, ExitStatus
from bigfleet.provider.fake.backend import host_of
from bigfleet.provider.kit import MachineRecord, Shape

# A machine's id becomes part of the names of Kubernetes objects.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_ID = 240
_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType if kind is not CapacityType.UNSPECIFIED}


class FleetError(BigFleetError):
    """A fleet file that cannot be used, naming the file and the place in it."""

    exit_code = ExitStatus.WRONG_USE


class MachineKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What machines of one kind have in common."""

    instance_type: str
    zone: str
    capacity_type: Literal["BareMetal", "Reserved", "OnDemand", "Spot"]
    price_per_hour: float
    allocatable: dict[str, str]
    interruption_probability: float = 0.0
    labels: dict[str, str] = {}


class MachineBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`count` machines of one kind, named `<idPrefix>-<kind>-<i>`."""

    id_prefix: str
    kind: str
    count: int
    state: Literal["Speculative", "Idle", "Configured"]
    cluster: str = ""
    metadata: dict[str, str] = {}


class FleetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    kinds: dict[str, MachineKind]
    machines: list[MachineBatch]


@dataclass(frozen=True)
class SeededMachines:
    """The machines of a fleet file."""

    machines: list[MachineRecord]
    """Those that the file calls Configured are Configuring here, until their node has phoned home."""

    @property
    def clusters(self) -> list[str]:
        return sorted({machine.cluster for machine in self.machines if machine.cluster})


def read_fleet(path: Path) -> SeededMachines:
    """Read and check a fleet file; raises FleetError."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=FleetFile)
        shapes = {name: _shape(name, kind) for name, kind in file.kinds.items()}
        machines = [machine for index, batch in enumerate(file.machines) for machine in _machines(index, batch, shapes)]
        _check_unique(machines)
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise FleetError(f"{path}: {error}") from error
    return SeededMachines(machines)


def _shape(name: str, kind: MachineKind) -> Shape:
    where = f"$.kinds.{name}"
    if not kind.instance_type or not kind.zone:
        raise ValueError(f"{where}: instanceType and zone must not be empty")
    if not 0 <= kind.price_per_hour < math.inf:
        raise ValueError(f"{where}.pricePerHour: {kind.price_per_hour} is not a finite number ≥ 0")
    if not 0 <= kind.interruption_probability <= 1:
        raise ValueError(f"{where}.interruptionProbability: {kind.interruption_probability} is not in [0, 1]")
    if kind.capacity_type == "Spot" and kind.interruption_probability == 0:
        raise ValueError(f"{where}.interruptionProbability: a Spot machine must declare one above 0")
    if hidden := {INSTANCE_TYPE_KEY, ZONE_KEY} & kind.labels.keys():
        raise ValueError(f"{where}.labels: {min(hidden)} has a field of its own")
    try:
        parse_vector(kind.allocatable)
    except QuantityError as error:
        raise ValueError(f"{where}.allocatable: {error}") from error
    return Shape(
        instance_type=kind.instance_type,
        zone=kind.zone,
        capacity_type=_CAPACITY_TYPES[kind.capacity_type],
        price_per_hour=kind.price_per_hour,
        interruption_probability=kind.interruption_probability,
        allocatable=kind.allocatable,
        labels=kind.labels,
    )


def _machines(index: int, batch: MachineBatch, shapes: dict[str, Shape]) -> Iterator[MachineRecord]:
    where = f"$.machines[{index}]"
    shape = shapes.get(batch.kind)
    if shape is None:
        raise ValueError(f"{where}.kind: no kind {batch.kind!r} in $.kinds")
    if batch.count < 0:
        raise ValueError(f"{where}.count: {batch.count} is negative")
    prefix = f"{batch.id_prefix}-{batch.kind}"
    if not _NAME.fullmatch(f"{prefix}-0") or len(prefix) > _LONGEST_ID:
        raise ValueError(f"{where}: {prefix}-0 is not a DNS-1123 name that a Node can carry")
    bound = batch.state == "Configured"
    if bound != bool(batch.cluster):
        raise ValueError(f"{where}.cluster: a Configured machine has one, and no other")
    if batch.metadata and not bound:
        raise ValueError(f"{where}.metadata: only a Configured machine has some")
    state = MachineState.CONFIGURING if bound else MachineState[batch.state.upper()]
    for number in range(batch.count):
        machine_id = f"{prefix}-{number}"
        yield MachineRecord(
            id=machine_id,
            shape=shape,
            state=state,
            host="" if state is MachineState.SPECULATIVE else host_of(machine_id),
            cluster=batch.cluster,
            metadata=batch.metadata,
        )


def _check_unique(machines: list[MachineRecord]) -> None:
    seen: set[str] = set()
    for machine in machines:
        if machine.id in seen:
            raise ValueError(f"two machines are called {machine.id!r}: give their entries different idPrefixes")
        seen.add(machine.id)
