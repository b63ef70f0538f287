"""Python processes that are forked, not started: they share the memory of what their supervisor has imported.

A process that imports aiohttp and gRPC for itself takes half a second of CPU and 40 MB; a forked copy takes neither.
Forking is safe only before the first event loop, thread or gRPC channel exists, so all are forked at once and each
waits until it is told to go.
"""

import asyncio
import contextlib
import encodings.idna  # noqa: F401, the first connection needs it: imported here, it is shared
import gc
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import uvloop  # noqa: F401, `daemon.run` needs it: imported here, it is shared

from bigfleet.process import daemon
from bigfleet.process.memory import give_back
from bigfleet.process.parentdeath import die_with
from scaletest.supervise.allocator import be_frugal
from scaletest.supervise.reaped import Reaped

Main = Callable[[], Coroutine[Any, Any, None]]

_GO = b"g"
_COMM_CHARACTERS = 15


class Fork(Reaped):
    """A copy of this process that waits for `go`, then runs its own main; its output is ours to read."""

    def __init__(self, name: str, pid: int, go_fd: int, output_fd: int) -> None:
        super().__init__(pid)
        self.name = name
        self._go_fd = go_fd
        self._output_fd = output_fd
        # Copies that wait to take its place when it dies: by then the supervisor can no longer fork.
        self.spares: Sequence[Fork] = ()

    def go(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is dead; the supervisor sees that in `wait`
            os.write(self._go_fd, _GO)
        os.close(self._go_fd)

    async def output(self) -> asyncio.StreamReader:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        pipe = os.fdopen(self._output_fd, "rb", buffering=0)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return reader

    async def wait(self) -> int:
        """Reaped one by one, by descriptor: the event loop reaps its own children, and must find them."""
        if self._exit is None:
            self._reap_at_its_end()
        return await super().wait()

    def _reap_at_its_end(self) -> None:
        loop = asyncio.get_running_loop()
        watch_fd = os.pidfd_open(self.pid)
        self._ending()

        def reap() -> None:
            loop.remove_reader(watch_fd)
            os.close(watch_fd)
            self.exited(os.waitpid(self.pid, 0)[1])

        loop.add_reader(watch_fd, reap)


def fork_all(mains: Mapping[str, Main], spares: Mapping[str, int] = MappingProxyType({})) -> dict[str, Fork]:
    """One waiting copy of this process for each name, and so many `spares` of it. Import what they need before."""
    _refuse_threads()
    be_frugal()
    give_back()
    gc.freeze()  # a collection in a copy would write to every object, and so unshare every page
    made: list[Fork] = []

    def fork(name: str, waits_as: str) -> Fork:
        made.append(_fork(name, waits_as, mains[name], made))
        return made[-1]

    forks = {name: fork(name, name) for name in mains}
    for name, number in spares.items():
        forks[name].spares = [fork(name, f"spare-{name}") for _ in range(number)]
    return forks


def in_a_copy(work: Callable[[], object]) -> None:
    """Do `work` in a copy of this process, which takes the memory of what it imports with it when it ends."""
    _refuse_threads()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(f"a copy of this process ended with {code}; its own words stand above")


def _refuse_threads() -> None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"{threads} threads run; a copy of this process would have locks that are never released")


def _fork(name: str, waits_as: str, main: Main, siblings: Iterable[Fork]) -> Fork:
    supervisor = os.getpid()
    wait_fd, go_fd = os.pipe()
    output_fd, print_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        die_with(supervisor)
        for fd in (go_fd, output_fd, *(fd for fork in siblings for fd in (fork._go_fd, fork._output_fd))):
            os.close(fd)
        _become(name, waits_as, main, wait_fd, print_fd)
    os.close(wait_fd)
    os.close(print_fd)
    return Fork(name, pid, go_fd, output_fd)


def _become(name: str, waits_as: str, main: Main, wait_fd: int, print_fd: int) -> NoReturn:
    code = 1
    try:
        _show_as(waits_as)
        for standard in (1, 2):
            os.dup2(print_fd, standard)
        os.close(print_fd)
        told = os.read(wait_fd, 1)
        os.close(wait_fd)
        if told == _GO:
            _show_as(name)
            daemon.run(name, main)
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: what stands above us on the stack is our parent's.
        os._exit(code)


def _show_as(name: str) -> None:
    """What `ps` shows; the command line is our parent's."""
    Path("/proc/self/comm").write_text(name[:_COMM_CHARACTERS])
