"""What trees of processes take, from /proc: memory as if they were alone on the machine, and CPU time."""

import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KIB = 1024
# A mapping's first line in smaps: addresses, rights, offset, device, inode, path.
_MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)\s*(.*)$")


@dataclass
class Usage:
    """One program's processes at one moment."""

    anonymous_bytes: int = 0
    """Memory of their own; what forked processes share is counted once, in parts."""
    file_bytes: dict[str, int] = field(default_factory=dict)
    """Resident pages of each mapped file: the executable and its libraries."""
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """All programs under some roots at one moment."""

    programs: dict[str, Usage]

    @property
    def memory_bytes(self) -> int:
        """All of it, each file once: neighbours who run the same binaries make it neither better nor worse."""
        files: dict[str, int] = defaultdict(int)
        for program in self.programs.values():
            for path, resident in program.file_bytes.items():
                files[path] = max(files[path], resident)
        return sum(program.anonymous_bytes for program in self.programs.values()) + sum(files.values())

    @property
    def cpu_seconds(self) -> float:
        return sum(program.cpu_seconds for program in self.programs.values())

    def cores_since(self, earlier: "Snapshot", seconds: float) -> float:
        return (self.cpu_seconds - earlier.cpu_seconds) / seconds


def tree(root: int) -> list[int]:
    """This process and all that descend from it, as far as they live."""
    try:
        threads = list(Path(f"/proc/{root}/task").iterdir())
        listed = [pid for thread in threads for pid in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [root, *(pid for child in listed for pid in tree(int(child)))]


def snapshot(pids: Iterable[int]) -> Snapshot:
    programs: dict[str, Usage] = defaultdict(Usage)
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            _add(programs[name_of(pid)], pid)
    return Snapshot(dict(programs))


def name_of(pid: int) -> str:
    """The program, or what a Python process was told to be."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    program = Path(words[0]).name
    if not program.startswith("python"):
        return program
    # A forked process has its parent's command line and a name of its own.
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    if not comm.startswith("python"):
        return comm
    return next((word for word in words[1:] if not word.startswith("-") and "." not in word), program)


def _add(usage: Usage, pid: int) -> None:
    rollup = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    usage.anonymous_bytes += sum(int(rollup[key].split()[0]) * _KIB for key in ("Pss_Anon", "Pss_Shmem"))
    for path, resident in _files(pid).items():
        usage.file_bytes[path] = max(usage.file_bytes.get(path, 0), resident)
    # The command in brackets may hold spaces; fields are counted behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    usage.cpu_seconds += (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _files(pid: int) -> dict[str, int]:
    resident: dict[str, int] = defaultdict(int)
    path = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            inode, name = mapping.groups()
            # A file on a memory-backed volume is anonymous memory, and counted there.
            path = name if inode != "0" and not name.startswith("/dev/shm/") else ""
        elif path and line.startswith(("Rss:", "Anonymous:")):
            kib = int(line.split()[1])
            resident[path] += kib * _KIB if line.startswith("Rss:") else -kib * _KIB
    return resident
