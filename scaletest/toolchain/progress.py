"""One display for a whole build: finished steps with a live line below on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self, TextIO

_PLAIN_EVERY_SECONDS = 30
_ERASE_LINE = "\r\x1b[K"


class StepState(StrEnum):
    """Where a step stands."""

    STARTED = "started"
    WAITING = "waiting"
    """For another process; the detail says which."""
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
    phase: StepState
    elapsed_seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class ProgressNote:
    """Something the user should know that is no step."""

    text: str


Progress = Callable[[Update | ProgressNote], None]


def silent(_: Update | ProgressNote) -> None:
    """Shows no progress."""


class ProgressDisplay:
    """Renders progress on a stream. Use as a context manager: the live line goes away at the end."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._closed = False
        self._began: float | None = None
        self._last_plain: tuple[str, StepState, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._began is not None:
            self._write(_ERASE_LINE)
        if self._began is not None and error is None:
            self._line(f"tools ready after {duration(self._clock() - self._began)}")

    def __call__(self, event: Update | ProgressNote) -> None:
        if isinstance(event, ProgressNote):
            self._line(event.text)
            return
        if self._began is None:
            self._began = self._clock()
        if not self._live:
            if self._is_news(event):
                self._line(_plain_line(event))
        elif event.phase in (StepState.DONE, StepState.FOUND):
            self._line(_plain_line(event))
        else:
            self._write(f"{_ERASE_LINE}{_shortened(_live_line(event), self._columns() - 1)}")

    def _is_news(self, event: Update) -> bool:
        """A plain log hears a step's phases once, and then of a long one every 30 seconds."""
        beat = int(event.elapsed_seconds // _PLAIN_EVERY_SECONDS)
        if event.phase is StepState.WORKING and beat == 0:
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

    def _line(self, text: str) -> None:
        self._write(f"{_ERASE_LINE if self._live else ''}{text}\n")

    def _write(self, text: str) -> None:
        """Write; after a write that failed (a closed pipe), the build goes on without output."""
        if self._closed:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._closed = True


def duration(seconds: float) -> str:
    """`48s` or `2m05s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def _live_line(event: Update) -> str:
    step = event.step
    what = f"{step.name} {step.version}"
    if event.phase is StepState.WAITING:
        doing, detail = f"waiting for {event.detail}, which is {step.doing} {what}", ""
    else:
        doing, detail = f"{step.doing} {what}", event.detail
    parts = [f"{_place(step)} {doing}", duration(event.elapsed_seconds)]
    if step.following:
        parts.append(f"next {step.following}")
    if detail:
        parts.append(detail)
    return " · ".join(parts)


def _plain_line(event: Update) -> str:
    step = event.step
    after = duration(event.elapsed_seconds)
    what = f"{_place(step)} {step.name} {step.version}"
    match event.phase:
        case StepState.STARTED:
            return f"{what}: {step.doing}" + (f", next {step.following}" if step.following else "")
        case StepState.WAITING:
            return f"{what}: waiting for {event.detail}, which is {step.doing} it" + (
                f", {after} so far" if event.elapsed_seconds >= 1 else ""
            )
        case StepState.WORKING:
            return f"{what}: still {step.doing} after {after}" + (f", {event.detail}" if event.detail else "")
        case StepState.DONE:
            return f"{what}: {step.did} in {after}" + (f", {event.detail}" if event.detail else "")
        case StepState.FOUND:
            return f"{what}: {step.did} meanwhile by another process"


def _place(step: Step) -> str:
    return f"[{step.position}/{step.total}]"


def _shortened(line: str, columns: int) -> str:
    """A line as wide as the terminal would wrap, and could not be erased."""
    return line if len(line) <= columns else f"{line[: columns - 1]}…"
