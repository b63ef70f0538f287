"""Processes that die with their parent, end by process group and are reaped in one place."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from bigfleet.process import childprocess
from bigfleet.process.parentdeath import die_with, prctl
from scaletest.supervise.reaped import Reaped

_PR_SET_CHILD_SUBREAPER = 36


class Process(Reaped):
    """A child in a session and process group of its own; signals go to the whole group."""

    def _kill(self, number: int) -> None:
        os.killpg(self.pid, number)

    async def stop(self, grace_seconds: float) -> int:
        """SIGTERM, then SIGKILL when the grace is over."""
        return await childprocess.stop(self.send_signal, self.wait, grace_seconds)


class Spawner:
    """Starts processes and reaps every child, orphans of containers included.

    Use it in the main thread only: the parent-death signal fires when the parent *thread* ends. All waiting goes
    through here, so nothing else in the process may wait for a child.
    """

    def __init__(self) -> None:
        self._children: dict[int, Process] = {}
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
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
        started = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT if output != subprocess.DEVNULL else output,
            start_new_session=True,
            pass_fds=tuple(inherit),
            preexec_fn=None if outlive_parent else partial(die_with, os.getpid()),
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
                process.exited(status)
