"""The fake provider's process: everything wired together behind one gRPC port and one metrics port."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
from prometheus_client import CollectorRegistry, Counter

from bigfleet.api.v1alpha1 import faults_pb2_grpc, ledger_pb2_grpc, phonehome_pb2_grpc
from bigfleet.core.machines import MachineState
from bigfleet.provider.fake.backend import FakeBackend
from bigfleet.provider.fake.faults import FaultInjector, Faults
from bigfleet.provider.fake.fleet_file import SeededMachines, read_fleet
from bigfleet.provider.fake.injection import FaultInjection
from bigfleet.provider.fake.latency import Latencies
from bigfleet.provider.fake.ledger.file import FILE, LedgerFile
from bigfleet.provider.fake.ledger.ledger import Ledger
from bigfleet.provider.fake.ledger.reading import LedgerReading
from bigfleet.provider.fake.ledger.shapes import FleetShapes
from bigfleet.provider.fake.ledger.watching import WatchCalls
from bigfleet.provider.fake.losses import Losses, Strikes
from bigfleet.provider.fake.observing import Observer, Observers
from bigfleet.provider.fake.readiness import PhoneHome, ReadySets
from bigfleet.provider.fake.run_phase import RunPhase
from bigfleet.provider.fake.words import Words
from bigfleet.provider.kit import KitOptions, MachineRecord, ProviderProcess, Timeouts
from bigfleet.provider.kit.process import Loop
from bigfleet.security import Identity, listen
from bigfleet.security.renewal import Renewal

# How often Nodes that have left are judged.
_LOOK_SECONDS = 1.0


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
    data_dir: Path | None = None
    """Directory that remembers machines, fencing marks and transitions; None: a restart begins with the fleet anew."""
    tls_dir: Path | None = None
    """Directory of this process's identity."""
    plaintext: bool = False
    """Without any TLS, and so without any check of the callers; only for trying things out."""
    renewal: Renewal = field(default_factory=Renewal)
    shard_domains: tuple[str, ...] = ()
    """`SHARD:KEY=VALUE`: List sends this shard only machines of its domains; a shard without any is sent all."""
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
    also_listen: tuple[str, ...] = ()
    """More addresses of the gRPC server: a port-forward arrives on the pod's loopback."""
    check_blobs: bool = True
    """Whether a bootstrap blob must name its machine and its cluster; not every template does."""

    def __post_init__(self) -> None:
        for name in ("failure_rate_per_sec", "repair_seconds", "ready_keep_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must not be negative")
        self.kit()  # which checks its own part

    def kit(self) -> KitOptions:
        """The part that any provider has."""
        return KitOptions(
            listen=self.listen,
            metrics_addr=self.metrics_addr,
            id=self.id,
            data_dir=self.data_dir,
            tls_dir=self.tls_dir,
            plaintext=self.plaintext,
            renewal=self.renewal,
            timeouts=self.timeouts,
            shard_domains=self.shard_domains,
        )


class FakeProvider:
    """The parts of one fake provider."""

    def __init__(self, options: ProviderOptions, registry: CollectorRegistry) -> None:
        self._shapes = FleetShapes()
        self.words = Words(self._shapes)
        self.ledger = Ledger(self._shapes, registry, check_blobs=options.check_blobs)
        self._observer = Observers(self.ledger, self.words, _Departures(self, registry))
        self.ready = ReadySets(self._observer)
        self.injector = FaultInjector(options.faults, registry, options.seed)
        backend = FakeBackend(self.ready, options.latencies, self.injector, options.seed, self._observer)
        self.kit = ProviderProcess(options.kit(), backend, registry)
        self.inventory = self.kit.inventory
        self.lifecycle = self.kit.lifecycle
        self.phone_home = PhoneHome(
            self.ready,
            self.words,
            registry,
            keep_seconds=options.ready_keep_seconds,
            on_first_stream=self._expect_nodes,
        )
        self.strikes = Strikes(
            self.inventory,
            self.lifecycle,
            self.ready,
            self.injector,
            repair_seconds=options.repair_seconds,
            observer=self._observer,
        )
        self.losses = Losses(
            self.inventory,
            self.strikes,
            self.injector,
            registry,
            rate_per_second=options.failure_rate_per_sec,
            seed=options.seed,
        )
        self.injection = FaultInjection(self.inventory, self.injector, self.strikes, options.seed)
        self._held: dict[str, list[str]] = {}
        if options.data_dir:  # which is ours alone since the kit has locked it
            self.ledger.open(LedgerFile(options.data_dir / FILE, time.time))

    def seed(self, fleet: SeededMachines) -> None:
        """Describe the machines of a fleet; those that a former life has left go on as they were."""
        self._shapes.add(fleet.machines)
        self.kit.describe(fleet.machines)
        for cluster in fleet.clusters:
            self.phone_home.expect(cluster)
        self.ledger.expect(fleet.clusters)
        self.ledger.recall(self.inventory)
        for state in (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING):
            for machine_id in self.inventory.ids(state):
                self.words.give(self.inventory.get(machine_id))

    def hold(self, machines: list[MachineRecord]) -> None:
        """Bound machines of the fleet wait for their cluster's first word."""
        for machine in machines:
            self._held.setdefault(machine.cluster, []).append(machine.id)

    def _expect_nodes(self, cluster: str) -> None:
        for machine_id in self._held.pop(cluster, ()):
            self._observer.carried_out(machine_id)
            self.lifecycle.release(machine_id)


