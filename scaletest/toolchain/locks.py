"""File locks that the kernel releases however their holder ends, and which processes hold one."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

# flock can't be awaited, and a thread that blocks in it can't be cancelled.
_POLL_SECONDS = 0.2
_KERNEL_LOCKS = Path("/proc/locks")

Holders = tuple[int, ...]
OnWait = Callable[[float, Holders], None]
"""Hears the seconds waited so far, and which processes are in the way."""


class Lock:
    """An open lock file; closing it, the end of the object and the end of the process all let go."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def try_take(self, *, shared: bool = False) -> bool:
        """Take the lock unless another holder is in the way."""
        try:
            fcntl.flock(self._open_file(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def take(self, on_wait: OnWait, *, shared: bool = False) -> None:
        """Take the lock; wait as long as another process holds it (a shared one: as long as one holds it alone)."""
        clock = asyncio.get_running_loop().time
        started = clock()
        while not self.try_take(shared=shared):
            on_wait(clock() - started, self.holders())
            await asyncio.sleep(_POLL_SECONDS)

    def holders(self) -> Holders:
        """The processes that hold this lock, as far as the kernel tells us."""
        try:
            lines = _KERNEL_LOCKS.read_text().splitlines()
        except OSError:
            return ()
        inode = str(os.fstat(self._open_file()).st_ino)
        # `1: FLOCK  ADVISORY  WRITE 4711 fe:00:9996636 0 EOF`; one that waits has `->` in the second place.
        entries = (line.split() for line in lines)
        return tuple(
            sorted({int(entry[4]) for entry in entries if entry[1] == "FLOCK" and entry[5].split(":")[2] == inode})
        )

    def close(self) -> None:
        """Let go."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_file(self) -> int:
        if self._file is None:
            raise ValueError("this lock is closed")
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The constructor may have failed before there was a file.
        if getattr(self, "_file", None) is not None:
            self.close()


def described(holders: Holders) -> str:
    """`process 4711`, as far as it is known."""
    if not holders:
        return "another process"
    return f"process{'es' if len(holders) > 1 else ''} {', '.join(map(str, holders))}"
