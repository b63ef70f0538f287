"""A provider that only listens: every frame of every phone home, what it says in return, and a way to hang up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from bigfleet.api.v1alpha1.phonehome_pb2 import MachineWord, MachineWords, ReadyReport
from bigfleet.api.v1alpha1.phonehome_pb2_grpc import PhoneHomeServicer, add_PhoneHomeServicer_to_server


class Listener(PhoneHomeServicer):
    """Keeps the frames of every stream, gives its word for machines, and hangs up when told to."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[ReadyReport] = asyncio.Queue()
        self.hang_up = asyncio.Event()
        self.words: dict[str, MachineWord] = {}
        # What the stream that is open has not been told yet.
        self._unsaid: asyncio.Queue[MachineWord] = asyncio.Queue()

    def give(self, machine_id: str, **fields: Any) -> None:
        self.words[machine_id] = MachineWord(machine_id=machine_id, **fields)
        self._unsaid.put_nowait(self.words[machine_id])

    def take_back(self, machine_id: str, *, drained: bool = False) -> None:
        del self.words[machine_id]
        self._unsaid.put_nowait(MachineWord(machine_id=machine_id, gone=True, drained=drained))

    async def Report(self, requests: AsyncIterator[ReadyReport], context: Any) -> None:  # noqa: N802
        async def read() -> None:
            async for frame in requests:
                self.frames.put_nowait(frame)

        async def speak() -> None:
            while True:
                await context.write(MachineWords(machines=[await self._unsaid.get()]))

        # Before anything can hang up: a first write that is cancelled halfway leaves gRPC a stream that never ends.
        await context.send_initial_metadata(())
        self._unsaid = asyncio.Queue()
        await context.write(MachineWords(machines=self.words.values(), full=True))
        tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(speak())]
        try:
            await self.hang_up.wait()
            self.hang_up.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
