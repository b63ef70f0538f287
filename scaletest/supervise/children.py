"""Processes that live and die together: started in order, watched, stopped in reverse order."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from bigfleet.process.parentdeath import die_with
from bigfleet.process.racing import first_of
from scaletest.errors import ScaletestError
from scaletest.supervise.child import Child, piped
from scaletest.supervise.command import Command
from scaletest.supervise.forks import Fork
from scaletest.supervise.polling import POLL_SECONDS, poll

T = TypeVar("T")

# Five processes, stopped one after the other, stay inside the pod's grace of 20 s.
STOP_GRACE_SECONDS = 3.0
_DEATH_NOTICE_SECONDS = 0.5


class ChildDied(ScaletestError):
    """A process that should live as long as its supervisor has ended; carries the end of its log."""

    def __init__(self, name: str, status: int, tail: tuple[str, ...]) -> None:
        ended = f"was killed by signal {-status}" if status < 0 else f"exited with code {status}"
        super().__init__("\n".join([f"{name} {ended}; its last lines:", *(f"  {line}" for line in tail)]))
        self.name = name
        self.status = status
        self.tail = tail


class NotInTime(ScaletestError):
    """Something that a start waits for did not come before its deadline."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(
            f"{what}: not within {seconds:g} s",
            hint="look for what keeps this machine busy",
        )


def write_to_stdout(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Children:
    """A group of processes. On leaving the context all are stopped, the last one started first; `retire` stops one.

    `survive` is asked about every process that dies by itself: whether the group goes on without it.
    """

    def __init__(
        self,
        *,
        write: Callable[[str], None] = write_to_stdout,
        stop_grace_seconds: float = STOP_GRACE_SECONDS,
        survive: Callable[[Child], bool] = lambda _: False,
    ) -> None:
        self._write = write
        self._stop_grace_seconds = stop_grace_seconds
        self._survive = survive
        self._stopping = False
        self._children: list[Child] = []
        self._first_death: asyncio.Future[Child] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        try:
            for child in reversed(self._children):
                await child.stop(self._stop_grace_seconds)
        finally:
            for child in self._children:
                child.kill()

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    async def start(self, command: Command) -> Child:
        """Start it by asyncio, which reaps it: a container's supervisor has no orphans to reap, as hostd has."""
        supervisor = os.getpid()

        def before_exec() -> None:
            die_with(supervisor)
            os.nice(command.nice)

        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **command.env},
            preexec_fn=before_exec,
        )
        if process.stdout is None:
            raise RuntimeError("a child is started with its output piped")
        return self.watch(piped(command.name, process, process.stdout, self._write))

    async def adopt(self, fork: Fork) -> Child:
        """Watch over a process that was forked before there was a group."""
        return self.watch(piped(fork.name, fork, await fork.output(), self._write))

    def watch(self, child: Child) -> Child:
        """Have it in the group from now on, however it was started."""
        self._children.append(child)
        child.ended.add_done_callback(lambda _: self._note_death(child))
        return child

    async def retire(self, child: Child) -> None:
        """Stop one process on purpose; the group goes on without it."""
        self._children.remove(child)
        await child.stop(self._stop_grace_seconds)

    def _note_death(self, child: Child) -> None:
        if child not in self._children or self._stopping or self._first_death.done():
            return
        if self._survive(child):
            self._children.remove(child)
        else:
            self._first_death.set_result(child)

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises ChildDied as soon as any process of the group ends."""
        worked, _ = await first_of(work, self._first_death)
        if worked and not worked.cancelled() and worked.exception():
            # A broken connection is how a death is felt first.
            await asyncio.wait({self._first_death}, timeout=_DEATH_NOTICE_SECONDS)
        if worked and not self._first_death.done():
            return worked.result()
        child = await self._first_death
        raise ChildDied(child.name, child.ended.result(), child.tail)

    async def until_death(self) -> NoReturn:
        """Watch over the group; ends with ChildDied."""
        await self.during(asyncio.Event().wait())
        raise AssertionError("the event is never set")

    async def within(self, seconds: float, what: str, work: Coroutine[Any, Any, T]) -> T:
        """As `during`, and raises NotInTime at the deadline."""
        try:
            async with asyncio.timeout(seconds):
                return await self.during(work)
        except TimeoutError:
            raise NotInTime(what, seconds) from None

    async def until(
        self,
        probe: Callable[[], Awaitable[bool]],
        what: str,
        seconds: float,
        every_seconds: float = POLL_SECONDS,
    ) -> None:
        """Ask `probe` until it says yes."""
        await self.within(seconds, what, poll(probe, every_seconds))
