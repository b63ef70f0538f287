"""The ledger's file: one JSON object a line, whole lines only, and not without end."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import structlog

FILE = "ledger.jsonl"
# About 40 MiB. Losses and calls of a soak are a few thousand lines, a fleet that joins is one line per machine.
MOST_LINES = 200_000
STRIKES = ("lost", "interrupted", "vanished")
_READ_BYTES = 1 << 20

log = structlog.get_logger(__name__)


class LedgerFile:
    """Appends, over restarts too. A disk that takes no more ends the file, never the provider."""

    def __init__(self, path: Path, wall_clock: Callable[[], float], most_lines: int = MOST_LINES) -> None:
        self.path = path
        self._wall_clock = wall_clock
        self._most_lines = most_lines
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.lines, self._bytes = _whole_lines(self._descriptor)
        # A crash may have left half a line.
        os.ftruncate(self._descriptor, self._bytes)
        # One line beyond the bound says that the file is full.
        self._ended = self.lines > most_lines

    @property
    def size(self) -> int:
        """Bytes of whole lines."""
        return self._bytes

    def write(self, entry: dict[str, Any]) -> None:
        if self._ended:
            return
        if self.lines >= self._most_lines:
            self._ended = True
            entry = {"event": "full"}
        line = msgspec.json.encode({"time": round(self._wall_clock(), 3)} | entry) + b"\n"
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes were taken")
        except OSError as error:
            log.error("the ledger's file ends here", file=str(self.path), error=str(error))
            self._ended = True
            with suppress(OSError):  # what it left is cut off when the file is opened again
                os.ftruncate(self._descriptor, self._bytes)
            return
        self.lines += 1
        self._bytes += len(line)

    def close(self) -> None:
        os.close(self._descriptor)


def _whole_lines(descriptor: int) -> tuple[int, int]:
    """How many lines end with a newline, and how many bytes that is."""
    lines = end = offset = 0
    while content := os.pread(descriptor, _READ_BYTES, offset):
        lines += content.count(b"\n")
        if (last := content.rfind(b"\n")) >= 0:
            end = offset + last + 1
        offset += len(content)
    return lines, end


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ledger's file, in order; raises ValueError at one that is damaged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("it is cut off")
                entry = msgspec.json.decode(line)
                if not isinstance(entry, dict) or not isinstance(entry.get("time"), float | int):
                    raise ValueError("it is no entry")
            except ValueError as error:
                raise ValueError(f"{path}: line {number} is damaged: {error}") from error
            yield entry


def count_ledger(path: Path) -> dict[str, int]:
    """What a ledger's file holds; raises ValueError at a line that is damaged."""
    counts = dict.fromkeys(("lines", "calls", "strikes", "violations"), 0)
    for entry in read_entries(path):
        counts["lines"] += 1
        counts["calls"] += "call" in entry
        counts["strikes"] += entry.get("event") in STRIKES
        counts["violations"] += entry.get("event") == "violation"
    return counts
