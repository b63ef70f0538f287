"""A process in a group: how it is stopped, when it has ended, and what it said last."""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol

from bigfleet.process import childprocess

TAIL_LINES = 40
_CHUNK_BYTES = 64 * 1024


class Running(Protocol):
    """A process that was started: a subprocess of asyncio, or one that is Reaped."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


class Child:
    """A process that a group watches; `ended` has its exit code, and `tail` its last lines, once it is over."""

    def __init__(
        self, name: str, process: Running, end: Coroutine[Any, Any, int], last_words: Callable[[], Iterable[str]]
    ) -> None:
        self.name = name
        self.process = process
        self.ended = asyncio.ensure_future(end)
        self._last_words = last_words

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def tail(self) -> tuple[str, ...]:
        return tuple(self._last_words())[-TAIL_LINES:]

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL when the grace is over."""
        await childprocess.stop(self.process.send_signal, lambda: asyncio.shield(self.ended), grace_seconds)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)


def logged(name: str, process: Running, log: Path) -> Child:
    """A process whose output goes to a file of its own, past us: what it says is there even if we are not."""
    return Child(name, process, process.wait(), lambda: childprocess.last_lines(log))


def piped(name: str, process: Running, output: asyncio.StreamReader, write: Callable[[str], None]) -> Child:
    """A process whose output goes to ours, line by line, behind `name | `: a container has one log for all."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def take(line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        tail.append(text)
        write(f"{name} | {text}")

    async def follow() -> int:
        pending = b""
        while chunk := await output.read(_CHUNK_BYTES):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                take(line)
        if pending:
            take(pending)
        return await process.wait()

    return Child(name, process, follow(), lambda: tail)
