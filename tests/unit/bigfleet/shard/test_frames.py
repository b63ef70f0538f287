"""Operator frames: taken apart by hand where that is quick, and always read as protobuf itself would read them."""

import random

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.shard import message_limits as limits
from bigfleet.shard.sessions.frames import Rollup, read_frame
from tests.integration.players.broken_requests import broken


def rollup(rows: int, name: str = "cpu", timestamp: int = 1) -> capacity_pb2.ClusterCapacityNeeds:
    needs = [capacity_pb2.CapacityNeed(priority=row, aggregate_resources={name: "4"}) for row in range(rows)]
    return capacity_pb2.ClusterCapacityNeeds(cluster_id="c", timestamp_unix_nanos=timestamp, needs=needs)


def frame(message: capacity_pb2.ClusterCapacityNeeds) -> bytes:
    return shard_pb2.OperatorMessage(rollup=message).SerializeToString()


def needs_of(content: bytes) -> list[capacity_pb2.CapacityNeed] | None:
    """The needs as read by hand; None for a frame that cannot be read, or is no roll-up."""
    try:
        read = read_frame(content)
        return [capacity_pb2.CapacityNeed.FromString(row) for row in read.rows] if isinstance(read, Rollup) else None
    except DecodeError:
        return None


def needs_by_protobuf(content: bytes) -> list[capacity_pb2.CapacityNeed] | None:
    try:
        message = shard_pb2.OperatorMessage.FromString(content)
        return list(message.rollup.needs) if message.WhichOneof("payload") == "rollup" else None
    except DecodeError:
        return None


@pytest.mark.parametrize("name", ["cpu", "n" * 300], ids=["short rows", "long rows"])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_a_roll_up_is_its_rows(rows: int, name: str) -> None:
    content = frame(rollup(rows, name))
    assert needs_of(content) == needs_by_protobuf(content)


def test_what_is_asked_for_is_the_same_whenever_it_was_built() -> None:
    first, again = (read_frame(frame(rollup(3, timestamp=timestamp))) for timestamp in (1, 2**60))
    assert isinstance(first, Rollup)
    assert isinstance(again, Rollup)
    assert first.needs == again.needs


def test_fields_from_the_future_do_no_harm() -> None:
    unknown = b"\xaa\x06\x03new"  # field 101
    inner = rollup(2).SerializeToString() + unknown
    outer = bytes([0x12, len(inner)]) + inner
    assert needs_of(outer) == needs_of(outer + unknown) == list(rollup(2).needs)


def test_other_messages_are_read_as_they_are() -> None:
    hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="c"))
    assert read_frame(hello.SerializeToString()) == hello
    assert read_frame(b"") == shard_pb2.OperatorMessage()


def test_rows_without_end_are_not_all_looked_at() -> None:
    assert len(Rollup(b"\x1a\x00" * (limits.MAX_ROWS + 1000)).rows) == limits.MAX_ROWS + 1


@given(st.integers(0, 2**32), st.integers(0, 5))
def test_broken_frames_are_read_as_protobuf_reads_them_or_refused(seed: int, rows: int) -> None:
    content = broken(frame(rollup(rows)), random.Random(seed))
    read = needs_of(content)
    by_protobuf = needs_by_protobuf(content)
    if by_protobuf is None:
        # The cluster's name is nobody's business here: all else that protobuf refuses is refused.
        assert read is None or b"\n\x01c" not in content
    else:
        assert read == by_protobuf
