"""Frames on their way over one session: in order, but only the newest of those that supersede each other."""

import asyncio
from collections.abc import Callable

from bigfleet.api.v1alpha1 import shard_pb2

# So many more frames may wait than a session begins with.
_LIMIT = 10_000


class OperatorOutbox:
    """What an operator has not read yet; hints go last.

    One that does not read is no reason to grow: beyond the limit the oldest hints are dropped, and when none is left
    `overflow` asks for the session's end. The next one begins with a resync, so nothing that matters is lost.
    """

    def __init__(self, frames: dict[str, shard_pb2.ShardMessage], dropped: Callable[[], None], limit: int = _LIMIT):
        self._frames = frames
        self._hints: dict[str, shard_pb2.ShardMessage] = {}
        self._dropped = dropped
        self._margin = limit
        self._limit: int | None = None
        self._filled = asyncio.Event()
        self.overflow = asyncio.Event()

    def begun(self) -> None:
        """All that a session begins with is in; from here on the limit counts."""
        self._limit = len(self._frames) + self._margin

    def put(self, key: str, frame: shard_pb2.ShardMessage) -> None:
        """Queue a frame; one with the same key that still waits is replaced."""
        queue = self._hints if frame.HasField("available_capacity") else self._frames
        queue[key] = frame
        self._filled.set()
        if self._limit is not None and len(self._frames) + len(self._hints) > self._limit:
            self._make_room()

    async def take(self) -> shard_pb2.ShardMessage:
        while not (queue := self._frames or self._hints):
            self._filled.clear()
            await self._filled.wait()
        return queue.pop(next(iter(queue)))

    def departures(self) -> dict[str, shard_pb2.ShardMessage]:
        """What the cluster's next session can't learn from its resync: machines that have left."""
        return {key: frame for key, frame in self._frames.items() if frame.node_state_update.removed}

    def _make_room(self) -> None:
        if self._hints:
            del self._hints[next(iter(self._hints))]
            self._dropped()
        else:
            self.overflow.set()
