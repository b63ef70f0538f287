"""Waiting for what no event announces."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

_ASK_AGAIN_SECONDS = 0.02


async def eventually(
    ask: Callable[[], Awaitable[Any] | Any], seconds: float = 20, pause_seconds: float = _ASK_AGAIN_SECONDS
) -> Any:
    """The first true answer."""
    async with asyncio.timeout(seconds):
        while True:
            answer = ask()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(pause_seconds)
