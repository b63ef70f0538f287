"""What an operator sends, as it comes: a roll-up is taken apart into rows, so that only new ones need to be read."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.shard.message_limits import MAX_ROWS

# Tags of OperatorMessage.rollup, and of ClusterCapacityNeeds' cluster_id, timestamp_unix_nanos and needs.
_ROLLUP, _CLUSTER, _TIMESTAMP, _NEED = 0x12, 0x0A, 0x10, 0x1A

# Of a varint: ten bytes, seven bits each.
_LONGEST_SHIFT = 56


class Rollup:
    """A cluster's whole demand: the bytes of ClusterCapacityNeeds from the first need on.

    Two with the same bytes ask for the same. The reverse need not hold, and costs no more than reading again.
    """

    def __init__(self, needs: bytes) -> None:
        self.needs = needs

    @classmethod
    def of(cls, message: capacity_pb2.ClusterCapacityNeeds) -> "Rollup":
        return cls(capacity_pb2.ClusterCapacityNeeds(needs=message.needs).SerializeToString())

    @cached_property
    def rows(self) -> list[bytes]:
        """Each need on its own; one more than are allowed, if there are more. Raises DecodeError."""
        rows = _split(self.needs)
        if rows is None:  # fields that we do not know, or no message at all
            message = capacity_pb2.ClusterCapacityNeeds.FromString(self.needs)
            rows = [need.SerializeToString() for need in message.needs[: MAX_ROWS + 1]]
        return rows


Frame = shard_pb2.OperatorMessage | Rollup


def read_frame(content: bytes) -> Frame:
    """A message, or the roll-up that it carries. Raises DecodeError; a roll-up's rows are not looked at yet."""
    start = _first_need(content)
    if start is not None:
        return Rollup(content[start:])
    message = shard_pb2.OperatorMessage.FromString(content)
    return Rollup.of(message.rollup) if message.WhichOneof("payload") == "rollup" else message


def session_handler(session: Callable[..., Any]) -> grpc.GenericRpcHandler:
    """The service `Shard`, as its generated code has it, but with frames instead of messages."""
    handler = grpc.stream_stream_rpc_method_handler(
        session, request_deserializer=read_frame, response_serializer=shard_pb2.ShardMessage.SerializeToString
    )
    service = shard_pb2.DESCRIPTOR.services_by_name["Shard"].full_name
    return grpc.method_handlers_generic_handler(service, {"Session": handler})


def _first_need(content: bytes) -> int | None:
    """Where the needs begin in a message that is a roll-up of the usual form and nothing else."""
    try:
        if content[0] != _ROLLUP:
            return None
        length, place = _varint(content, 1)
        if place + length != len(content):
            return None
        if place < len(content) and content[place] == _CLUSTER:
            length, place = _varint(content, place + 1)
            place += length
        if place < len(content) and content[place] == _TIMESTAMP:
            _, place = _varint(content, place + 1)
        if place == len(content) or content[place] == _NEED:
            return place
    except IndexError:
        pass
    return None


def _split(needs: bytes) -> list[bytes] | None:
    """The rows, if there is nothing but rows."""
    rows: list[bytes] = []
    place, end = 0, len(needs)
    try:
        while place < end and len(rows) <= MAX_ROWS:
            if needs[place] != _NEED:
                return None
            length = needs[place + 1]
            place += 2
            if length > 127:
                if needs[place] < 128:  # as of most rows
                    length += (needs[place] - 1) << 7
                    place += 1
                else:
                    length, place = _varint(needs, place - 1)
            rows.append(needs[place : place + length])
            place += length
    except IndexError:
        return None
    return rows if place <= end else None


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """The number that begins at a place, and the place after it. Raises IndexError where there is none."""
    number = shift = 0
    while (byte := content[place]) > 127:
        if shift > _LONGEST_SHIFT:
            raise IndexError(place)
        number |= (byte & 127) << shift
        shift += 7
        place += 1
    return number | byte << shift, place + 1
