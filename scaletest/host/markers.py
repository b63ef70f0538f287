"""Processes found, and ended, by the markers that every process of a host carries in its environment."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

HOST_MARKER = "SCALETEST_HOST"
POD_MARKER = "SCALETEST_POD"
CONTAINER_MARKER = "SCALETEST_CONTAINER"

_SECOND_LOOKS_SECONDS = (0.001, 0.004, 0.015, 0)


def marked(**markers: str) -> list[int]:
    """The processes whose environment carries all these markers, except the caller."""
    return [pid for pid in _pids() if _carries(pid, _encoded(markers))]


def carries(pid: int, **markers: str) -> bool:
    """Whether a process's environment carries all these markers."""
    return _carries(pid, _encoded(markers))


def hosts_of_processes() -> dict[str, list[int]]:
    """Every process of any host that we may look at, by the host's id."""
    prefix = f"{HOST_MARKER}=".encode()
    found: dict[str, list[int]] = {}
    for pid in _pids():
        for entry in _environment(pid).split(b"\0"):
            if entry.startswith(prefix):
                found.setdefault(entry.removeprefix(prefix).decode(errors="replace"), []).append(pid)
    return found


def command_of(pid: int) -> list[str]:
    """A process's command line; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def kill_marked(**markers: str) -> int:
    """SIGKILL every process that carries all these markers, except the caller; how many there were."""
    wanted = _encoded(markers)
    killed = 0
    for pid in _pids():
        if not _carries(pid, wanted):
            continue
        # The descriptor pins the process: a number that is reused between look and kill is not hit.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            pinned = os.pidfd_open(pid)
            try:
                if _carries(pid, wanted):
                    signal.pidfd_send_signal(pinned, signal.SIGKILL)
                    killed += 1
            finally:
                os.close(pinned)
    return killed


def _pids() -> Iterator[int]:
    own = os.getpid()
    return (int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != own)  # noqa: PTH208


def _encoded(markers: Mapping[str, str]) -> set[bytes]:
    return {f"{name}={value}".encode() for name, value in markers.items()}


def _carries(pid: int, wanted: set[bytes]) -> bool:
    return wanted <= set(_environment(pid).split(b"\0"))


def _environment(pid: int) -> bytes:
    """A process's environment; empty if it is gone, a zombie, or another user's.

    In the middle of an exec a process shows an empty one for a moment. A caller that ends all processes of a host must
    not overlook it then, so an empty environment is read again, unless it is a kernel thread's, which has no program.
    """
    for pause in _SECOND_LOOKS_SECONDS:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if environment or not os.readlink(f"/proc/{pid}/exe"):  # noqa: PTH115
                return environment
        except OSError:
            return b""
        time.sleep(pause)
    return b""
