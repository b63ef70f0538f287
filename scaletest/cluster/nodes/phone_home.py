"""A cluster tells the provider which machines have a Ready node (BF-0056), and hears which machines it was given."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import structlog

from bigfleet.api.v1alpha1.phonehome_pb2 import MachineWords, ReadyReport
from bigfleet.api.v1alpha1.phonehome_pb2_grpc import PhoneHomeStub
from bigfleet.security import channel

_FULL_SECONDS = 30.0
_RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)

log = structlog.get_logger(__name__)


class PhoneHomeStream:
    """The Ready set, and the stream that carries it: whole on connect and every 30 s, changes between.

    What the provider says on the same stream goes to `on_words`.
    """

    def __init__(
        self,
        cluster_id: str,
        provider_addr: str,
        tls_dir: Path | None,
        *,
        on_connected: Callable[[bool], None] = lambda _: None,
        on_words: Callable[[MachineWords], None] = lambda _: None,
        full_seconds: float = _FULL_SECONDS,
    ) -> None:
        self._cluster_id = cluster_id
        self._provider_addr = provider_addr
        self._tls_dir = tls_dir
        self._on_connected = on_connected
        self._on_words = on_words
        self._full_seconds = full_seconds
        self._ready: set[str] = set()
        # Their Node is there, but not Ready.
        self._unready: set[str] = set()
        # Machines whose state changed since the last frame.
        self._changed: set[str] = set()
        self._news = asyncio.Event()

    def note(self, machine_id: str, ready: bool, there: bool = False) -> None:
        """This machine's node is Ready, or is not, although it may be `there`."""
        unready = there and not ready
        if ready == (machine_id in self._ready) and unready == (machine_id in self._unready):
            return
        for nodes, belongs in ((self._ready, ready), (self._unready, unready)):
            if belongs:
                nodes.add(machine_id)
            else:
                nodes.discard(machine_id)
        self._changed.add(machine_id)
        self._news.set()

    async def run(self) -> None:
        """Report for ever; dial again when the stream breaks."""
        failures = 0
        while True:
            try:
                async with channel(self._provider_addr, self._tls_dir, "provider") as connection:
                    call = PhoneHomeStub(connection).Report(wait_for_ready=True)
                    await call.write(self._whole())
                    self._on_connected(True)
                    failures = 0
                    await self._converse(call)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                log.warning("phone home broke off", provider=self._provider_addr, error=_words(error))
            finally:
                self._on_connected(False)
            await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
            failures += 1

    async def _converse(self, call: Any) -> None:
        """Report and listen until the provider ends the call."""
        listening = asyncio.ensure_future(self._listen(call))
        try:
            await self._report(call)
        finally:
            # Reading ends with the call; what was read last is taken in.
            call.cancel()
            heard = await asyncio.gather(listening, return_exceptions=True)
        for error in heard:
            if isinstance(error, Exception):
                raise error

    async def _listen(self, call: Any) -> None:
        try:
            async for words in call:
                self._on_words(words)
        except Exception:
            call.cancel()  # a cluster that cannot hear must not go on as if it did
            raise

    async def _report(self, call: Any) -> None:
        """Write frames until the provider ends the call."""
        call.add_done_callback(lambda _: self._news.set())
        loop = asyncio.get_running_loop()
        whole_due = loop.time() + self._full_seconds
        while not call.done():
            try:
                async with asyncio.timeout_at(whole_due):
                    await self._news.wait()
                await call.write(self._delta())
            except TimeoutError:
                await call.write(self._whole())
                whole_due = loop.time() + self._full_seconds

    def _whole(self) -> ReadyReport:
        self._forget_changes()
        return ReadyReport(
            cluster_id=self._cluster_id, ready=sorted(self._ready), unready=sorted(self._unready), full=True
        )

    def _delta(self) -> ReadyReport:
        changed = self._forget_changes()
        return ReadyReport(
            cluster_id=self._cluster_id,
            ready=sorted(changed & self._ready),
            not_ready=sorted(changed - self._ready),
            unready=sorted(changed & self._unready),
        )

    def _forget_changes(self) -> set[str]:
        changed, self._changed = self._changed, set()
        self._news.clear()
        return changed


def _words(error: Exception) -> str:
    return str(error.details()) if isinstance(error, grpc.aio.AioRpcError) else str(error)
