"""The supervisor of container `apiserver`: a whole Kubernetes control plane with kwok as its kubelets."""

from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import aiohttp
import structlog
import yaml
from prometheus_client import CollectorRegistry

from bigfleet.kube import KubeClient
from bigfleet.kube.resources import CRDS
from bigfleet.process import daemon
from bigfleet.process.files import write_file
from bigfleet.process.memory import give_back
from scaletest.cluster.control_plane import commands
from scaletest.cluster.control_plane.canary import fly_canary
from scaletest.cluster.control_plane.reexport import ReExport
from scaletest.cluster.markers import FILL_MARKER, READY_MARKER
from scaletest.components import apiserver, kine, scheduler
from scaletest.components.component import Component, Plane
from scaletest.components.endpoints import Endpoints
from scaletest.components.pki import Pki
from scaletest.supervise.allocator import be_frugal
from scaletest.supervise.child import Child
from scaletest.supervise.children import Children
from scaletest.supervise.forks import in_a_copy
from scaletest.supervise.polling import poll

_CANARY_MARKER = "canary-bound"

_STORAGE_SECONDS = 15
_API_SECONDS = 60
_CRDS_SECONDS = 30
_CONTROLLERS_SECONDS = 60
_CANARY_SECONDS = 60
# How long one process may take to answer a probe or a scrape.
_ANSWER_SECONDS = 5.0
# An apiserver that is told to stop waits for its watches to end; here no client loses anything if it is killed first.
_STOP_GRACE_SECONDS = 1.0

# The one in C reads our CRDs in 5 ms, the one in Python in 190.
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ControlPlaneOptions:
    """How to run one cluster's control plane."""

    pod_ip: str
    """Everything binds this address."""
    shared_dir: Path
    """Certificates, admin.kubeconfig, etcd's data and the ready marker; shared with container `workload`."""
    metrics_addr: str
    """`host:port` of /metrics, /healthz and /readyz; 0 = nowhere."""
    storage: str = "etcd"
    """What keeps the objects: etcd, or kine if the image holds that binary."""
    node_lease_seconds: int = 0
    """0: kwok keeps no Node leases, which are most of an idle cluster's work."""
    apiserver_memory_mib: int = 900
    """The apiserver's soft memory limit; near its live heap (about 450 MiB at 2,500 Pods) it burns CPU."""
    scheduler_pod_max_backoff_seconds: int = 0
    """The longest pause between two attempts to schedule a Pod; 0: Kubernetes' own 10 s. Never lower it to pass a
    gate: it is a lever for density alone."""
    rest_scheduler: bool = False
    """Once the canary is bound, let kube-scheduler rest until the load-driver has bound the first fill. It would
    try every Pod twice, without a node and then too late, and that is much of a fill's work."""
    apiserver_extra_flag: tuple[str, ...] = ()
    """Passed to kube-apiserver as it is (the substrate's apiserver.extraFlags); may be repeated."""

    def __post_init__(self) -> None:
        if self.storage not in commands.STORAGES:
            raise ValueError(f"--storage is {self.storage!r}; it can be {' or '.join(commands.STORAGES)}")


def prepare_plane(options: ControlPlaneOptions) -> Plane:
    """The cluster's place with its certificates. Call it before there is an event loop."""
    be_frugal()
    options.shared_dir.mkdir(parents=True, exist_ok=True)
    pki = Pki(options.shared_dir / "certs", options.shared_dir / "admin.kubeconfig")
    plane = Plane(options.pod_ip, options.shared_dir, pki)

    def issue() -> None:
        from scaletest.cluster.control_plane.issuing import ensure_pki  # `cryptography` is for this one moment

        ensure_pki(plane)

    in_a_copy(issue)
    return plane


@dataclass(frozen=True)
class Parts:
    """The components of one cluster, in the order of their start."""

    storage: Component
    api: Component
    kubelets: Component
    controllers: Component
    scheduler: Component


def prepare_parts(options: ControlPlaneOptions, plane: Plane) -> Parts:
    """What is to be started; the scheduler's configuration is in its place."""
    config_file = options.shared_dir / "scheduler.yaml"
    packing = commands.scheduling_settings(config_file, options.scheduler_pod_max_backoff_seconds)
    write_file(config_file, yaml.safe_dump(scheduler.configuration(plane, packing)).encode(), mode=0o600)
    return Parts(
        commands.storage(plane, options.storage),
        commands.api(plane, options.storage, options.apiserver_memory_mib, options.apiserver_extra_flag),
        commands.kubelets(plane, options.node_lease_seconds),
        commands.controllers(plane),
        commands.scheduling(plane, packing),
    )


