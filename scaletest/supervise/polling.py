"""Waiting for what cannot tell us: another process's files and health."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.1


async def poll(probe: Callable[[], Awaitable[bool]], every_seconds: float = POLL_SECONDS) -> None:
    """Ask `probe` until it says yes. Give it a deadline."""
    while True:
        if await probe():
            return
        await asyncio.sleep(every_seconds)
