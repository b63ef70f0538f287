"""A whole provider process around a backend: its memory, one gRPC port, one metrics port."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import provider_pb2_grpc
from bigfleet.core.machines import MachineState
from bigfleet.process import daemon
from bigfleet.provider.kit.backend import Backend
from bigfleet.provider.kit.domains import ShardDomains
from bigfleet.provider.kit.journal import StorageError
from bigfleet.provider.kit.lifecycle import Lifecycle
from bigfleet.provider.kit.metrics import ProviderMetrics
from bigfleet.provider.kit.records import MachineRecord
from bigfleet.provider.kit.service import CapacityProvider
from bigfleet.provider.kit.state import State
from bigfleet.provider.kit.store import Disk
from bigfleet.provider.kit.transitions import Timeouts
from bigfleet.rpc.malformed import RefuseMalformed
from bigfleet.security import GRPC_OPTIONS, Identity, listen
from bigfleet.security.choice import check_choice
from bigfleet.security.renewal import Renewal, keep_renewed

# How long calls in flight may take to end when the process is asked to stop.
_STOP_GRACE_SECONDS = 1.0

log = structlog.get_logger(__name__)

AddService = Callable[[grpc.aio.Server], None]
Loop = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class KitOptions:
    """Settings of any provider that stands on the kit."""

    listen: str
    """`host:port` of the gRPC server."""
    metrics_addr: str
    """`host:port` of /metrics, /healthz and /readyz."""
    id: str
    """HostRef.provider of every machine."""
    data_dir: Path | None = None
    """Directory that remembers machines, fencing marks and transitions; None: a restart forgets them."""
    tls_dir: Path | None = None
    """Directory of this process's identity."""
    plaintext: bool = False
    """Without any TLS, and so without any check of the callers; only for trying things out."""
    renewal: Renewal = field(default_factory=Renewal)
    timeouts: Timeouts = field(default_factory=Timeouts)
    shard_domains: tuple[str, ...] = ()
    """`SHARD:KEY=VALUE`, may be repeated: List sends this shard only machines of its domains."""

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)
        ShardDomains(self.shard_domains)


@dataclass(frozen=True)
class ServingProvider:
    """A provider at work; the ports are the real ones when 0 was asked for."""

    port: int
    metrics_port: int


class ProviderProcess:
    """The parts of one provider. What a former life left on disk is there from the start."""

    def __init__(self, options: KitOptions, backend: Backend, registry: CollectorRegistry) -> None:
        self._options = options
        self._registry = registry
        self._disk = Disk(options.data_dir, registry) if options.data_dir else None
        with _collector_at_rest():
            self.state = State(self._disk, self._disk.recover() if self._disk else ())
        self.inventory = self.state.inventory
        self.metrics = ProviderMetrics(registry, self.inventory)
        self.lifecycle = Lifecycle(self.state, backend, options.timeouts, self.metrics)
        domains = ShardDomains(options.shard_domains)
        self.service = CapacityProvider(options.id, self.state, self.lifecycle, self.metrics, domains)

    def describe(self, machines: Iterable[MachineRecord]) -> None:
        """Tell the kit of the machines there are; at any time, and as often as something may have changed.

        New ids are taken in as they are; known ones keep their state and get the price, resources and labels of now.
        """
        with _collector_at_rest():
            self.state.describe(machines)

    @asynccontextmanager
    async def serving(
        self,
        *services: AddService,
        held: Callable[[list[MachineRecord]], None] = lambda _: None,
        loops: Iterable[Loop] = (),
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> AsyncIterator[ServingProvider]:
        """Serve inside the block: the six RPCs and `services`, with `loops` beside them.

        `interceptors` see every call whose request could be read.

        `held` is told of machines that are Configuring although no caller asked for it; `Lifecycle.release` sets
        them free.
        """
        try:
            async with AsyncExitStack() as stack:
                yield await self._serve(stack, services, held, loops, interceptors)
        except BaseExceptionGroup as group:
            # The disk's word is the one that people need.
            raise next((error for error in group.exceptions if isinstance(error, StorageError)), group) from None

    async def _serve(
        self,
        stack: AsyncExitStack,
        services: Iterable[AddService],
        held: Callable[[list[MachineRecord]], None],
        loops: Iterable[Loop],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
    ) -> ServingProvider:
        options = self._options
        group = await stack.enter_async_context(asyncio.TaskGroup())
        if self._disk:
            stack.callback(group.create_task(self._disk.run(self.state.snapshot)).cancel)
        await self.state.store.flushed()
        await stack.enter_async_context(self.lifecycle)
        held(self.lifecycle.resume())
        server = grpc.aio.server(
            interceptors=[RefuseMalformed(self.metrics.malformed), *interceptors],
            options=[*GRPC_OPTIONS, ("grpc.so_reuseport", 0)],
        )
        provider_pb2_grpc.add_CapacityProviderServicer_to_server(self.service, server)
        for add in services:
            add(server)
        port = listen(server, options.listen, options.tls_dir, Identity("provider", options.id))
        await server.start()
        stack.push_async_callback(server.stop, _STOP_GRACE_SECONDS)
        metrics = await daemon.serve_metrics(options.metrics_addr, self._registry)
        stack.push_async_callback(metrics.cleanup)
        own: list[Loop] = [partial(daemon.watch_loop_lag, self._registry)]
        if options.tls_dir and options.renewal.issuer_addr:
            own.append(partial(keep_renewed, options.tls_dir, options.renewal, self._registry))
        for loop in (*own, *loops):
            stack.callback(group.create_task(loop()).cancel)
        log.info(
            "provider listens",
            listen=options.listen,
            port=port,
            machines=len(self.inventory),
            configured=len(self.inventory.ids(MachineState.CONFIGURED)),
        )
        return ServingProvider(port, daemon.port_of(metrics))


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Machines are made in masses and are not garbage: looking for some meanwhile doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
