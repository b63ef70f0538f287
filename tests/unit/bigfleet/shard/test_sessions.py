"""A session without sockets: which of an operator's roll-ups counts in the end, and that each is acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.sessions.frames import Frame, Rollup
from bigfleet.shard.sessions.intake import _INLINE_ROWS
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.sessions import Sessions
from tests import patience

SMALL = 2
# So many rows are read in a thread, and the session goes on listening meanwhile.
LARGE = _INLINE_ROWS + 50


class Stream:
    """Both ends of a stream, as gRPC hands them to a servicer: what the operator says and what it is told."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[Frame] = asyncio.Queue()
        self.told: list[shard_pb2.ShardMessage] = []

    def say(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._said.put_nowait(frame)

    async def frames(self) -> AsyncIterator[Frame]:
        while True:
            yield await self._said.get()

    def auth_context(self) -> dict[str, Any]:
        return {}

    async def send_initial_metadata(self, _metadata: object) -> None:
        pass

    async def write(self, message: shard_pb2.ShardMessage) -> None:
        self.told.append(message)

    @property
    def acknowledged(self) -> int:
        """Roll-ups."""
        return sum(message.ack.echo == "rollup" for message in self.told)


def rollup(rows: int, cpu: int) -> Rollup:
    needs = [
        capacity_pb2.CapacityNeed(priority=row, aggregate_resources={"cpu": str(cpu)}, min_unit={"cpu": "1"})
        for row in range(rows)
    ]
    return Rollup.of(capacity_pb2.ClusterCapacityNeeds(needs=needs))


class Conversation:
    """One cluster's session with a shard that only listens."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.needs = NeedsTable(guard=True)
        self.woken = 0
        self.stream = Stream()
        self._sessions = Sessions(self.needs, ShardMetrics(self.registry), 1, lambda: 1, self._wake, 5.0, 10.0)
        self._sessions.notices = Notices(self._sessions.send_notice, "", lambda _: None)

    def _wake(self) -> None:
        self.woken += 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Conversation"]:
        context: Any = self.stream
        serving = asyncio.create_task(self._sessions.converse(self.stream.frames(), context))
        self.stream.say([shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id="c"))])
        try:
            yield self
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def hear(self, *rollups: Rollup) -> None:
        """All at once; returns when the last of them was acknowledged, and with it those before it."""
        before = self.stream.acknowledged
        self.stream.say(rollups)
        await patience.eventually(lambda: self.stream.acknowledged > before and self._sessions._sessions["c"].idle)

    def amounts(self) -> set[int]:
        """Milli-cores that the demand asks for, each row."""
        return {need.aggregate["cpu"] for news in self.needs.unheard() for need in news.needs}


@pytest.mark.parametrize("rows", [SMALL, LARGE], ids=["read at once", "read in a thread"])
async def test_the_last_word_counts_even_if_it_was_said_before(rows: int) -> None:
    async with Conversation().open() as conversation:
        await conversation.hear(rollup(rows, 1))
        await conversation.hear(rollup(rows, 2), rollup(rows, 1))
        assert conversation.amounts() == {1000}


async def test_every_repetition_is_acknowledged_and_wakes_nobody() -> None:
    async with Conversation().open() as conversation:
        await conversation.hear(rollup(SMALL, 1))
        woken, acknowledged = conversation.woken, conversation.stream.acknowledged
        for _ in range(3):
            await conversation.hear(rollup(SMALL, 1))
        assert conversation.stream.acknowledged == acknowledged + 3
        assert conversation.woken == woken
        unchanged = conversation.registry.get_sample_value("bigfleet_shard_rollups_total", {"outcome": "unchanged"})
        assert unchanged == 3


async def test_every_session_of_a_cluster_is_counted_a_redial_too() -> None:
    conversation = Conversation()

    def sessions() -> float | None:
        return conversation.registry.get_sample_value("bigfleet_shard_cluster_sessions_total", {"cluster": "c"})

    assert sessions() is None
    for number in (1, 2):
        async with conversation.open():
            await conversation.hear(rollup(SMALL, 1))
            assert sessions() == number
    assert conversation.registry.get_sample_value("bigfleet_shard_cluster_rollups_total", {"cluster": "c"}) == 2
