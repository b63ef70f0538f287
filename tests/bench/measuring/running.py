"""Runs a benchmark that starts processes: it says where it stands, gives up in time, and always cleans up."""

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.bench.measuring.report import verdict

INTERRUPTED = 130
_BEGAN = time.monotonic()


class TooSlow(Exception):
    """A step did not end in its time."""


def say(text: str) -> None:
    """A line for whoever waits; the figures go to standard output, alone."""
    sys.stderr.write(f"[{time.monotonic() - _BEGAN:4.0f} s] {text}\n")
    sys.stderr.flush()


@asynccontextmanager
async def within(seconds: float, what: str, state: Callable[[], str] = lambda: "") -> AsyncIterator[None]:
    """Raises TooSlow, saying how far it came, if the block takes longer."""
    say(what)
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        reached = f"; {state()}" if state() else ""
        raise TooSlow(f"{what}: not within {seconds:g} s{reached}") from None


def run(measure: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end; exits with 1 if a bar was missed. SIGTERM and Ctrl-C cancel it, so that it can take away what
    it started."""

    async def until_signalled() -> None:
        task = asyncio.ensure_future(measure())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await task

    try:
        asyncio.run(until_signalled())
    except asyncio.CancelledError:
        say("interrupted; what was started has been ended")
        sys.exit(INTERRUPTED)
    except TooSlow as error:
        say(str(error))
        sys.exit(1)
    if code := verdict():
        sys.exit(code)
