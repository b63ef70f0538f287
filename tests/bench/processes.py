"""What a tree of processes takes: memory without counting shared pages twice, and CPU time, from /proc."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_KIB = 1024


@dataclass(frozen=True)
class Usage:
    """One process, or several together, at one moment."""

    pss_bytes: int = 0
    """Proportional: a page that n processes share counts as 1/n in each."""
    cpu_seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.pss_bytes + other.pss_bytes, self.cpu_seconds + other.cpu_seconds)


def tree(root: int) -> list[int]:
    """This process and all that descend from it, as far as they live."""
    try:
        listed = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [root, *(pid for child in listed for pid in tree(int(child)))]


def name_of(pid: int) -> str:
    """The program, or what a Python process was told to be."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    program = Path(words[0]).name
    if not program.startswith("python"):
        return program
    command = next((word for word in words[1:] if not word.startswith("-") and "." not in word), program)
    # A forked process has its parent's command line and a name of its own.
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    return command if comm.startswith("python") else comm


def usage(pid: int) -> Usage:
    rollup = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    # The command in brackets may hold spaces; fields are counted behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage(int(rollup["Pss"].split()[0]) * _KIB, (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND)


def usage_of_trees(roots: Mapping[str, int] | Iterable[int]) -> dict[str, Usage]:
    """By program; programs that run several times are added up."""
    pids = roots.values() if isinstance(roots, Mapping) else roots
    found: dict[str, Usage] = {}
    for root in pids:
        for pid in tree(root):
            name = name_of(pid)
            found[name] = found.get(name, Usage()) + usage(pid)
    return found
