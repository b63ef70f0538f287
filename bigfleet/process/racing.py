"""Waits for the first of several things, and leaves nothing of the others running."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")


@overload
async def first_of(
    one: Awaitable[A], other: Awaitable[B], /, *, seconds: float | None = None
) -> tuple[asyncio.Future[A] | None, asyncio.Future[B] | None]: ...


@overload
async def first_of(
    one: Awaitable[A], two: Awaitable[A], three: Awaitable[A], /, *more: Awaitable[A], seconds: float | None = None
) -> tuple[asyncio.Future[A] | None, ...]: ...


async def first_of(*awaited: Awaitable[Any], seconds: float | None = None) -> tuple[asyncio.Future[Any] | None, ...]:
    """Wait until one of these is done, or for so many `seconds`; for each of them its future, None if it was not done.

    A task or future belongs to the caller and is only watched. Anything else runs as a task of ours: if it was not
    done, it has been cancelled and has ended when this returns or is cancelled itself, and what it raised while it
    ended is dropped. What a thing that was done returned or raised is for the caller to ask its future.
    """
    futures = [asyncio.ensure_future(one) for one in awaited]
    ours = [future for future, one in zip(futures, awaited, strict=True) if future is not one]
    try:
        done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ours:
            task.cancel()
        await asyncio.gather(*ours, return_exceptions=True)
    return tuple(future if future in done else None for future in futures)
