"""The fake provider's process: everything wired together behind one gRPC port and one metrics port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import structlog
from prometheus_client import CollectorRegistry, Counter

from bigfleet import daemon
from bigfleet.api.v1alpha1 import phonehome_pb2_grpc, provider_pb2_grpc
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake import FakeBackend, Faults
from bigfleet.provider.kit import CapacityProvider, Inventory, Lifecycle, ProviderMetrics, Timeouts
from bigfleet.provider.latency import Latencies
from bigfleet.provider.losses import Losses
from bigfleet.provider.readiness import PhoneHome, ReadySets
from bigfleet.provider.run_phase import RunPhase
from bigfleet.provider.seed import Fleet, read_fleet
from bigfleet.security import GRPC_OPTIONS, server_credentials

# How long calls in flight may take to end when the process is asked to stop.
_STOP_GRACE_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ProviderOptions:
    """Settings of the fake provider."""

    listen: str
    """`host:port` of the gRPC server (CapacityProvider and PhoneHome)."""
    metrics_addr: str
    """`host:port` of /metrics, /healthz and /readyz."""
    fleet: Path
    """JSON file of the machines at the start."""
    id: str = "fake"
    """HostRef.provider of every machine."""
    tls_dir: Path | None = None
    """Directory of this process's identity; None serves plaintext and checks nobody."""
    service_account_dir: Path | None = None
    """Credentials for the run's Kubernetes API; None: there is no run to watch and nothing is ever lost."""
    run_config_map: str | None = None
    """The ConfigMap that tells the run's phase; None: nothing is ever lost."""
    namespace: str = "default"
    """Where that ConfigMap lives."""
    seed: int = 0
    """Of every random draw: latencies, faults, losses."""
    failure_rate_per_sec: float = 0.0
    """Losses per second and Configured machine, in the soak only."""
    repair_seconds: float = 0.0
    """After this long a lost machine is back: Idle if it is bare metal, else Speculative. 0: never."""
    latencies: Latencies = field(default_factory=Latencies)
    timeouts: Timeouts = field(default_factory=Timeouts)
    faults: Faults = field(default_factory=Faults)
    ready_keep_seconds: float = 60.0
    """How long a cluster's Ready set outlives its phone-home stream."""

    def __post_init__(self) -> None:
        for name in ("failure_rate_per_sec", "repair_seconds", "ready_keep_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must not be negative")


class FakeProvider:
    """The parts of one fake provider."""

    def __init__(self, options: ProviderOptions, registry: CollectorRegistry) -> None:
        self.inventory = Inventory()
        self.metrics = ProviderMetrics(registry, self.inventory)
        self.ready = ReadySets(on_departure=self._departed)
        backend = FakeBackend(self.ready, options.latencies, options.faults, options.seed)
        self.lifecycle = Lifecycle(self.inventory, backend, options.timeouts, self.metrics)
        self.service = CapacityProvider(options.id, self.inventory, self.lifecycle, self.metrics)
        self.phone_home = PhoneHome(
            self.ready, registry, keep_seconds=options.ready_keep_seconds, on_first_stream=self._expect_nodes
        )
        self.losses = Losses(
            self.inventory,
            self.lifecycle,
            self.ready,
            registry,
            rate_per_second=options.failure_rate_per_sec,
            repair_seconds=options.repair_seconds,
            seed=options.seed,
        )
        self._held: dict[str, list[str]] = {}
        self._departures = Counter(
            "bigfleet_provider_ready_departures_total",
            "Configured machines whose node left its cluster's Ready set; they stay Configured.",
            registry=registry,
        )

    def seed(self, fleet: Fleet) -> None:
        for machine in fleet.stable:
            self.inventory.put(machine)
        for cluster in fleet.clusters:
            self.phone_home.expect(cluster)
        for machine in fleet.bound:
            self.lifecycle.hold(machine)
            self._held.setdefault(machine.cluster, []).append(machine.id)

    def _expect_nodes(self, cluster: str) -> None:
        for machine_id in self._held.pop(cluster, ()):
            self.lifecycle.release(machine_id)

    def _departed(self, cluster: str, machine_id: str) -> None:
        if machine_id in self.inventory.ids(MachineState.CONFIGURED):
            machine = self.inventory.get(machine_id)
            if machine.cluster == cluster:
                self._departures.inc()


@dataclass(frozen=True)
class RunningProvider:
    """A provider at work; the ports are the real ones when 0 was asked for."""

    port: int
    metrics_port: int
    phase: RunPhase


@asynccontextmanager
async def running(options: ProviderOptions) -> AsyncIterator[RunningProvider]:
    """Be a fake provider inside the block."""
    registry = CollectorRegistry()
    provider = FakeProvider(options, registry)
    provider.seed(read_fleet(options.fleet))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(provider.lifecycle)
        server = grpc.aio.server(options=[*GRPC_OPTIONS, ("grpc.so_reuseport", 0)])
        provider_pb2_grpc.add_CapacityProviderServicer_to_server(provider.service, server)
        phonehome_pb2_grpc.add_PhoneHomeServicer_to_server(provider.phone_home, server)
        if options.tls_dir is None:
            port = server.add_insecure_port(options.listen)
        else:
            port = server.add_secure_port(options.listen, server_credentials(options.tls_dir))
        await server.start()
        stack.push_async_callback(server.stop, _STOP_GRACE_SECONDS)
        stack.callback(provider.phone_home.stop)
        metrics = await daemon.serve_metrics(options.metrics_addr, registry)
        stack.push_async_callback(metrics.cleanup)
        phase = RunPhase()
        loops = [daemon.watch_loop_lag(registry), provider.losses.run(phase)]
        if options.service_account_dir and options.run_config_map:
            loops.append(phase.follow(options.service_account_dir, options.namespace, options.run_config_map))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for loop in loops:
            stack.callback(group.create_task(loop).cancel)
        log.info("provider listens", listen=options.listen, port=port, machines=len(provider.inventory))
        yield RunningProvider(port, metrics.addresses[0][1], phase)


async def serve(options: ProviderOptions) -> None:
    """Be a fake provider until cancelled."""
    async with running(options):
        await asyncio.get_running_loop().create_future()
