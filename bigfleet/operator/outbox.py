"""What waits to be sent to the shard: a bounded queue, and one place for the newest roll-up."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Counter

from bigfleet.api.v1alpha1.capacity_pb2 import ClusterCapacityNeeds
from bigfleet.api.v1alpha1.shard_pb2 import OperatorMessage

CAPACITY = 256

log = structlog.get_logger(__name__)


class ShardOutbox:
    """Outlives sessions, so that a drain's report made while the shard was away still arrives.

    A full queue drops the newcomer: the shard times out what is not answered, and asks again.
    """

    def __init__(self, dropped: Counter, on_rollup_sent: Callable[[ClusterCapacityNeeds], None]) -> None:
        self._dropped = dropped
        self._on_rollup_sent = on_rollup_sent
        self._messages: deque[OperatorMessage] = deque()
        self._rollup: ClusterCapacityNeeds | None = None
        self._filled = asyncio.Event()

    def put(self, message: OperatorMessage) -> None:
        if len(self._messages) >= CAPACITY:
            self._dropped.inc()
            log.warning("outbox full, message dropped", payload=message.WhichOneof("payload"))
            return
        self._messages.append(message)
        self._filled.set()

    def put_rollup(self, rollup: ClusterCapacityNeeds) -> None:
        """Take the place of a roll-up that has not been sent yet: only the newest counts."""
        self._rollup = rollup
        self._filled.set()

    def forget_rollup(self) -> None:
        """Forget demand that was built for a session that has ended."""
        self._rollup = None

    async def send_to(self, write: Callable[[OperatorMessage], Awaitable[None]]) -> None:
        """Send for ever, answers before roll-ups. A message whose write failed stays at the head."""
        while True:
            while self._messages:
                await write(self._messages[0])
                self._messages.popleft()
            if self._rollup is not None:
                rollup, self._rollup = self._rollup, None
                await write(OperatorMessage(rollup=rollup))
                self._on_rollup_sent(rollup)
                continue
            self._filled.clear()
            await self._filled.wait()
