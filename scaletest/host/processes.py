"""Processes that die with their parent, end by process group and are reaped in one place."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


class Process:
    """A child in a session and process group of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def running(self) -> bool:
        return not self._exit.done()

    async def wait(self) -> int:
        """The exit code; a signal's number, negated, if one ended it."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Signal the whole group. Nothing happens once the process has been reaped: its number may be another's."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def stop(self, grace_seconds: float) -> int:
        """SIGTERM, then SIGKILL when the grace is over."""
        self.signal(signal.SIGTERM)
        # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the result.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        self.signal(signal.SIGKILL)
        return await self.wait()

    def exited(self, code: int) -> None:
        if self.running:
            self._exit.set_result(code)


class Spawner:
    """Starts processes and reaps every child, orphans of containers included.

    Use it in the main thread only: the parent-death signal fires when the parent *thread* ends. All waiting goes
    through here, so nothing else in the process may wait for a child.
    """

    def __init__(self) -> None:
        self._children: dict[int, Process] = {}
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        output: IO[bytes] | int = subprocess.DEVNULL,
        stdin: int = subprocess.DEVNULL,
        inherit: Sequence[int] = (),
        outlive_parent: bool = False,
    ) -> Process:
        """Start `argv`, found through the PATH of `env`. Raises OSError if it cannot be executed."""
        parent = os.getpid()

        def die_with_parent() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent died before the signal was armed
                os._exit(1)

        started = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT if output != subprocess.DEVNULL else output,
            start_new_session=True,
            pass_fds=tuple(inherit),
            preexec_fn=None if outlive_parent else die_with_parent,
        )
        process = Process(started.pid)
        self._children[started.pid] = process
        started.returncode = 0  # reaped here, not by Popen
        return process

    def close(self) -> None:
        """Stop reaping; to be called before the event loop ends."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            process = self._children.pop(pid, None)
            if process:
                process.exited(os.waitstatus_to_exitcode(status))


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")
