"""Keys to reconcile: each handled by one worker at a time, retried with back-off, never forgotten."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bigfleet.kube.errors import KubeError

_FIRST_RETRY_SECONDS = 0.2
_LONGEST_RETRY_SECONDS = 30.0

log = structlog.get_logger(__name__)


class WorkQueue:
    """Level-triggered: a key stands for "look at it again", however often it was added meanwhile.

    A key added while it is being handled is handled once more afterwards. `handle` raising anything puts the key
    back after a growing pause; one bad object never stops the others.
    """

    def __init__(self, name: str, handle: Callable[[str], Awaitable[None]], *, concurrency: int) -> None:
        self._name = name
        self._handle = handle
        self._concurrency = concurrency
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        """Keys that wait or are being handled; not those that sleep before a retry."""
        return len(self._waiting) + len(self._busy)

    def add(self, key: str) -> None:
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: str, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def run(self) -> None:
        """Handle keys until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self._handle(key)
                self._failures.pop(key, None)
            except KubeError as error:
                log.warning("will try again", queue=self._name, key=key, error=str(error))
                self._retry(key)
            except Exception:
                log.exception("handler failed, will try again", queue=self._name, key=key)
                self._retry(key)
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _retry(self, key: str) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, min(_LONGEST_RETRY_SECONDS, _FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 10)))
