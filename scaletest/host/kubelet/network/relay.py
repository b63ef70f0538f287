"""Bytes carried between two connections, each half closed when its source ends."""

import asyncio

_BLOCK = 256 * 1024

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def splice(one: Connection, other: Connection) -> None:
    """Carry both ways until both have ended or either breaks; both are closed afterwards."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(one[0], other[1]))
            group.create_task(_pump(other[0], one[1]))
    except* OSError:
        pass
    finally:
        for _, writer in (one, other):
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(_BLOCK):
        writer.write(block)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
