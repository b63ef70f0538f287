"""The run's diary: every step, poll and gate with its time, to events.jsonl and to the display."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict


@dataclass(frozen=True)
class Event:
    """One line of the diary."""

    unix_seconds: float
    elapsed_seconds: float
    phase: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


class DiaryLine(TypedDict):
    """What every line of events.jsonl has; an event's own fields stand beside it."""

    # When, in unix seconds.
    time: float
    # Since the run began, in seconds.
    elapsed: float
    phase: str
    message: str
    # Of the event that says that the target is up.
    address: NotRequired[str]
    kubeconfig: NotRequired[str]


def record_of(event: Event) -> dict[str, Any]:
    """The line as events.jsonl has it."""
    times = {"time": round(event.unix_seconds, 3), "elapsed": round(event.elapsed_seconds, 3)}
    return {**times, "phase": event.phase, "message": event.message, **event.fields}


class RunJournal:
    """Appends to events.jsonl as things happen, so that a crash loses nothing."""

    def __init__(self, path: Path, watcher: Callable[[Event], None], clock: Callable[[], float] = time.time) -> None:
        self._file = path.open("a", buffering=1)
        self._watcher = watcher
        self._clock = clock
        self._started = clock()
        # Why lines are missing from the file; empty if none are. A full disk must not end a run.
        self.problem = ""

    @property
    def elapsed_seconds(self) -> float:
        return self._clock() - self._started

    def say(self, phase: str, message: str, **fields: Any) -> None:
        now = self._clock()
        event = Event(now, now - self._started, phase, message, fields)
        try:
            self._file.write(json.dumps(record_of(event), default=str) + "\n")
        except OSError as error:
            self.problem = f"events.jsonl could not be written: {error.strerror}"
        self._watcher(event)

    def close(self) -> None:
        with suppress(OSError):  # what it could not write before, it cannot write now
            self._file.close()
