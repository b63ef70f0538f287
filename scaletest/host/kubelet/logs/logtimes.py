"""When which part of a log was written, for `logs --since` and `--timestamps`.

Containers write their logs themselves, without us in between, so the moments are not in the files: the sizes of the
logs that grow are looked at once a second, and a line is as old as the look that first saw it.
"""

import asyncio
import bisect
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

_LOOK_SECONDS = 1.0
_MAX_MARKS = 4096


@dataclass
class _Marks:
    """`ends[i]` is the size that the log had at `moments[i]`; both ascend."""

    moments: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, moment: float, size: int) -> None:
        if self.ends and size < self.ends[-1]:  # cut
            self.moments.clear()
            self.ends.clear()
        if size > (self.ends[-1] if self.ends else 0):
            self.moments.append(moment)
            self.ends.append(size)
        if len(self.ends) > _MAX_MARKS:  # half as fine for what is old
            del self.moments[: _MAX_MARKS // 2 : 2], self.ends[: _MAX_MARKS // 2 : 2]


class LogTimes:
    """The moments of all logs that are being written, and of those that were."""

    def __init__(self) -> None:
        self._marks: dict[Path, _Marks] = {}
        self._growing: set[Path] = set()

    def begin(self, path: Path) -> None:
        self._marks[path] = _Marks()
        self._growing.add(path)

    def end(self, path: Path) -> None:
        self.look(path)
        self._growing.discard(path)

    def forget(self, directory: Path) -> None:
        """Drop what is known of the logs below a directory."""
        for path in [path for path in self._marks if path.is_relative_to(directory)]:
            del self._marks[path]
            self._growing.discard(path)

    async def follow(self) -> None:
        while True:
            for path in list(self._growing):
                self.look(path)
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self, path: Path, now: datetime | None = None) -> None:
        if path in self._marks and path.exists():
            self._marks[path].add((now or datetime.now(UTC)).timestamp(), path.stat().st_size)

    def offset_since(self, path: Path, moment: datetime) -> int:
        """Where the part begins that was written at or after the moment, as far as we know: rather more than less."""
        self.look(path)
        marks = self._marks.get(path)
        if marks is None:
            return 0
        index = bisect.bisect_left(marks.moments, moment.timestamp())
        return marks.ends[index - 1] if index else 0

    def moment_of(self, path: Path, offset: int) -> datetime:
        """When the byte at this offset was first seen."""
        marks = self._marks.get(path)
        if marks is None or not marks.ends or offset >= marks.ends[-1]:
            return datetime.now(UTC)
        return datetime.fromtimestamp(marks.moments[bisect.bisect_right(marks.ends, offset)], UTC)
