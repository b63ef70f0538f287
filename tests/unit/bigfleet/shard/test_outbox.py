"""The outbox: only the newest word on each thing, and never more of them than an operator can be behind."""

import asyncio

import pytest

from bigfleet.api.v1alpha1 import shard_pb2
from bigfleet.shard.sessions.outbox import OperatorOutbox
from bigfleet.shard.sessions.questions import NoSession, Questions


def frame(machine_id: str, removed: bool = False) -> shard_pb2.ShardMessage:
    return shard_pb2.ShardMessage(node_state_update=shard_pb2.NodeStateUpdate(machine_id=machine_id, removed=removed))


def hint(key: str) -> shard_pb2.ShardMessage:
    return shard_pb2.ShardMessage(available_capacity=shard_pb2.AvailableCapacityUpdate(supersedes_key=key))


def nothing() -> None:
    pass


async def test_it_sends_in_order_and_only_the_newest_of_a_key() -> None:
    outbox = OperatorOutbox({}, nothing)
    outbox.put("a", frame("a1"))
    outbox.put("b", frame("b1"))
    outbox.put("a", frame("a2"))
    sent = [(await outbox.take()).node_state_update.machine_id for _ in range(2)]
    assert sent == ["a2", "b1"]


async def test_hints_wait_until_nothing_else_does() -> None:
    outbox = OperatorOutbox({}, nothing)
    outbox.put("available:x", hint("x"))
    outbox.put("a", frame("a"))
    assert (await outbox.take()).node_state_update.machine_id == "a"
    assert (await outbox.take()).available_capacity.supersedes_key == "x"


def test_of_one_that_nobody_read_only_the_departures_are_kept() -> None:
    outbox = OperatorOutbox({"old": frame("old", removed=True)}, nothing)
    outbox.put("a", frame("a"))
    outbox.put("b", frame("b", removed=True))
    outbox.put("ack", shard_pb2.ShardMessage(ack=shard_pb2.Acknowledgement(echo="rollup")))
    assert outbox.departures().keys() == {"old", "b"}


async def test_beyond_the_limit_the_oldest_hints_go_and_then_the_session() -> None:
    dropped: list[None] = []
    outbox = OperatorOutbox({"resync": frame("resync")}, lambda: dropped.append(None), limit=3)
    outbox.begun()
    for key in ("x", "y", "z"):
        outbox.put(f"available:{key}", hint(key))
    assert not dropped
    for number in range(3):
        outbox.put(f"node:{number}", frame(str(number)))
    assert len(dropped) == 3
    assert not outbox.overflow.is_set()
    outbox.put("node:0", frame("0"))  # supersedes what waits
    assert not outbox.overflow.is_set()
    outbox.put("node:3", frame("3"))
    assert outbox.overflow.is_set()


def test_what_a_session_begins_with_may_be_any_number() -> None:
    outbox = OperatorOutbox({}, nothing, limit=1)
    for number in range(100):
        outbox.put(f"node:{number}", frame(str(number)))
    outbox.begun()
    outbox.put("one more", frame("one more"))
    assert not outbox.overflow.is_set()


async def test_only_impatient_questions_end_with_a_long_absence() -> None:
    questions = Questions(reconnect_seconds=0.01)
    with (
        questions.ask("a", "blob", lambda: frame("blob"), patient=False) as blob,
        questions.ask("a", "drain", lambda: frame("drain"), patient=True) as drain,
        questions.ask("b", "blob", lambda: frame("blob"), patient=False) as other,
    ):
        questions.operator_left("a")
        with pytest.raises(NoSession):
            await blob
        assert not drain.done()
        assert not other.done()
        assert questions.operator_came("a").keys() == {"drain"}
    assert questions.operator_came("a") == {}


async def test_a_blob_that_is_owed_has_an_age_and_a_drain_that_may_take_its_time_has_none() -> None:
    questions = Questions(reconnect_seconds=60)
    with (
        questions.ask("a", "blob", lambda: frame("blob"), patient=False),
        questions.ask("b", "drain", lambda: frame("drain"), patient=True),
    ):
        await asyncio.sleep(0.02)
        assert questions.unanswered_seconds().keys() == {"a"}
        assert questions.unanswered_seconds()["a"] >= 0.02
        questions.answer("a", "blob", b"data")
        assert questions.unanswered_seconds() == {}


async def test_an_operator_that_comes_back_in_time_is_asked_again_and_nothing_is_given_up() -> None:
    questions = Questions(reconnect_seconds=0.05)
    with questions.ask("a", "blob", lambda: frame("blob"), patient=False) as blob:
        questions.operator_left("a")
        assert questions.operator_came("a").keys() == {"blob"}
        await asyncio.sleep(0.1)
        questions.answer("b", "blob", b"not asked")
        assert not blob.done()
        questions.answer("a", "blob", b"data")
        questions.answer("a", "blob", b"late")
        assert await blob == b"data"
