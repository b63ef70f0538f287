"""Ctrl-C: the first one ends things in order, the second one at once."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

# Signals closer together than this are one Ctrl-C: `timeout` and shells may signal a process and then its whole group.
_ONE_CTRL_C_SECONDS = 0.5


class Interrupts:
    """Cancels the task that called `guard` when it is called itself, as a signal handler."""

    def __init__(self, say: Callable[[str], None], first: str) -> None:
        self._say = say
        self._first = first
        self._task: asyncio.Task[Any] | None = None
        self._last = -_ONE_CTRL_C_SECONDS
        self.count = 0
        # The work ends already: a first Ctrl-C has nothing to add to that.
        self.concluding = False

    def guard(self) -> None:
        self._task = asyncio.current_task()

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._last < _ONE_CTRL_C_SECONDS:
            return
        self._last = now
        self.count += 1
        if self.count == 1 and self.concluding:
            self._say("interrupted: it ends already (again to force)")
            return
        if self.count == 1:
            self._say(f"interrupted: {self._first} (again to force)")
        elif self.count == 2:
            self._say("forced: tearing down at once")
        if self.count <= 2 and self._task:
            self._task.cancel()

    def absorb(self) -> None:
        """Take note of a cancellation that Ctrl-C caused; raise any other one again."""
        if not self.count or not self._task:
            raise asyncio.CancelledError
        self._task.uncancel()
