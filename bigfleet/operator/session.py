"""The one stream to the shard: dial, Hello, roll up, receive; again with back-off when it breaks."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from bigfleet.api.v1alpha1.shard_pb2 import (
    AvailableCapacityUpdate,
    BootstrapRequest,
    Hello,
    NodeStateUpdate,
    OperatorMessage,
    ReclaimInstruction,
    ShardMessage,
)
from bigfleet.api.v1alpha1.shard_pb2_grpc import ShardStub
from bigfleet.errors import BigFleetError
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.options import ROLLUP_SECONDS, OperatorOptions
from bigfleet.operator.outbox import ShardOutbox
from bigfleet.operator.requests import Requests
from bigfleet.operator.rollup import rollup
from bigfleet.process.racing import first_of
from bigfleet.security import channel
from bigfleet.security.credentials import Leaf

_PROTOCOL_VERSION = "v1alpha1"
_FIRST_BACKOFF_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 30.0
# A Pod and its replacement overlap or miss each other by a moment: changed demand goes out once it has been still for
# this long, and during a fill, when it is never still, at least this often (ADR-1).
_STILL_SECONDS = 0.5
_STILL_AT_MOST_SECONDS = 2.0
_CERTIFICATE_CHECK_SECONDS = 5.0
_RESYNC_AGAIN_SECONDS = 3.0
# The side that a stream's code points to. With another code the shard says what it does not like about us.
_ENDED_BY = {
    grpc.StatusCode.OK: "shard",
    grpc.StatusCode.CANCELLED: "shard",
    grpc.StatusCode.UNKNOWN: "shard",
    grpc.StatusCode.INTERNAL: "shard",
    grpc.StatusCode.UNAVAILABLE: "connection",
}

log = structlog.get_logger(__name__)


class SessionEnded(BigFleetError):
    """The stream is over; says why, and with which code the shard ended it."""

    def __init__(self, reason: str, code: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        super().__init__(reason)
        self.code = code


class CertificateRenewed(BigFleetError):
    """The stream was given up for one that shows our new certificate."""


@dataclass(frozen=True)
class Handlers:
    """The function that takes each kind of frame. None of them blocks: they queue, or answer from memory."""

    session_began: Callable[[], None]
    # False: it is not believed, the shard should be asked again.
    resync_ended: Callable[[], bool]
    bootstrap: Callable[[BootstrapRequest], None]
    reclaim: Callable[[ReclaimInstruction], None]
    node_state: Callable[[NodeStateUpdate], None]
    available_capacity: Callable[[AvailableCapacityUpdate], None]


class Session:
    """Keeps a session with the shard for ever."""

    def __init__(
        self,
        options: OperatorOptions,
        requests: Requests,
        acknowledger: Acknowledger,
        outbox: ShardOutbox,
        metrics: OperatorMetrics,
        handlers: Handlers,
    ) -> None:
        self._options = options
        self._requests = requests
        self._acknowledger = acknowledger
        self._outbox = outbox
        self._metrics = metrics
        self._handlers = handlers
        self._backoff = _FIRST_BACKOFF_SECONDS
        self._doubted = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                await self._converse()
            except CertificateRenewed:
                log.info("dialling anew with our renewed certificate", shard=self._options.shard_addr)
                continue
            except grpc.aio.AioRpcError as error:
                log.warning("session lost", shard=self._options.shard_addr, reason=_reason(error))
            except (SessionEnded, OSError) as error:
                log.warning("session lost", shard=self._options.shard_addr, reason=str(error))
            # Many operators lose their shard at the same moment; they should not all come back in the next one.
            await asyncio.sleep(self._backoff * random.uniform(0.8, 1.0))
            self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF_SECONDS)
            self._metrics.session_reconnects.inc()

    async def _converse(self) -> None:
        tls_dir = self._options.tls_dir
        leaf = Leaf(tls_dir) if tls_dir else None
        async with channel(self._options.shard_addr, tls_dir, "shard") as connection:
            call = ShardStub(connection).Session()
            self._outbox.forget_rollup()
            self._handlers.session_began()
            loops = [self._receive(call), self._send(call), self._roll_up(), self._ask_again()]
            if leaf:
                loops.append(_expect_successor(leaf))
            try:
                await _first_failure(loops)
            except Exception as error:
                self._metrics.sessions_ended.labels(ended_by(error)).inc()
                raise
            finally:
                self._metrics.session_connected.set(0)
                call.cancel()

    async def _send(self, call: Any) -> None:
        async def write(message: OperatorMessage) -> None:
            try:
                await call.write(message)
            except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
                raise SessionEnded("the stream closed while writing", await call.code()) from error

        await write(self._hello())
        await self._outbox.send_to(write)

    def _hello(self) -> OperatorMessage:
        return OperatorMessage(hello=Hello(cluster_id=self._options.cluster_id, protocol_version=_PROTOCOL_VERSION))

    async def _ask_again(self) -> None:
        """A hello within a session asks for another resync."""
        while True:
            self._doubted.clear()
            await self._doubted.wait()
            await asyncio.sleep(_RESYNC_AGAIN_SECONDS)
            self._outbox.put(self._hello())

    async def _receive(self, call: Any) -> None:
        async for message in call:
            self._dispatch(message)
        raise SessionEnded("the shard closed the stream")

    def _dispatch(self, message: ShardMessage) -> None:
        match message.WhichOneof("payload"):
            case "ack":
                self._acknowledged(message.ack.echo)
            case "bootstrap_request":
                self._handlers.bootstrap(message.bootstrap_request)
            case "reclaim_instruction":
                self._handlers.reclaim(message.reclaim_instruction)
            case "node_state_update":
                self._handlers.node_state(message.node_state_update)
            case "available_capacity":
                self._handlers.available_capacity(message.available_capacity)
            case _:
                log.debug("frame of a kind that we do not know")

    def _acknowledged(self, echo: str) -> None:
        if echo == "hello":
            log.info("session established", shard=self._options.shard_addr)
            self._metrics.session_connected.set(1)
            self._backoff = _FIRST_BACKOFF_SECONDS
        elif echo == "resync" and not self._handlers.resync_ended():
            self._doubted.set()

    async def _roll_up(self) -> None:
        """Roll up on connect, after changes and at every interval."""
        interval = self._options.rollup_interval_seconds or ROLLUP_SECONDS
        while True:
            self._roll_up_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._requests.changed.wait()
                    await self._until_still()

    async def _until_still(self) -> None:
        give_up = time.monotonic() + _STILL_AT_MOST_SECONDS
        changes = -1
        while changes != self._requests.changes and time.monotonic() < give_up:
            changes = self._requests.changes
            await asyncio.sleep(_STILL_SECONDS)

    def _roll_up_once(self) -> None:
        phase = self._metrics.rollup_phase
        with self._metrics.rollup.time():
            with phase.labels("list").time():
                needs, unacknowledged = self._requests.needs(), self._requests.unacknowledged()
            with phase.labels("build").time():
                message = rollup(self._options.cluster_id, needs, time.time_ns())
            with phase.labels("enqueue").time():
                self._outbox.put_rollup(message)
        self._acknowledger.enqueue(unacknowledged)


async def _expect_successor(leaf: Leaf) -> None:
    """End the session when its certificate was replaced: dialling anew loses nothing, expiry would."""
    while not leaf.replaced():  # noqa: ASYNC110 (another process writes it)
        await asyncio.sleep(_CERTIFICATE_CHECK_SECONDS)
    raise CertificateRenewed("the certificate was renewed")


async def _first_failure(loops: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run endless loops side by side until one fails, and fail like it.

    Not a TaskGroup: before Python 3.13, one that fails while it is being cancelled swallows the cancellation.
    """
    for ended in await first_of(*loops):
        if ended:
            ended.result()


def ended_by(error: Exception) -> str:
    """The side that ended a session which failed like this."""
    match error:
        case grpc.aio.AioRpcError():
            return _ENDED_BY.get(error.code(), "refusal")
        case SessionEnded():
            return _ENDED_BY.get(error.code, "refusal")
        case _:
            return "operator"


def _reason(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"
