"""What a provider keeps on disk: one small value per fact, the last one about a thing wins."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec


class Lives(msgspec.Struct, array_like=True, tag="lives", frozen=True):
    """(first, last) revision of every stretch that deltas can be made of; the last stretch is still growing."""

    stretches: list[tuple[int, int]]


class ShapeEntry(msgspec.Struct, array_like=True, tag="shape", frozen=True):
    """A shape, under the number by which machines refer to it."""

    number: int
    instance_type: str
    zone: str
    capacity_type: int
    price_per_hour: float
    interruption_probability: float
    allocatable: dict[str, str]
    labels: dict[str, str]


class MachineEntry(msgspec.Struct, array_like=True, tag="machine", frozen=True):
    """A machine after its change number `revision`; `moved` is its last change of zone or labels."""

    id: str
    revision: int
    moved: int
    shape: int
    state: int
    host: str
    cluster: str
    metadata: dict[str, str]
    last_error: str
    failed_in: str
    operation: str


class Removed(msgspec.Struct, array_like=True, tag="removed", frozen=True):
    """A tombstone."""

    id: str
    revision: int


class Mark(msgspec.Struct, array_like=True, tag="mark", frozen=True):
    """A fencing mark."""

    shard_id: str
    machine_id: str
    epoch: int
    sequence: int


class Operation(msgspec.Struct, array_like=True, tag="operation", frozen=True):
    """The last operation of a kind on a machine."""

    machine_id: str
    kind: str
    number: int


class Flight(msgspec.Struct, array_like=True, tag="flight", frozen=True):
    """What an accepted call was asked with, until its machine is in a stable state or Failed."""

    machine_id: str
    kind: str
    # Unix seconds: a restart does not give a transition its whole time again.
    deadline: float
    grace_seconds: int
    bootstrap_blob: bytes


Entry: TypeAlias = Lives | ShapeEntry | MachineEntry | Removed | Mark | Operation | Flight

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Entry])
# Of a snapshot: large enough to be quick, small enough that one frame takes little time and memory.
_ENTRIES_PER_FRAME = 1000


def encode(entries: Sequence[Entry]) -> bytes:
    return _ENCODER.encode(entries)


def decode(payload: bytes) -> list[Entry]:
    """Raises msgspec.DecodeError."""
    return _DECODER.decode(payload)


def in_frames(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Many entries, encoded piece by piece."""
    rest = iter(entries)
    while piece := list(islice(rest, _ENTRIES_PER_FRAME)):
        yield encode(piece)
