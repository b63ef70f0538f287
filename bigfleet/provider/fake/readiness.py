"""Phone home: which machines' nodes are Ready, as each cluster reports it (BF-0056)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import structlog
from prometheus_client import CollectorRegistry, Gauge

from bigfleet.api.v1alpha1 import phonehome_pb2 as pb
from bigfleet.api.v1alpha1 import phonehome_pb2_grpc
from bigfleet.process.racing import first_of
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.fake.words import Words
from bigfleet.security import require

log = structlog.get_logger(__name__)


class ReadySets:
    """The last known Ready set of each cluster, and the tasks that wait for a machine to appear in one."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._ready: dict[str, set[str]] = {}
        # Nodes that were seen in a cluster which their machine has left.
        self._lingering: dict[str, set[str]] = {}
        self._waiters: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._observer = observer or Observer()

    def has(self, cluster: str, machine_id: str) -> bool:
        return machine_id in self._ready.get(cluster, ())

    def size(self, cluster: str) -> int:
        return len(self._ready.get(cluster, ()))

    async def wait(self, cluster: str, machine_id: str) -> None:
        """Return once the machine's node is Ready in this cluster; at once if it is."""
        if machine_id in self._ready.get(cluster, ()):
            return
        key = (cluster, machine_id)
        waiter = self._waiters[key] = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            if self._waiters.get(key) is waiter:
                del self._waiters[key]

    def replace(
        self, cluster: str, ready: Iterable[str], unready: Iterable[str] = (), *, opening: bool = False
    ) -> None:
        """The whole set, as it is now; `opening`: a stream begins, and the changes before it were not reported.

        `unready`: machines whose Node is there, but not Ready.
        """
        now = set(ready)
        if opening:
            self._lingering.pop(cluster, None)
        elif lingering := self._lingering.get(cluster):
            lingering &= now
            now -= lingering
        before = self._ready.get(cluster, set())
        self._ready[cluster] = now
        self._arrived(cluster, now - before)
        there = set(unready)
        self._departed(cluster, before - now, there)
        if opening:
            self._observer.opened(cluster, now, there)

    def change(self, cluster: str, ready: Iterable[str], not_ready: Iterable[str], unready: Iterable[str] = ()) -> None:
        """What happened since the last report."""
        not_ready = set(not_ready)
        known = self._ready.setdefault(cluster, set())
        arrived = set(ready)
        known |= arrived
        self._lingering.get(cluster, set()).difference_update(arrived, not_ready)
        self._arrived(cluster, arrived)
        departed = not_ready & known
        known -= departed
        self._departed(cluster, departed, set(unready))

    def forget(self, cluster: str, machine_id: str) -> None:
        """A machine has left its cluster: a node that lingers there must not vouch for its next binding."""
        if machine_id in self._ready.get(cluster, ()):
            self._ready[cluster].discard(machine_id)
            self._lingering.setdefault(cluster, set()).add(machine_id)

    def drop(self, cluster: str) -> None:
        """No stream has reported for this cluster for too long: drop what was known."""
        self._ready.pop(cluster, None)

    def _arrived(self, cluster: str, machine_ids: Iterable[str]) -> None:
        for machine_id in machine_ids:
            self._observer.arrived(cluster, machine_id)
            waiter = self._waiters.get((cluster, machine_id))
            if waiter and not waiter.done():
                waiter.set_result(None)

    def _departed(self, cluster: str, machine_ids: Iterable[str], unready: set[str]) -> None:
        for machine_id in machine_ids:
            self._observer.departed(cluster, machine_id, gone=machine_id not in unready)


