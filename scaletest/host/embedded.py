"""The embedded host as its user sees it: start it, use its kubeconfig, stop it, and nothing is left."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import scaletest
from bigfleet.process.childprocess import last_lines
from bigfleet.process.userdirs import KERNELS_VARIABLE, kernels_home
from scaletest.errors import HostError
from scaletest.host.ending import leftovers
from scaletest.host.janitor import clean_up
from scaletest.host.markers import HOST_MARKER
from scaletest.host.owners import Owner
from scaletest.host.registry import DAEMON, KEEP, HostRecord

_LOG_TAIL_LINES = 20
# What hostd, its control plane and the janitor need beyond the pods' own grace.
_STOP_MARGIN_SECONDS = 20.0


@dataclass(frozen=True)
class _Daemon:
    """hostd as its parent sees it: the pipe that keeps it alive, and the pipe on which it reports.

    The janitor holds the report pipe too, so its end means that host, pods and files are gone.
    """

    process: subprocess.Popen[bytes]
    lifeline: IO[bytes]
    reports: asyncio.StreamReader
    transport: asyncio.ReadTransport


class EmbeddedHost:
    """A running Kubernetes cluster of one node, made of local processes."""

    def __init__(
        self, host_id: str, directory: Path, logs_dir: Path, stop_grace_seconds: float, **purpose: str
    ) -> None:
        self.id = host_id
        self.dir = directory
        # The administrator's (0600).
        self.kubeconfig = directory / "kubeconfig"
        self.logs_dir = logs_dir
        # `<namespace>_<pod>_<uid>/<container>/<restart>.log`
        self.pod_logs_dir = logs_dir / "pods"
        self._record = HostRecord(id=host_id, since=time.time(), owner=Owner.me(), **purpose)
        self._outlives_us = False
        self._stop_grace_seconds = stop_grace_seconds
        self._daemon: _Daemon | None = None
        self._stopping = asyncio.Lock()

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        directory: Path,
        bin_dir: Path,
        *,
        host_id: str = "",
        run_id: str = "",
        namespace: str = "",
        logs_dir: Path | None = None,
        start_timeout_seconds: float = 60,
        stop_grace_seconds: float = 10,
    ) -> AsyncIterator["EmbeddedHost"]:
        """A host whose files are in `directory`, which must not exist or be empty, and is removed at the end.

        `bin_dir` has the Kubernetes binaries and is on the PATH of every pod. Logs are removed with the rest unless
        `logs_dir` names a place outside. `run_id` and `namespace` say what it is for. Raises HostError if the host does
        not come up. At the end it is stopped, unless it was told to outlive us.
        """
        directory = directory.absolute()
        if directory.exists() and any(directory.iterdir()):
            raise HostError(f"{directory} is not empty", hint="give the embedded host a directory of its own")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        host = cls(
            host_id or secrets.token_hex(6),
            directory,
            (logs_dir or directory / "logs").absolute(),
            stop_grace_seconds,
            run_id=run_id,
            namespace=namespace,
        )
        host._record.write(directory)
        try:
            await host._start(bin_dir.absolute(), start_timeout_seconds)
            yield host
        finally:
            if not host._outlives_us:
                await host.stop()

    @property
    def address(self) -> str:
        """The control plane's; empty before the host is up."""
        return self._record.address

    @property
    def alive(self) -> bool:
        """Whether hostd runs."""
        return self._daemon is not None and self._daemon.process.poll() is None

    @property
    def pid(self) -> int:
        """hostd's process id."""
        return self._process.pid

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        if self._daemon is None:
            raise RuntimeError("the host was never started")
        return self._daemon.process

    async def ended(self) -> HostError:
        """Wait until hostd ends, which it does not do on its own, and return what to say then."""
        if self.alive:
            over, loop = asyncio.Event(), asyncio.get_running_loop()
            watched = os.pidfd_open(self.pid)
            try:
                loop.add_reader(watched, over.set)
                await over.wait()
            finally:
                loop.remove_reader(watched)
                os.close(watched)
        return HostError(f"the embedded host died ({_how(self._process.wait())})")

    async def outlive_us(self) -> None:
        """From now on the host ends by `host down`, and no longer with this process."""
        if self._daemon is None:
            raise RuntimeError("the host was never started")
        try:
            self._daemon.lifeline.write(KEEP)
            self._daemon.lifeline.flush()
        except BrokenPipeError:
            raise await self.ended() from None
        if json.loads(await self._daemon.reports.readline() or b"{}").get("state") != "kept":
            raise await self.ended()
        self._outlives_us = True

    async def hand_over(self) -> None:
        """Leave the host up for later commands: from now on no process owns it."""
        if not self._outlives_us:
            await self.outlive_us()
        await self._note(owner=None)

    async def stop(self, *, force: bool = False) -> None:
        """Stop pods, then the control plane, and remove every file; again and again does no harm.

        `force` gives pods no grace, and cuts short a stop that is under way. Raises Leftovers if something
        would not go away.
        """
        daemon = self._daemon
        if daemon:
            daemon.lifeline.close()
            if force:
                daemon.process.kill()
            elif self._outlives_us:
                daemon.process.terminate()
        async with self._stopping:
            if daemon:
                await self._until_gone(daemon)
            # The janitor has done this by now, unless it was killed too.
            if not await asyncio.to_thread(clean_up, self.id, self.dir):
                raise leftovers(self.id, self.dir)

    async def _start(self, bin_dir: Path, timeout_seconds: float) -> None:
        self._daemon = daemon = await self._spawn(bin_dir, timeout_seconds)
        try:
            async with asyncio.timeout(timeout_seconds + _STOP_MARGIN_SECONDS):
                line = await daemon.reports.readline()
        except TimeoutError:
            raise self._silent("did not report in time") from None
        if not line:
            raise self._silent("ended while starting")
        report = json.loads(line)
        if report["state"] != "ready":
            raise HostError(f"the embedded host did not start: {report['error']}", hint=report["hint"])
        await self._note(address=report["address"])

    async def _note(self, **facts: Any) -> None:
        self._record = replace(self._record, **facts)
        try:
            self._record.write(self.dir)
        except FileNotFoundError:  # the janitor was here
            raise await self.ended() from None

    async def _spawn(self, bin_dir: Path, timeout_seconds: float) -> _Daemon:
        reading, writing = os.pipe()
        try:
            process = self._execute(
                {
                    "--id": self.id,
                    "--dir": self.dir,
                    "--bin-dir": bin_dir,
                    "--logs-dir": self.logs_dir,
                    "--start-timeout-seconds": timeout_seconds,
                    "--stop-grace-seconds": self._stop_grace_seconds,
                    "--status-fd": writing,
                },
                inherit=writing,
            )
        finally:
            os.close(writing)
        if process.stdin is None:
            raise RuntimeError("hostd was started without a pipe to its standard input")
        reports = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reports), os.fdopen(reading, "rb")
        )
        return _Daemon(process, process.stdin, reports, transport)

    def _execute(self, arguments: Mapping[str, object], inherit: int) -> subprocess.Popen[bytes]:
        self.logs_dir.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", DAEMON),
                    *(str(part) for argument in arguments.items() for part in argument),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[inherit],
                start_new_session=True,
                cwd="/",
                env=self._environment(),
            )

    def _environment(self) -> dict[str, str]:
        """Little, and nothing of the user's but what is built: what hostd has, its children could read."""
        return {
            HOST_MARKER: self.id,
            KERNELS_VARIABLE: str(kernels_home()),
            "PATH": os.defpath,
            "HOME": str(self.dir),
            "TMPDIR": str(self.dir),
            "PYTHONPATH": str(Path(scaletest.__file__).parents[1]),
        }

    async def _until_gone(self, daemon: _Daemon) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stop_grace_seconds + _STOP_MARGIN_SECONDS):
                await daemon.reports.read()
        daemon.process.kill()
        await asyncio.to_thread(daemon.process.wait)
        daemon.transport.close()

    @property
    def _log(self) -> Path:
        return self.logs_dir / "hostd.log"

    def _silent(self, what: str) -> HostError:
        tail = last_lines(self._log)[-_LOG_TAIL_LINES:]
        return HostError("\n".join([f"the embedded host {what}; the end of its log:", *tail]))


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