class _Departures(Observer):
    """Counts the Configured machines whose node has left."""

    def __init__(self, provider: FakeProvider, registry: CollectorRegistry) -> None:
        self._provider = provider
        self._count = Counter(
            "bigfleet_provider_ready_departures_total",
            "Configured machines whose node left its cluster's Ready set; they stay Configured.",
            registry=registry,
        )

    def departed(self, cluster: str, machine_id: str, gone: bool) -> None:  # noqa: ARG002
        inventory = self._provider.inventory
        if machine_id in inventory.ids(MachineState.CONFIGURED) and inventory.get(machine_id).cluster == cluster:
            self._count.inc()


@dataclass(frozen=True)
class RunningProvider:
    """A provider at work; the ports are the real ones when 0 was asked for."""

    port: int
    metrics_port: int
    phase: RunPhase


@asynccontextmanager
async def running(options: ProviderOptions) -> AsyncIterator[RunningProvider]:
    """Be a fake provider inside the block."""
    provider = FakeProvider(options, CollectorRegistry())
    provider.seed(read_fleet(options.fleet))
    async with serving(provider, options) as running:
        yield running


@asynccontextmanager
async def serving(provider: FakeProvider, options: ProviderOptions) -> AsyncIterator[RunningProvider]:
    """Serve a fake provider inside the block."""
    phase = RunPhase()
    loops: list[Loop] = [
        partial(provider.losses.in_soak, phase),
        provider.losses.by_fault_rates,
        partial(_look_back, provider.ledger),
        partial(provider.ledger.in_soak, phase),
    ]
    if options.service_account_dir and options.run_config_map:
        loops.append(partial(phase.follow, options.service_account_dir, options.namespace, options.run_config_map))
    services = (
        partial(phonehome_pb2_grpc.add_PhoneHomeServicer_to_server, provider.phone_home),
        partial(faults_pb2_grpc.add_FaultInjectionServicer_to_server, provider.injection),
        partial(ledger_pb2_grpc.add_LedgerServicer_to_server, LedgerReading(provider.ledger.file)),
        partial(_listen_also, options),
    )
    serving = provider.kit.serving(
        *services, held=provider.hold, loops=loops, interceptors=[WatchCalls(provider.ledger)]
    )
    try:
        async with serving as kit:
            provider.strikes.repair_what_is_lost()
            try:
                yield RunningProvider(kit.port, kit.metrics_port, phase)
            finally:
                provider.phone_home.stop()
    finally:
        provider.ledger.close()


def _listen_also(options: ProviderOptions, server: grpc.aio.Server) -> None:
    for address in options.also_listen:
        listen(server, address, options.tls_dir, Identity("provider", options.id))


async def _look_back(ledger: Ledger) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LOOK_SECONDS
        await asyncio.sleep(_LOOK_SECONDS)
        ledger.look_back(late_seconds=loop.time() - due)


async def serve(options: ProviderOptions) -> None:
    """Be a fake provider until cancelled."""
    async with running(options):
        gc.freeze()  # machines stay: a collection that walks over all of them would hold every call up
        await asyncio.get_running_loop().create_future()
