"""A provider that only listens: every frame of every phone home, and a way to hang up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from bigfleet.api.v1alpha1.phonehome_pb2 import ReadyReport, ReportClosed
from bigfleet.api.v1alpha1.phonehome_pb2_grpc import PhoneHomeServicer, add_PhoneHomeServicer_to_server


class Listener(PhoneHomeServicer):
    """Keeps the frames of every stream, and hangs up when told to."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[ReadyReport] = asyncio.Queue()
        self.hang_up = asyncio.Event()

    async def Report(self, requests: AsyncIterator[ReadyReport], context: grpc.aio.ServicerContext) -> ReportClosed:  # type: ignore[type-arg]  # noqa: N802
        async def read() -> None:
            async for frame in requests:
                self.frames.put_nowait(frame)

        reading = asyncio.ensure_future(read())
        await self.hang_up.wait()
        self.hang_up.clear()
        reading.cancel()
        return ReportClosed()

    async def next(self, seconds: float = 10) -> ReadyReport:
        async with asyncio.timeout(seconds):
            return await self.frames.get()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, str]]:
    """The provider, and its address."""
    provider, server = Listener(), grpc.aio.server()
    add_PhoneHomeServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield provider, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
