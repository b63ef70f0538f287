"""Whole runs of `scaletest-runner` as a user starts them, and what they leave behind."""

import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Far beyond what a run takes: only a hang ends here.
HANG_SECONDS = 900


@dataclass(frozen=True)
class FinishedRun:
    """A run that ended by itself."""

    exit_code: int
    output: Path
    screen: str

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.output / "summary.json").read_text()))


class LiveRun:
    """A run under way, as its results folder shows it."""

    def __init__(self, output: Path, pid: int) -> None:
        self._output = output
        self.pid = pid

    def events(self) -> list[dict[str, Any]]:
        path = self._output / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def reached(self, phase: str) -> None:
        """Return when the run has said something in this phase."""
        while not any(event["phase"] == phase for event in self.events()):
            await asyncio.sleep(0.2)

    def kubeconfig(self) -> Path:
        return next(Path(event["kubeconfig"]) for event in self.events() if "kubeconfig" in event)

    def processes(self, command: str) -> list[int]:
        """Processes of this run's host whose command line has `command` as a word."""
        host = f"HOME={self.kubeconfig().parent}".encode() if any("kubeconfig" in e for e in self.events()) else None
        return [
            pid
            for pid in marked_processes()
            if host and host in _read(pid, "environ") and command.encode() in _words(pid)
        ]


async def run(output: Path, *arguments: str, meddle: Callable[[LiveRun], Any] | None = None) -> FinishedRun:
    """Start a run, let `meddle` (a coroutine function) interfere, and wait for its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "scaletest.cli",
        "--output",
        str(output),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    meddling = asyncio.ensure_future(meddle(LiveRun(output, process.pid))) if meddle else None
    try:
        screen, _ = await asyncio.wait_for(process.communicate(), HANG_SECONDS)
    finally:
        if meddling:
            meddling.cancel()
            await asyncio.gather(meddling, return_exceptions=True)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
    return FinishedRun(process.returncode or 0, output, screen.decode())


def marked_processes() -> list[int]:
    """Every process of any embedded host of this user."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if b"SCALETEST_HOST=" in _read(pid, "environ")]


def host_directories() -> list[Path]:
    """What runs keep outside their results folder while they live."""
    return sorted(Path(tempfile.gettempdir()).glob("scaletest-*"))


def listening_addresses() -> set[str]:
    """Loopback addresses of embedded hosts (127.64.… to 127.250.…) on which somebody listens."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address = bytes.fromhex(local.partition(":")[0])[::-1]
        if state == "0A" and address[0] == 127 and 64 <= address[1] <= 250:
            found.add(f"{'.'.join(str(part) for part in address)}:{int(local.partition(':')[2], 16)}")
    return found


def until_gone(look: Callable[[], Any], before: Any, seconds: float = 5) -> Any:
    """What `look` still finds beyond `before`; the kernel may need a moment to take down a closed socket."""
    deadline = time.monotonic() + seconds
    while (left := sorted(set(look()) - set(before), key=str)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _words(pid: int) -> list[bytes]:
    return _read(pid, "cmdline").split(b"\0")
