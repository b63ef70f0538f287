"""The coordinator process: an etcd member, the leadership over it, and the RPCs."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog
from prometheus_client import CollectorRegistry

from bigfleet import daemon
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.etcd import EtcdClient, EtcdUnavailable
from bigfleet.coordinator.leadership import Leadership
from bigfleet.coordinator.member import MemberOptions, fail_when_it_ends, running
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.service import CoordinatorService
from bigfleet.coordinator.store import Deposed
from bigfleet.security import GRPC_OPTIONS, server_credentials

_HEARTBEAT_SAVE_SECONDS = 4.0
_STOP_GRACE_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CoordinatorOptions:
    """Addresses are `host:port`."""

    listen: str = "127.0.0.1:7790"
    metrics_addr: str = ":8790"
    id: str = "node-1"
    """Name of this coordinator and of its etcd member."""
    data_dir: Path = Path("coord-data")
    """The etcd member's data lives below it; losing it loses this member's copy of the state."""
    etcd_binary: str = "etcd"
    """Path of etcd, or a name to find on PATH."""
    etcd_client_addr: str = "127.0.0.1:7792"
    """Where the member listens for this coordinator alone."""
    etcd_peer_addr: str = "127.0.0.1:7791"
    initial_cluster: str | None = None
    """`id=host:port,…` of all members at installation; None: this one alone."""
    tls_dir: Path | None = None
    """Directory of this coordinator's identity; None is plaintext, without any check."""


async def serve(options: CoordinatorOptions) -> None:
    """Run the member and the coordinator until cancelled; the death of the member ends both."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    client = EtcdClient(options.etcd_client_addr, options.tls_dir)
    leadership = Leadership(client, metrics)
    http = await daemon.serve_metrics(options.metrics_addr, registry, lambda: leadership.ready)
    try:
        async with running(_member_options(options)) as member, client:
            server = _grpc_server(options, leadership)
            await server.start()
            log.info("coordinator serving", listen=options.listen, id=options.id)
            try:
                await daemon.forever(
                    fail_when_it_ends(member),
                    leadership.follow(),
                    _save_heartbeats(leadership),
                    daemon.watch_loop_lag(registry),
                )
            finally:
                await server.stop(_STOP_GRACE_SECONDS)
    finally:
        await http.cleanup()


async def _save_heartbeats(leadership: Leadership) -> None:
    while True:
        await asyncio.sleep(_HEARTBEAT_SAVE_SECONDS)
        if leadership.tenure is None:
            continue
        try:
            await leadership.tenure.save_heartbeats()
        except Deposed:
            leadership.resign()
        except EtcdUnavailable as error:
            log.warning("heartbeats not saved", error=str(error))


def _grpc_server(options: CoordinatorOptions, leadership: Leadership) -> grpc.aio.Server:
    server = grpc.aio.server(options=GRPC_OPTIONS)
    rpc.add_CoordinatorServicer_to_server(CoordinatorService(leadership), server)
    if options.tls_dir:
        server.add_secure_port(options.listen, server_credentials(options.tls_dir))
    else:
        server.add_insecure_port(options.listen)
    return server


def _member_options(options: CoordinatorOptions) -> MemberOptions:
    return MemberOptions(
        name=options.id,
        data_dir=options.data_dir / "etcd",
        binary=options.etcd_binary,
        client_addr=options.etcd_client_addr,
        peer_addr=options.etcd_peer_addr,
        initial_cluster=options.initial_cluster,
        tls_dir=options.tls_dir,
    )