async def serve(options: ControlPlaneOptions, plane: Plane) -> None:
    """Bring the control plane up, say so, and keep it; ends with ChildDied when any part of it dies."""
    marker = options.shared_dir / READY_MARKER
    marker.unlink(missing_ok=True)  # an earlier start of this container may have left it
    registry = CollectorRegistry()
    async with aiohttp.ClientSession() as http, Children(stop_grace_seconds=_STOP_GRACE_SECONDS) as children:
        endpoints = Endpoints(plane, http, seconds=_ANSWER_SECONDS)
        parts = prepare_parts(options, plane)
        exporter = ReExport(endpoints, children, (parts.scheduler, parts.api, parts.storage))
        registry.register(exporter)
        metrics = await daemon.serve_metrics(
            options.metrics_addr, registry, ready=marker.exists, refresh=exporter.refresh
        )
        try:
            started = await _bring_up(options, plane, parts, endpoints, children)
            filled = options.shared_dir / FILL_MARKER
            resting = options.rest_scheduler and not filled.exists()
            if resting:
                await children.retire(started)
            give_back()
            marker.touch()
            log.info("control plane is ready", server=apiserver.url(plane))
            if resting:
                await children.during(poll(partial(_is_there, filled)))
                await children.start(commands.command(parts.scheduler))
                log.info("kube-scheduler is back: the first fill is bound")
            await children.during(daemon.watch_loop_lag(registry))
        finally:
            marker.unlink(missing_ok=True)
            await metrics.cleanup()


async def _bring_up(
    options: ControlPlaneOptions, plane: Plane, parts: Parts, endpoints: Endpoints, children: Children
) -> Child:
    """Start everything, in order. Returns kube-scheduler."""

    async def healthy(component: Component, seconds: float) -> None:
        probe = partial(endpoints.healthy, component)
        if component.name == kine.NAME:
            probe = partial(_is_there, kine.socket_of(plane))
        await children.until(probe, f"{component.name} ready", seconds)

    if options.storage == kine.NAME:
        kine.socket_of(plane).unlink(missing_ok=True)  # a kine that was killed may have left it
    await children.start(commands.command(parts.storage))
    # At once: an apiserver works for half a second before it needs its storage, and then waits for it.
    await children.start(commands.command(parts.api))
    await healthy(parts.storage, _STORAGE_SECONDS)
    await healthy(parts.api, _API_SECONDS)

    await children.start(commands.command(parts.kubelets))
    await children.start(commands.command(parts.controllers))
    started = await children.start(commands.command(parts.scheduler))
    async with KubeClient(plane.pki.admin(), user_agent="scaletest-control-plane") as client:
        await children.within(_CRDS_SECONDS, "CRDs established", apply_crds(client))
        for component in (parts.kubelets, parts.controllers, parts.scheduler):
            await healthy(component, _CONTROLLERS_SECONDS)

        # Once per life of the cluster: a canary among BigFleet's Pods would be demand.
        bound = options.shared_dir / _CANARY_MARKER
        if not bound.exists():
            await children.within(_CANARY_SECONDS, "canary Pod bound and running", fly_canary(client))
            bound.touch()
    return started


async def _is_there(path: Path) -> bool:
    return path.exists()


async def apply_crds(client: KubeClient) -> None:
    """Install BigFleet's CRDs and return when the apiserver serves them. Safe to repeat."""
    folder = resources.files("bigfleet.api") / "crds"
    documents = [
        yaml.load(path.read_text(), _YAML_LOADER)  # our own files, and a safe loader
        for path in folder.iterdir()
        if path.name.endswith(".yaml")
    ]
    for document in documents:
        await client.patch(CRDS, document["metadata"]["name"], document, kind="apply", field_manager="scaletest")
    for document in documents:
        await poll(partial(_established, client, document["metadata"]["name"]))


async def _established(client: KubeClient, name: str) -> bool:
    crd = await client.get(CRDS, name)
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
