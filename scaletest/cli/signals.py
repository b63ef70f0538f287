"""Ctrl-C for commands that build something: the first one ends them in order, the second one at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from scaletest.errors import Interrupted
from scaletest.run.interrupts import Interrupts

Result = TypeVar("Result")


def on_signals(handler: Callable[[], None]) -> None:
    """Call `handler` for every signal that asks the command to end. Under nohup a hangup stays ignored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, handler)


async def interruptible(work: Callable[[], Awaitable[Result]], say: Callable[[str], None]) -> Result:
    """Do the work; Ctrl-C cancels it, and it cleans up after itself."""
    interrupts = Interrupts(say, "tearing down")
    interrupts.guard()
    on_signals(interrupts)
    try:
        return await work()
    except asyncio.CancelledError:
        interrupts.absorb()
        raise Interrupted("interrupted") from None
