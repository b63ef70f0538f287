"""Children that we reap ourselves: the exit code is told once, and no signal is sent after it."""

import asyncio
import contextlib
import os


class Reaped:
    """A child process. May be made before there is an event loop."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit: asyncio.Future[int] | None = None

    @property
    def running(self) -> bool:
        return self._exit is None or not self._exit.done()

    async def wait(self) -> int:
        """The exit code; a signal's number, negated, if one ended it."""
        return await asyncio.shield(self._ending())

    def send_signal(self, number: int) -> None:
        """Nothing happens once the process has been reaped: its number may be another's."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._kill(number)

    def exited(self, status: int) -> None:
        """For the reaper: what `waitpid` said."""
        if self.running:
            self._ending().set_result(os.waitstatus_to_exitcode(status))

    def _kill(self, number: int) -> None:
        os.kill(self.pid, number)

    def _ending(self) -> "asyncio.Future[int]":
        if self._exit is None:
            self._exit = asyncio.get_running_loop().create_future()
        return self._exit
