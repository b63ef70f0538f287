"""A TCP line between two processes that a test can cut: both ends think that it stands, and nothing comes through."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_BLOCK = 64 * 1024


class _Connection:
    """One connection, carried both ways. `lossy`: bytes are missing, and no end can make sense of the rest."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.lossy = False

    def break_off(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Line:
    """Everybody who dials `address` reaches the target, unless the line is cut."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._cut = False
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self.address = ""

    def cut(self) -> None:
        """Swallow every byte from now on, also of those who dial meanwhile; nobody is told, not even by a hang-up."""
        self._cut = True

    def mend(self) -> None:
        """Carry again. What has lost bytes is broken off, as by a router that has forgotten it."""
        self._cut = False
        for connection in self._connections:
            if connection.lossy:
                connection.break_off()

    def lead_to(self, target: str) -> None:
        """Whoever dials from now on reaches somebody else; connections that stand are broken off."""
        self._target = target
        for connection in self._connections:
            connection.break_off()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Line"]:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        try:
            yield self
        finally:
            self._server.close()
            for connection in self._connections:
                connection.break_off()
            await self._server.wait_closed()
            while self._connections:
                await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            if self._cut:
                await self._swallow(reader, connection)
                return
            host, _, port = self._target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            connection.writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, far_writer, connection))
                group.create_task(self._carry(far_reader, writer, connection))
        except* OSError:
            pass  # nobody is there, or either end is gone
        finally:
            connection.break_off()
            self._connections.discard(connection)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> None:
        while block := await reader.read(_BLOCK):
            if self._cut:
                connection.lossy = True
            if connection.lossy:
                continue
            writer.write(block)
            await writer.drain()
        if self._cut or connection.lossy:
            connection.lossy = True
            return  # the other end does not hear of the hang-up either
        writer.close()

    async def _swallow(self, reader: asyncio.StreamReader, connection: _Connection) -> None:
        connection.lossy = True
        while await reader.read(_BLOCK):
            pass
