"""Where the kit keeps its state: nowhere, or in a journal that is written in groups and compacted now and then."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.process.daemon import exponential_buckets
from bigfleet.provider.kit.entries import Entry, decode, encode, in_frames
from bigfleet.provider.kit.errors import Unstored
from bigfleet.provider.kit.journal import Journal, StorageError

# A journal is compacted when it is this many times its size after the last compaction, but not while it is small.
_GROWTH = 4
_SMALL_BYTES = 16 * 1024 * 1024

log = structlog.get_logger(__name__)


class RecordStore(Protocol):
    """Takes entries at once and knows when they are safe."""

    def stage(self, entry: Entry) -> None:
        """Entries that are staged without an await in between are kept together or not at all."""

    async def flushed(self) -> None:
        """Return when all that was staged is safe; raises Unstored when it never will be."""


class Forgetful:
    """State that ends with the process."""

    def stage(self, entry: Entry) -> None:
        pass

    async def flushed(self) -> None:
        pass


class Disk:
    """State in a directory. `run` must be running for anything to be written."""

    def __init__(self, directory: Path, registry: CollectorRegistry, small_bytes: int = _SMALL_BYTES) -> None:
        self._journal = Journal(directory)
        self._small_bytes = small_bytes
        self._compact_above = 0
        self._staged: list[Entry] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._broken = ""
        self._commits = Histogram(
            "bigfleet_provider_commit_seconds",
            "Time to put one group of changes on disk.",
            buckets=exponential_buckets(0.0005, 2, 14),
            registry=registry,
        )
        self._compactions = Counter(
            "bigfleet_provider_compactions_total", "Times the journal was written anew.", registry=registry
        )
        size = Gauge("bigfleet_provider_journal_bytes", "Size of the journal.", registry=registry)
        size.set_function(lambda: self._journal.size)

    def recover(self) -> Iterator[Entry]:
        """What was safe when the last process ended, oldest first."""
        for frame in self._journal.read():
            try:
                yield from decode(frame)
            except msgspec.DecodeError as error:
                raise StorageError(f"the journal holds what this version cannot read: {error}") from error

    def stage(self, entry: Entry) -> None:
        self._staged.append(entry)
        self._wake.set()

    async def flushed(self) -> None:
        if self._broken:
            raise Unstored(self._broken)
        if self._staged or self._waiters:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        elif self._writing is not None:
            await asyncio.shield(self._writing)

    async def run(self, snapshot: Callable[[], Iterable[Entry]]) -> None:
        """Write until cancelled, and then once more. Raises StorageError when the disk does not take it."""
        try:
            while True:
                await self._wake.wait()
                await self._commit(snapshot)
        finally:
            if not self._broken:
                await self._commit(snapshot)
            self._journal.close()

    async def _commit(self, snapshot: Callable[[], Iterable[Entry]]) -> None:
        """One group: everything staged until now, in one frame or as part of a new generation."""
        self._wake.clear()
        staged, self._staged = self._staged, []
        waiters, self._waiters = self._waiters, []
        if not staged:
            return
        written = self._writing = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        compact = self._journal.empty or self._journal.size > self._compact_above
        # The state in memory holds what is staged already.
        whole = snapshot() if compact else ()

        def write() -> None:
            if compact:
                self._journal.replace(in_frames(whole))
            else:
                self._journal.append(encode(staged))

        task = asyncio.ensure_future(asyncio.to_thread(write))
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                cancelled = True  # half a write has no owner: it is waited for
        self._writing = None
        if error := task.exception():
            self._break([written, *waiters, *self._waiters], error)
        if compact:
            self._compact_above = max(self._small_bytes, _GROWTH * self._journal.size)
            self._compactions.inc()
        self._commits.observe(time.perf_counter() - started)
        for waiter in (written, *waiters):
            if not waiter.done():
                waiter.set_result(None)
        if cancelled:
            raise asyncio.CancelledError

    def _break(self, waiters: Iterable[asyncio.Future[None]], error: BaseException) -> NoReturn:
        self._broken = f"state cannot be stored: {error}"
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(Unstored(self._broken))
                waiter.exception()  # marks it as read: asyncio would log it if no caller awaits it
        raise StorageError(self._broken, "free the disk and start the provider again: nothing is lost") from error
