"""Frames on their way over one session: in order, but only the newest of those that supersede each other."""

import asyncio

from bigfleet.api.v1alpha1 import shard_pb2


class Outbox:
    def __init__(self, frames: dict[str, shard_pb2.ShardMessage]) -> None:
        self._frames = frames
        self._filled = asyncio.Event()

    def put(self, key: str, frame: shard_pb2.ShardMessage) -> None:
        """Queue a frame; one with the same key that still waits is replaced."""
        self._frames[key] = frame
        self._filled.set()

    async def take(self) -> shard_pb2.ShardMessage:
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        return self._frames.pop(next(iter(self._frames)))

    def departures(self) -> dict[str, shard_pb2.ShardMessage]:
        """What the cluster's next session can't learn from its resync: machines that have left."""
        return {key: frame for key, frame in self._frames.items() if frame.node_state_update.removed}
