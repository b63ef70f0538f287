"""A shard whose words are the test's: it records what an operator says and sends what it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.api.v1alpha1.shard_pb2 import Acknowledgement, NodeStateUpdate, OperatorMessage, ShardMessage
from bigfleet.api.v1alpha1.shard_pb2_grpc import ShardServicer, add_ShardServicer_to_server
from bigfleet.security import GRPC_OPTIONS, Identity, listen, peer_identity

PATIENCE_SECONDS = 15


class ShardSide:
    """One session as the shard sees it. `hello` has been received and acknowledged."""

    def __init__(self, peer: Identity | None) -> None:
        self.peer = peer
        self._inbox: asyncio.Queue[OperatorMessage] = asyncio.Queue()
        # None: the shard ends the session.
        self.outbox: asyncio.Queue[ShardMessage | None] = asyncio.Queue()
        self.hello: OperatorMessage | None = None
        self.first_payload = ""
        # Hears of every machine that is told of.
        self.on_tell: Callable[[NodeStateUpdate], None] = lambda _: None

    def take(self, message: OperatorMessage) -> None:
        kind = message.WhichOneof("payload") or ""
        self.first_payload = self.first_payload or kind
        if kind == "hello" and self.hello is None:
            self.hello = message
            self.send(ack=Acknowledgement(echo="hello", shard_epoch=1))
        else:
            if kind == "rollup":
                self.send(ack=Acknowledgement(echo="rollup", shard_epoch=1))
            self._inbox.put_nowait(message)

    def send(self, **payload: Any) -> None:
        self.outbox.put_nowait(ShardMessage(**payload))

    def hang_up(self) -> None:
        """End the session when all of it is sent, without a complaint."""
        self.outbox.put_nowait(None)

    def tell(self, machine: str, state: str, **fields: Any) -> None:
        """A NodeStateUpdate as the real shard sends it."""
        said: dict[str, Any] = {
            "supersedes_key": f"node:{machine}",
            "machine_id": machine,
            "state": state,
            "node_name": f"fake-{machine}",
            "provider_id": f"fake://{machine}",
            "labels": {"topology.kubernetes.io/zone": "zone-a"},
            "resources": Resources(resources={"cpu": "4", "memory": "8Gi"}),
        }
        update = NodeStateUpdate(**(said | fields))
        self.on_tell(update)
        self.send(node_state_update=update)

    async def receive(self, kind: str) -> Any:
        """The next message of this kind; others that come before it are passed over."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                message = await self._inbox.get()
                if message.WhichOneof("payload") == kind:
                    return getattr(message, kind)


class ScriptedShard(ShardServicer):
    def __init__(self) -> None:
        self._sessions: asyncio.Queue[ShardSide] = asyncio.Queue()

    async def session(self) -> ShardSide:
        """The next session that an operator opens."""
        return await asyncio.wait_for(self._sessions.get(), PATIENCE_SECONDS)

    async def Session(  # noqa: N802, the name is gRPC's
        self, request_iterator: AsyncIterator[OperatorMessage], context: Any
    ) -> AsyncIterator[ShardMessage]:
        side = ShardSide(peer_identity(context))

        async def read() -> None:
            async for message in request_iterator:
                side.take(message)
                if side.hello is message:
                    self._sessions.put_nowait(side)

        reading = asyncio.create_task(read())
        try:
            while message := await side.outbox.get():
                yield message
        finally:
            reading.cancel()
            await asyncio.wait([reading])


@asynccontextmanager
async def serving(shard: ScriptedShard, address: str, tls_dir: Path | None = None) -> AsyncIterator[None]:
    """Listen on `address`; leaving the context breaks every session at once, as a crash would."""
    server = grpc.aio.server(options=GRPC_OPTIONS)
    add_ShardServicer_to_server(shard, server)
    listen(server, address, tls_dir)
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