class PhoneHome(phonehome_pb2_grpc.PhoneHomeServicer):
    """The clusters' streams: the newest one speaks for its cluster, and its last word outlives it for a while.

    Each is told in return which machines its cluster was given.
    """

    def __init__(
        self,
        ready: ReadySets,
        words: Words,
        registry: CollectorRegistry,
        *,
        keep_seconds: float,
        on_first_stream: Callable[[str], None],
    ) -> None:
        self._ready = ready
        self._words = words
        self._keep_seconds = keep_seconds
        self._on_first_stream = on_first_stream
        self._speakers: dict[str, object] = {}
        self._expiries: dict[str, asyncio.TimerHandle] = {}
        self._seen: set[str] = set()
        self._stopping = asyncio.Event()
        self._ready_nodes = Gauge(
            "bigfleet_provider_ready_nodes",
            "Nodes that are Ready, as their cluster last said.",
            ["cluster"],
            registry=registry,
        )
        streams = Gauge("bigfleet_provider_phone_home_streams", "Clusters with a live stream.", registry=registry)
        streams.set_function(lambda: len(self._speakers))

    def expect(self, cluster: str) -> None:
        """Show this cluster in the metrics from now on."""
        self._ready_nodes.labels(cluster).set_function(lambda: self._ready.size(cluster))

    def stop(self) -> None:
        """End all streams, so that the server need not break them off."""
        self._stopping.set()

    async def Report(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.ReadyReport], context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """Writes its words to the context, as `bigfleet.rpc.malformed` needs it."""
        frame = await self._next_frame(request_iterator)
        if frame is None:
            return
        await self._check_opening(frame, context)
        stream = object()
        cluster = frame.cluster_id
        self._open(cluster, stream)
        try:
            self._ready.replace(cluster, frame.ready, frame.unready, opening=True)
            # A refusal beside the first word would send them twice, and gRPC hangs then.
            await context.send_initial_metadata(())
            async with self._telling(cluster, context):
                await self._listen(cluster, stream, request_iterator, context)
        finally:
            if self._speakers.get(cluster) is stream:
                self._close(cluster)

    async def _listen(
        self,
        cluster: str,
        stream: object,
        frames: AsyncIterator[pb.ReadyReport],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        """Take in the frames after the first."""
        while (frame := await self._next_frame(frames)) is not None:
            if frame.cluster_id != cluster:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"cluster_id is {frame.cluster_id!r} on a stream that speaks for {cluster!r}",
                )
            if self._speakers.get(cluster) is not stream:
                await context.abort(grpc.StatusCode.ABORTED, f"a newer stream speaks for cluster {cluster!r}")
            if frame.full:
                self._ready.replace(cluster, frame.ready, frame.unready)
            else:
                self._ready.change(cluster, frame.ready, frame.not_ready, frame.unready)

    @asynccontextmanager
    async def _telling(self, cluster: str, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
        """Write the provider's words to the stream inside the block, as fast as the other end takes them."""
        heard = self._words.listen(cluster)

        async def tell() -> None:
            while True:
                await context.write(await heard.next_frame())

        telling = asyncio.ensure_future(tell())
        try:
            yield
        finally:
            heard.close()
            telling.cancel()
            # A stream that breaks while it is written to ends by its reading side.
            await asyncio.gather(telling, return_exceptions=True)

    async def _next_frame(self, frames: AsyncIterator[pb.ReadyReport]) -> pb.ReadyReport | None:
        """The next frame; None when the stream or this provider ends."""
        read, _ = await first_of(anext(frames, None), self._stopping.wait())
        return read.result() if read else None

    async def _check_opening(self, frame: pb.ReadyReport, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if not frame.cluster_id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "cluster_id is empty")
        await require(context, "cluster", name=frame.cluster_id)
        if not frame.full:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first frame must carry the whole Ready set")

    def _open(self, cluster: str, stream: object) -> None:
        self._speakers[cluster] = stream
        if expiry := self._expiries.pop(cluster, None):
            expiry.cancel()
        log.info("phone home opened", cluster=cluster)
        if cluster not in self._seen:
            self._seen.add(cluster)
            self.expect(cluster)
            self._on_first_stream(cluster)

    def _close(self, cluster: str) -> None:
        del self._speakers[cluster]
        self._expiries[cluster] = asyncio.get_running_loop().call_later(self._keep_seconds, self._expire, cluster)
        log.info("phone home closed", cluster=cluster)

    def _expire(self, cluster: str) -> None:
        del self._expiries[cluster]
        self._ready.drop(cluster)
        log.warning("phone home silent, Ready set dropped", cluster=cluster, after_seconds=self._keep_seconds)
