"""One display for a whole build: a live line on a terminal, plain lines elsewhere."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self, TextIO

_PLAIN_EVERY_SECONDS = 30
_ERASE_LINE = "\r\x1b[K"


class Phase(StrEnum):
    """Where a step stands."""

    STARTED = "started"
    WAITING = "waiting"
    WORKING = "working"
    DONE = "done"
    FOUND = "found"
    """Another process made it while we waited."""


@dataclass(frozen=True)
class Step:
    """One thing to make, and its place among the others."""

    name: str
    version: str
    position: int
    total: int
    following: str | None = None
    doing: str = "building"
    did: str = "built"


@dataclass(frozen=True)
class Update:
    """A step moved on, or at least is still alive."""

    step: Step
    phase: Phase
    elapsed_seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class Notice:
    """Something the user should know that is no step."""

    text: str


Progress = Callable[[Update | Notice], None]


def silent(_: Update | Notice) -> None:
    """Progress that nobody looks at."""


class Display:
    """Renders progress on a stream. Use as a context manager: the live line goes away at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._seconds = 0.0
        self._last_plain: tuple[str, Phase, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._erase()
        if self._seconds and error is None:
            self._write_line(f"tools ready after {duration(self._seconds)}")

    def __call__(self, event: Update | Notice) -> None:
        if isinstance(event, Notice):
            self._erase()
            self._write_line(event.text)
            return
        if event.phase is Phase.DONE:
            self._seconds += event.elapsed_seconds
        if self._live:
            self._stream.write(f"{_ERASE_LINE}{_live_line(event)[: self._columns() - 1]}")
            self._stream.flush()
        elif self._is_news(event):
            self._write_line(_plain_line(event))

    def _is_news(self, event: Update) -> bool:
        """A plain log hears a step's phases once, and then of a long one every 30 seconds."""
        beat = int(event.elapsed_seconds // _PLAIN_EVERY_SECONDS)
        if event.phase is Phase.WORKING and beat == 0:
            return False
        news = (event.step.name, event.phase, beat)
        if news == self._last_plain:
            return False
        self._last_plain = news
        return True

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            return 80

    def _erase(self) -> None:
        if self._live:
            self._stream.write(_ERASE_LINE)

    def _write_line(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def duration(seconds: float) -> str:
    """`48s` or `2m05s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def _live_line(event: Update) -> str:
    step = event.step
    verb = {Phase.WAITING: "waiting for another process's", Phase.DONE: step.did, Phase.FOUND: "found"}
    parts = [
        f"{verb.get(event.phase, step.doing)} {step.name} {step.version}",
        f"{step.position} of {step.total}",
        duration(event.elapsed_seconds),
    ]
    if step.following:
        parts.append(f"next {step.following}")
    if event.detail:
        parts.append(event.detail)
    return " · ".join(parts)


def _plain_line(event: Update) -> str:
    step = event.step
    after = duration(event.elapsed_seconds)
    what = f"[{step.position}/{step.total}] {step.name} {step.version}"
    match event.phase:
        case Phase.STARTED:
            return f"{what}: {step.doing}" + (f", next {step.following}" if step.following else "")
        case Phase.WAITING:
            return f"{what}: waiting for another process that is {step.doing} it" + (
                f", {after} so far" if event.elapsed_seconds >= 1 else ""
            )
        case Phase.WORKING:
            return f"{what}: still {step.doing} after {after}" + (f", {event.detail}" if event.detail else "")
        case Phase.DONE:
            return f"{what}: {step.did} in {after}" + (f", {event.detail}" if event.detail else "")
        case Phase.FOUND:
            return f"{what}: {step.did} meanwhile by another process"
