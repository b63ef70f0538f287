"""The coordinator process: an etcd member, the leadership over it, and the RPCs."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.domainsfile import read_domains_file
from bigfleet.coordinator.etcd_client import EtcdClient, EtcdUnavailable
from bigfleet.coordinator.handing_out import Wanted
from bigfleet.coordinator.health import HealthService
from bigfleet.coordinator.known import SILENT_SECONDS
from bigfleet.coordinator.leadership import Leadership
from bigfleet.coordinator.member import MemberOptions, beat, fail_when_it_ends, kept, make_client_tls, start
from bigfleet.coordinator.membership import Announcement, find_a_way_in
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.reported import KeptReports
from bigfleet.coordinator.service import CoordinatorService
from bigfleet.coordinator.snapshots import Exporting
from bigfleet.coordinator.store import Deposed
from bigfleet.core.labels import check_label_key
from bigfleet.process import daemon
from bigfleet.process.files import held
from bigfleet.rpc.malformed import RefuseMalformed
from bigfleet.security import GRPC_OPTIONS, Identity, listen
from bigfleet.security.choice import check_choice
from bigfleet.security.files import IdentityFiles
from bigfleet.security.renewal import Renewal, keep_renewed

_HEARTBEAT_SAVE_SECONDS = 4.0
_STOP_GRACE_SECONDS = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CoordinatorOptions:
    """One of the coordinators. Addresses are `host:port`."""

    listen: str = "127.0.0.1:7790"
    """Where the RPCs are answered."""
    advertise_addr: str | None = None
    """Where clients and the other coordinators find them; None: where we listen."""
    metrics_addr: str = ":8790"
    """Of /metrics, /healthz and /readyz; 0 = nowhere."""
    id: str = "node-1"
    """Name of this coordinator and of its etcd member."""
    data_dir: Path = Path("coord-data")
    """The etcd member's data lives below it; losing it loses this member's copy of the state."""
    etcd_binary: str = "etcd"
    """Path of etcd, or a name to find on PATH."""
    etcd_client_addr: str = "127.0.0.1:7792"
    """Where the member listens for this coordinator alone."""
    etcd_peer_addr: str = "127.0.0.1:7791"
    """Where the member listens for the other members."""
    initial_cluster: str | None = None
    """`id=host:port,…` of all members, as they find each other; None: this one alone."""
    join_addr: str | None = None
    """`host:port,…` where all coordinators answer RPCs; one that lost its data asks there to be let in."""
    snapshot_export_dir: Path | None = None
    """The leader keeps copies of the state here; None: it does not."""
    snapshot_export_interval_seconds: float = 300.0
    """Between two copies."""
    domains_file: Path | None = None
    """Which shard is to own which domain: a JSON list of {"key", "value", "shard"}. The leader records those that
    nobody was ever recorded for; None: it assigns what it is told to."""
    assign_by: str = ""
    """The leader itself assigns the domains of this topology key, such as topology.kubernetes.io/zone; empty: none."""
    assign_after_seconds: float = SILENT_SECONDS
    """So long after their founding, the coordinators assign nothing: after a loss of all their data, shards may have
    domains that they know nothing of yet."""
    tls_dir: Path | None = None
    """Directory of this coordinator's identity: tls.crt, tls.key, ca.crt."""
    plaintext: bool = False
    """Without any TLS, and so without any check of the callers; only for trying things out."""

    renewal: Renewal = field(default_factory=Renewal)

    def __post_init__(self) -> None:
        check_choice(self.tls_dir, self.plaintext)
        if len(self.member_options().first_members) > 1 and not self.join_addr:
            raise ValueError("initial_cluster names other members: give join_addr too, so that they can let us in")
        if not self.snapshot_export_interval_seconds > 0:
            raise ValueError("snapshot_export_interval_seconds must be above 0")
        if self.assign_by:
            check_label_key(self.assign_by)

    def member_options(self) -> MemberOptions:
        return MemberOptions(
            name=self.id,
            data_dir=self.data_dir,
            binary=self.etcd_binary,
            client_addr=self.etcd_client_addr,
            peer_addr=self.etcd_peer_addr,
            initial_cluster=self.initial_cluster,
            tls_dir=self.tls_dir,
        )


async def serve(options: CoordinatorOptions) -> None:
    """Run the member and the coordinator until cancelled; the death of the member ends both."""
    _check_what_is_needed(options)
    planned = read_domains_file(options.domains_file) if options.domains_file else {}
    wanted = Wanted(planned, options.assign_by, options.assign_after_seconds)
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    member_options = options.member_options()
    async with AsyncExitStack() as stack:
        stack.enter_context(held(options.data_dir))
        make_client_tls(member_options)
        member = await stack.enter_async_context(kept())
        client = await stack.enter_async_context(EtcdClient(options.etcd_client_addr, member_options.client_tls_dir))
        leadership = Leadership(client, options.advertise_addr or options.listen, metrics, wanted)
        KeptReports(registry, lambda: leadership.tenure.shards if leadership.tenure else {})
        announcement = Announcement(options.id)
        http = await daemon.serve_metrics(options.metrics_addr, registry, lambda: leadership.ready)
        stack.push_async_callback(http.cleanup)
        server = grpc.aio.server(
            interceptors=[RefuseMalformed(metrics.refuse_malformed)],
            options=[*GRPC_OPTIONS, ("grpc.so_reuseport", 0)],
        )
        scheme = "https" if options.tls_dir else "http"
        service = CoordinatorService(leadership, announcement, client, scheme, metrics.shard_reports)
        rpc.add_CoordinatorServicer_to_server(service, server)
        health = HealthService(server)
        listen(server, options.listen, options.tls_dir, Identity("coordinator", options.id))
        # The RPCs come before the member: peers that start with us ask what we have.
        await server.start()
        stack.push_async_callback(server.stop, _STOP_GRACE_SECONDS)
        log.info("coordinator serving", listen=options.listen, id=options.id)
        joining = await find_a_way_in(member_options, (options.join_addr or "").split(","), announcement)
        start(member, member_options, joining)
        loops = [
            fail_when_it_ends(member),
            beat(member),
            leadership.follow(),
            _settle(announcement, leadership),
            _save_heartbeats(leadership),
            health.follow(lambda: leadership.ready),
            daemon.watch_loop_lag(registry),
        ]
        if options.tls_dir and options.renewal.issuer_addr:
            loops.append(keep_renewed(options.tls_dir, options.renewal, registry))
        if options.snapshot_export_dir:
            exporting = Exporting(options.snapshot_export_dir, options.snapshot_export_interval_seconds)
            loops.append(exporting.run(client, lambda: leadership.tenure is not None))
        await daemon.forever(*loops)


def _check_what_is_needed(options: CoordinatorOptions) -> None:
    if shutil.which(options.etcd_binary) is None:
        raise daemon.CannotStart(f"there is no {options.etcd_binary!r} here", "say where etcd is with --etcd-binary")
    if options.tls_dir:
        try:
            IdentityFiles.read(options.tls_dir)
        except OSError as error:
            raise daemon.CannotStart(
                f"{error.filename}: {error.strerror}", "make one with `bigfleet certs issue`"
            ) from error


async def _settle(announcement: Announcement, leadership: Leadership) -> None:
    """A founder is a member like any other once the group has had a leader."""
    while announcement.state != "member":
        if leadership.ready:
            announcement.state = "member"
        await asyncio.sleep(0.1)


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
