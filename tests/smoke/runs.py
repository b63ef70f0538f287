"""Whole runs of `scaletest-runner` as a user starts them, and what they leave behind."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from scaletest.project import PROJECT, SUBSTRATES
from tests.smoke.checkout import Checkout

# Far beyond what a run takes: only a hang ends here.
HANG_SECONDS = 900


class Diary:
    """A run as its results folder shows it, while it goes on and afterwards."""

    def __init__(self, output: Path) -> None:
        self.output = output

    def events(self) -> list[dict[str, Any]]:
        path = self.output / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def host(self) -> dict[str, str]:
        """Who the run's host is; empty before it is up."""
        return next((event for event in self.events() if "kubeconfig" in event), {})

    def processes(self, command: str = "") -> list[int]:
        """Processes of the run's host, all or those that are called `command`."""
        marker = f"SCALETEST_HOST={self.host()['host']}".encode() if self.host() else None
        pids = [pid for pid in marked_processes() if marker and marker in _read(pid, "environ").split(b"\0")]
        # Those that are forked from another have their name in `comm`.
        return [pid for pid in pids if not command or command[:15].encode() == _read(pid, "comm").strip()]


class FinishedRun(Diary):
    """A run that ended by itself."""

    def __init__(self, output: Path, exit_code: int, screen: str) -> None:
        super().__init__(output)
        self.exit_code = exit_code
        self.screen = screen

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.output / "summary.json").read_text()))

    def leftovers(self) -> list[str]:
        """What is still there of the run outside its results folder."""
        found = [f"process {pid}" for pid in self.processes()]
        if Path(self.host()["directory"]).exists():
            found.append(self.host()["directory"])
        # Another run may have claimed the network since; with no host about, nobody may listen on it.
        if not marked_processes():
            network = self.host()["address"].rsplit(".", 2)[0]
            found += [address for address in listening_addresses() if address.startswith(f"{network}.")]
        return found


class LiveRun(Diary):
    """A run under way."""

    def __init__(self, output: Path, pid: int, checkout: Path) -> None:
        super().__init__(output)
        self.pid = pid
        # Whose code runs.
        self.checkout = checkout

    async def reached(self, phase: str, words: str = "") -> None:
        """Return when the run has said something (with these words) in this phase."""
        while not any(event["phase"] == phase and words in event["message"] for event in self.events()):
            await asyncio.sleep(0.2)

    def kubeconfig(self) -> Path:
        return Path(self.host()["kubeconfig"])


async def run(
    output: Path,
    *arguments: str,
    meddle: Callable[[LiveRun], Any] | None = None,
    checkout: Checkout | None = None,
    hang_seconds: float = HANG_SECONDS,
    **environ: str,
) -> FinishedRun:
    """Start a run, of another checkout if one is given, let `meddle` (a coroutine function) interfere, and wait."""
    root = checkout.root if checkout else PROJECT
    process = await asyncio.create_subprocess_exec(
        *(str(checkout.python) if checkout else sys.executable, "-m", "scaletest.cli"),
        *("--results", str(output), *arguments),
        cwd=root,
        env=os.environ | environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    meddling = asyncio.ensure_future(meddle(LiveRun(output, process.pid, root))) if meddle else None
    try:
        screen, _ = await asyncio.wait_for(process.communicate(), hang_seconds)
    finally:
        if meddling:
            meddling.cancel()
            await asyncio.gather(meddling, return_exceptions=True)
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
    return FinishedRun(output, process.returncode or 0, screen.decode())


# Strain explains nothing here, and a load that comes late is a load.
SHARED = {
    "cpuPressurePercent": 100,
    "runDelayFraction": 100,
    "missedScrapesFraction": 1,
    "eventLoopLagP99Seconds": 60,
    "apiserverMutatingP99Seconds": 60,
    "loadDeliveredFraction": 0.5,
    "loadScrapeGapSeconds": 60,
}


def shared_machine(directory: Path, *, load_may_be_late: bool = True) -> Path:
    """The embedded substrate for a machine that has other work too: what strain does to the load is no finding."""
    substrate = yaml.safe_load((SUBSTRATES / "embedded.yaml").read_text())
    path = directory / "shared.yaml"
    limits = {key: limit for key, limit in SHARED.items() if load_may_be_late or not key.startswith("load")}
    path.write_text(yaml.safe_dump(substrate | {"selfCheck": limits}))
    return path


async def command(*arguments: str) -> str:
    """What another command of `scaletest-runner` prints, which must not fail."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scaletest.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    screen, _ = await asyncio.wait_for(process.communicate(), HANG_SECONDS)
    assert process.returncode == 0, screen.decode()
    return screen.decode()


def marked_processes() -> list[int]:
    """Every process of any embedded host of this user."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if b"SCALETEST_HOST=" in _read(pid, "environ")]


def listening_addresses() -> set[str]:
    """Loopback addresses of embedded hosts (127.64.… to 127.250.…) on which somebody listens."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        address = bytes.fromhex(local.partition(":")[0])[::-1]
        if state == "0A" and address[0] == 127 and 64 <= address[1] <= 250:
            found.add(f"{'.'.join(str(part) for part in address)}:{int(local.partition(':')[2], 16)}")
    return found


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
