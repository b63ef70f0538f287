"""Ends child processes, gently first, and reads what they said last."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

_GROUP_POLL_SECONDS = 0.02
_TAIL_BYTES = 16_384


async def stop(
    send: Callable[[int], None],
    wait: Callable[[], Awaitable[int]],
    grace_seconds: float,
    first: signal.Signals = signal.SIGTERM,
) -> int:
    """Send `first`, then SIGKILL when the grace is over. Returns what `wait` does: the exit code."""
    with suppress(ProcessLookupError):
        send(first)
    # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the result.
    with suppress(TimeoutError):
        async with asyncio.timeout(grace_seconds):
            return await wait()
    with suppress(ProcessLookupError):
        send(signal.SIGKILL)
    return await wait()


async def stop_group(
    process: asyncio.subprocess.Process, grace_seconds: float, first: signal.Signals = signal.SIGTERM
) -> None:
    """Stop a process that leads a group of its own, with all the group; a cancellation only cuts the grace short.

    Nothing happens once the process has ended: its number may be another's.
    """
    if process.returncode is not None:
        return
    send = partial(os.killpg, process.pid)
    try:
        await stop(send, process.wait, grace_seconds, first)
    finally:
        with suppress(ProcessLookupError):
            send(signal.SIGKILL)
        await process.wait()
        await _group_gone(process.pid, grace_seconds)


async def _group_gone(group: int, seconds: float) -> None:
    """Wait for the killed children of our child, which only their own parent can await: until then they may write."""
    with suppress(TimeoutError, ProcessLookupError):
        async with asyncio.timeout(seconds):
            while True:
                os.killpg(group, 0)
                await asyncio.sleep(_GROUP_POLL_SECONDS)


def last_lines(log: Path) -> list[str]:
    """The end of a log, some 16 KiB of it; nothing if there is no log."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
    return []
