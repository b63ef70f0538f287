"""The process that a host belongs to: its start time tells it from a later process with the same pid."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# Fields of /proc/<pid>/stat, counted after the command's closing bracket: state is field 3, starttime field 22.
_STATE, _STARTED = 0, 19


@dataclass(frozen=True)
class Owner:
    """A process of this machine."""

    pid: int
    # Clock ticks between the machine's start and the process's.
    started: int

    @classmethod
    def me(cls) -> Self:
        return cls(os.getpid(), _stat(os.getpid())[1])

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that only waits to be reaped does not."""
        try:
            state, started = _stat(self.pid)
        except OSError:
            return False
        return started == self.started and state not in "ZX"

    @property
    def text(self) -> str:
        """For places that other machines read too."""
        return f"{socket.gethostname()}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The process that a text names; None if it is on another machine, or the text names none."""
        machine, _, process = text.partition("/")
        pid, _, started = process.partition("/")
        if machine != socket.gethostname() or not (pid.isdecimal() and started.isdecimal()):
            return None
        return cls(int(pid), int(started))


def _stat(pid: int) -> tuple[str, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[_STATE], int(fields[_STARTED])
