"""Operator sessions: one stream per cluster, demand in, node states and requests out.

See docs/reference/wire.md#session.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import grpc
import structlog

from bigfleet.api.v1alpha1 import shard_pb2
from bigfleet.core.requirements import Requirement
from bigfleet.engine import CapacityHint
from bigfleet.errors import BigFleetError
from bigfleet.rpc.malformed import Malformed
from bigfleet.security import Identity, peer_identity
from bigfleet.security.identity import InvalidIdentity
from bigfleet.shard.convert import available_capacity, node_state, requirements_to_wire
from bigfleet.shard.message_limits import MAX_BLOB_BYTES, cluster_id_problem
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.notices import Notice, Notices
from bigfleet.shard.sessions.frames import Frame, Rollup
from bigfleet.shard.sessions.intake import Intake
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.outbox import OperatorOutbox
from bigfleet.shard.sessions.questions import NoSession, Questions

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]

# Characters of an operator's own words that are logged and kept.
_SHOWN = 1_000
# An operator that is sent away comes again within half a minute; one that has not for so long has found its shard.
_KNOCKED_SECONDS = 600.0


class BlobRefused(BigFleetError):
    """The operator can't render a bootstrap blob; the text is its reason."""


class _Session:
    def __init__(self, cluster: str, outbox: OperatorOutbox) -> None:
        self.cluster = cluster
        self.outbox = outbox
        self.replaced = asyncio.Event()
        # The coordinators say that the cluster belongs to another shard.
        self.elsewhere = asyncio.Event()
        self._rollup: Rollup | None = None
        self._arrived = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether every roll-up that was offered has been taken."""
        return self._rollup is None

    def offer_rollup(self, rollup: Rollup) -> None:
        """One slot, newest wins: a roll-up replaces the whole demand anyway."""
        self._rollup = rollup
        self._arrived.set()

    async def next_rollup(self) -> Rollup:
        """It stays in the slot until it is `taken`, or a newer one comes."""
        while (rollup := self._rollup) is None:
            self._arrived.clear()
            await self._arrived.wait()
        return rollup

    def taken(self, rollup: Rollup) -> None:
        if self._rollup is rollup:
            self._rollup = None


class Sessions:
    """The sessions of this shard: the service `Shard`. `notices` tells a new session where its machines stand."""

    notices: Notices

    def __init__(
        self,
        needs: NeedsTable,
        metrics: ShardMetrics,
        epoch: int,
        term: Callable[[], int],
        wake: Callable[[], None],
        hint_interval_seconds: float,
        reconnect_seconds: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._intake = Intake(needs, metrics, clock)
        self._epoch = epoch
        self._term = term
        self._wake = wake
        self._hint_interval_seconds = hint_interval_seconds
        self._monotonic = monotonic
        self._sessions: dict[str, _Session] = {}
        self._questions = Questions(reconnect_seconds)
        # Frames about machines that left while their cluster had no session.
        self._departures: dict[str, dict[str, shard_pb2.ShardMessage]] = {}
        self._fleet_known = False
        # Clusters of other shards → (that shard, when their operator last came to us).
        self._elsewhere: dict[str, tuple[str, float]] = {}
        # (cluster, fingerprint) → (what was said, when).
        self._hints: dict[str, dict[str, tuple[CapacityHint, float]]] = {}

    # --- what the shard asks of a session -----------------------------------------------------------------------

    def connected(self, cluster: str) -> bool:
        return cluster in self._sessions

    def clusters(self) -> list[str]:
        """Those with a session, and those that came lately and were sent away."""
        since = self._monotonic() - _KNOCKED_SECONDS
        return sorted(self._sessions.keys() | {one for one, (_, came) in self._elsewhere.items() if came >= since})

    def send_away(self, elsewhere: Mapping[str, str]) -> None:
        """The coordinators' word on `clusters`: these belong to another shard, and the others may come."""
        now = self._monotonic()
        for cluster, shard in elsewhere.items():
            if cluster not in self._elsewhere:
                log.error("the cluster belongs to another shard", cluster=cluster, shard=shard)
            if session := self._sessions.get(cluster):
                session.elsewhere.set()
            else:
                self._intake.forget(cluster)
        self._elsewhere = {one: (shard, self._elsewhere.get(one, ("", now))[1]) for one, shard in elsewhere.items()}

    def unanswered_seconds(self) -> dict[str, float]:
        """Per cluster that owes bootstrap blobs, the age of the oldest request."""
        return self._questions.unanswered_seconds()

    def fleet_known(self) -> None:
        """The first List is in: what the sessions have heard of their machines by now is all there is."""
        self._fleet_known = True
        for session in self._sessions.values():
            self._acknowledge(session, "resync")

    def send_notice(self, notice: Notice) -> None:
        """Queue a node state; without a session only a departure is worth keeping, the rest comes with the resync."""
        session = self._sessions.get(notice.cluster)
        if not session and not notice.removed:
            return
        update = node_state(notice)
        frame = shard_pb2.ShardMessage(node_state_update=update)
        if session:
            session.outbox.put(update.supersedes_key, frame)
        else:
            self._departures.setdefault(notice.cluster, {})[update.supersedes_key] = frame

    def send_hint(self, hint: CapacityHint) -> None:
        """Queue a hint unless the cluster was told the same, or told anything about this profile a moment ago."""
        session = self._sessions.get(hint.cluster)
        if not session:
            return
        now = self._monotonic()
        told = self._hints.setdefault(hint.cluster, {})
        last = told.get(hint.profile.fingerprint)
        if last and (last[0] == hint or now - last[1] < self._hint_interval_seconds):
            return
        told[hint.profile.fingerprint] = (hint, now)
        update = available_capacity(hint)
        session.outbox.put(update.supersedes_key, shard_pb2.ShardMessage(available_capacity=update))

    async def request_blob(self, cluster: str, machine_id: str, requirements: Sequence[Requirement]) -> bytes:
        """The user data that makes this machine a node of the cluster. Raises NoSession or BlobRefused."""
        request = shard_pb2.BootstrapRequest(
            request_id=secrets.token_hex(8),
            requirements=requirements_to_wire(requirements),
            cluster_id=cluster,
            machine_id=machine_id,
        )
        frame = shard_pb2.ShardMessage(bootstrap_request=request)
        blob: bytes = await self._ask(cluster, _blob_key(request.request_id), lambda: frame, patient=False)
        return blob

    async def drain(self, cluster: str, nodes: Sequence[str], grace_seconds: int, preemptor_priority: int) -> str:
        """Ask the operator to empty nodes and wait for its word: empty when every pod left. Raises NoSession."""
        instruction_id = secrets.token_hex(8)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds

        def frame() -> shard_pb2.ShardMessage:
            instruction = shard_pb2.ReclaimInstruction(
                instruction_id=instruction_id,
                nodes=nodes,
                grace_period_seconds=max(1, round(deadline - loop.time())),
                preemptor_priority=preemptor_priority,
            )
            return shard_pb2.ShardMessage(reclaim_instruction=instruction)

        word: str = await self._ask(cluster, _drain_key(instruction_id), frame, patient=True)
        return word

    async def _ask(self, cluster: str, key: str, frame: Callable[[], shard_pb2.ShardMessage], *, patient: bool) -> Any:
        session = self._sessions.get(cluster)
        if not session:
            raise NoSession(cluster)
        with self._questions.ask(cluster, key, frame, patient=patient) as answer:
            session.outbox.put(key, frame())
            return await answer

    # --- the stream ---------------------------------------------------------------------------------------------

    async def converse(self, request_iterator: AsyncIterator[Frame], context: Context) -> None:
        """Serve one stream (`session_handler`)."""
        cluster = await self._greet(request_iterator, context)
        # gRPC sends it with the first frame otherwise; if that is cancelled halfway, no status can ever be sent.
        await context.send_initial_metadata(())
        session = self._install(cluster)
        tasks = {
            asyncio.create_task(self._receive(session, request_iterator)),
            asyncio.create_task(self._send(session, context)),
            asyncio.create_task(self._take_rollups(session)),
            asyncio.create_task(session.replaced.wait()),
            asyncio.create_task(session.elsewhere.wait()),
            asyncio.create_task(session.outbox.overflow.wait()),
        }
        # Not `first_of`: the session goes before its tasks do, and what they raise while they end is told too.
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._remove(session)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Malformed):
                raise error
            if isinstance(error, Exception) and not isinstance(error, grpc.aio.AbortError | grpc.RpcError):
                log.warning("session failed", cluster=cluster, error=repr(error))
        if session.elsewhere.is_set():
            self._intake.forget(cluster)
            await self._refuse_elsewhere(cluster, context)
        if session.replaced.is_set():
            await context.abort(grpc.StatusCode.ABORTED, "a newer session of this cluster took over")
        if session.outbox.overflow.is_set():
            log.warning("session ended: the operator does not read", cluster=cluster)
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many frames wait to be read")

    async def _greet(self, frames: AsyncIterator[Frame], context: Context) -> str:
        """The cluster that this stream speaks for, proven by its certificate."""
        first = await anext(aiter(frames), None)
        if not isinstance(first, shard_pb2.OperatorMessage):
            first = shard_pb2.OperatorMessage()
        cluster = str(first.hello.cluster_id)
        if problem := cluster_id_problem(cluster):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        try:
            identity = peer_identity(context)
            refusal = f"{identity} may not speak for cluster {cluster!r}"
            allowed = identity is None or identity == Identity("cluster", cluster)
        except InvalidIdentity as error:
            allowed, refusal = False, str(error)
        if not allowed:
            self._metrics.session_identity_rejected.inc()
            log.error("session refused", cluster=cluster, reason=refusal)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)
        if cluster in self._elsewhere:
            await self._refuse_elsewhere(cluster, context)
        log.info("session opened", cluster=cluster, protocol_version=first.hello.protocol_version[:_SHOWN])
        return cluster

    async def _refuse_elsewhere(self, cluster: str, context: Context) -> None:
        shard, _ = self._elsewhere.get(cluster, ("", 0.0))
        if shard:
            self._elsewhere[cluster] = (shard, self._monotonic())
        self._metrics.session_lifecycle.labels("elsewhere").inc()
        hint = "point its operator's --shard-addr there"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{cluster!r} belongs to shard {shard!r}: {hint}")

    def _install(self, cluster: str) -> _Session:
        older = self._sessions.get(cluster)
        if older:
            self._remove(older)
            older.replaced.set()
            self._metrics.session_lifecycle.labels("replaced").inc()
        outbox = OperatorOutbox(self._departures.pop(cluster, {}), self._metrics.outbox_dropped.inc)
        session = self._sessions[cluster] = _Session(cluster, outbox)
        self._metrics.session_lifecycle.labels("installed").inc()
        self._metrics.clusters.session_installed(cluster)
        self._metrics.active_sessions.set(len(self._sessions))
        self._wake()  # actions may have waited for this operator
        self._introduce(session)
        for key, frame in self._questions.operator_came(cluster).items():
            outbox.put(key, frame)
            self._metrics.reissued.labels(frame.WhichOneof("payload")).inc()
        outbox.begun()
        return session

    def _introduce(self, session: _Session) -> None:
        """Answer a hello: where the cluster's machines stand. One within a session asks for it again."""
        self._acknowledge(session, "hello")
        self.notices.resync(session.cluster)
        if self._fleet_known:
            # Lets the operator drop what it remembers of machines that the resync did not name.
            self._acknowledge(session, "resync")

    def _remove(self, session: _Session) -> None:
        if self._sessions.get(session.cluster) is not session:
            return
        del self._sessions[session.cluster]
        self._questions.operator_left(session.cluster)
        if departures := session.outbox.departures():
            self._departures[session.cluster] = departures
        self._hints.pop(session.cluster, None)
        self._metrics.session_lifecycle.labels("removed").inc()
        self._metrics.active_sessions.set(len(self._sessions))

    async def _send(self, session: _Session, context: Context) -> None:
        while True:
            await context.write(await session.outbox.take())

    async def _receive(self, session: _Session, frames: AsyncIterator[Frame]) -> None:
        async for message in frames:
            if isinstance(message, Rollup):
                # Nearly all of them say the same again: that takes less time than to leave them to the other task.
                if session.idle and self._intake.repeats(session.cluster, message):
                    self._acknowledge(session, "rollup")
                else:
                    self._intake.check(session.cluster, message)
                    session.offer_rollup(message)
                continue
            match message.WhichOneof("payload"):
                case "hello":
                    self._introduce(session)
                case "bootstrap_response":
                    response = message.bootstrap_response
                    self._questions.answer(session.cluster, _blob_key(response.request_id), _blob(response))
                case "drain_report":
                    report = message.drain_report
                    self._questions.answer(session.cluster, _drain_key(report.instruction_id), report.error[:_SHOWN])
                case _:  # a ReclaimAck says only that the operator has begun
                    pass

    async def _take_rollups(self, session: _Session) -> None:
        while True:
            rollup = await session.next_rollup()
            verdict = await self._intake.take(session.cluster, rollup)
            session.taken(rollup)
            if verdict is None:
                continue
            if verdict.changed:
                self._wake()
            self._acknowledge(session, "rollup")

    def _acknowledge(self, session: _Session, echo: str) -> None:
        session.outbox.put(f"ack:{echo}", _acknowledgement(echo, self._term(), self._epoch))


@lru_cache(maxsize=16)
def _acknowledgement(echo: str, term: int, epoch: int) -> shard_pb2.ShardMessage:
    """One frame for all sessions; no code may change it."""
    ack = shard_pb2.Acknowledgement(echo=echo, coordinator_term=term, shard_epoch=epoch)
    return shard_pb2.ShardMessage(ack=ack)


def _blob(response: shard_pb2.BootstrapBlobResponse) -> bytes | BlobRefused:
    if response.error:
        return BlobRefused(response.error[:_SHOWN])
    if len(response.user_data) > MAX_BLOB_BYTES:
        return BlobRefused(f"a blob of {len(response.user_data)} bytes, at most {MAX_BLOB_BYTES} are allowed")
    return response.user_data


def _blob_key(request_id: str) -> str:
    return f"bootstrap:{request_id}"


def _drain_key(instruction_id: str) -> str:
    return f"reclaim:{instruction_id}"
