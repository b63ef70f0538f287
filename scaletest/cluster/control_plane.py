"""The supervisor of container `apiserver`: a whole Kubernetes control plane with kwok as its kubelets."""

from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import structlog
import yaml
from prometheus_client import CollectorRegistry

from bigfleet import daemon
from bigfleet.files import write_file
from bigfleet.kube import KubeClient
from bigfleet.kube.resources import CRDS
from scaletest.cluster import flags
from scaletest.cluster.canary import fly_canary
from scaletest.cluster.children import Children
from scaletest.cluster.endpoints import Endpoints
from scaletest.cluster.pki import ensure_pki
from scaletest.cluster.polling import poll
from scaletest.cluster.reexport import ReExport

READY_MARKER = "apiserver-ready"
_CANARY_MARKER = "canary-bound"

_ETCD_SECONDS = 15
_API_SECONDS = 60
_CRDS_SECONDS = 30
_CONTROLLERS_SECONDS = 60
_CANARY_SECONDS = 60

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ControlPlaneOptions:
    """How to run one cluster's control plane."""

    # Everything binds this address.
    pod_ip: str
    # Certificates, admin.kubeconfig, etcd's data and the ready marker; shared with container `workload`.
    shared_dir: Path
    metrics_addr: str
    # 0: kwok keeps no Node leases, which are most of an idle cluster's work.
    node_lease_seconds: int = 0
    # The apiserver's soft memory limit; below its live heap (about 400 MiB at 2,500 Pods) it burns CPU.
    apiserver_memory_mib: int = 400
    # Passed to kube-apiserver as it is (the substrate's apiserver.extraFlags); may be repeated.
    apiserver_extra_flag: tuple[str, ...] = ()


async def serve(options: ControlPlaneOptions) -> None:
    """Bring the control plane up, say so, and keep it; ends with ChildDied when any part of it dies."""
    options.shared_dir.mkdir(parents=True, exist_ok=True)
    marker = options.shared_dir / READY_MARKER
    marker.unlink(missing_ok=True)  # a former life of this container may have left it
    api_url = flags.api_url(options.pod_ip)
    pki = ensure_pki(options.shared_dir / "certs", options.shared_dir / "admin.kubeconfig", options.pod_ip, api_url)
    site = flags.Site(options.pod_ip, options.shared_dir, pki)

    registry = CollectorRegistry()
    metrics = await daemon.serve_metrics(options.metrics_addr, registry, ready=marker.exists)
    try:
        async with Endpoints(site) as endpoints, Children() as children:
            exporter = ReExport(endpoints, children)
            registry.register(exporter)
            await _bring_up(options, site, endpoints, children)
            marker.touch()
            log.info("control plane is ready", server=site.api_url)
            await children.during(daemon.forever(exporter.run(), daemon.watch_loop_lag(registry)))
    finally:
        marker.unlink(missing_ok=True)
        await metrics.cleanup()


async def _bring_up(options: ControlPlaneOptions, site: flags.Site, endpoints: Endpoints, children: Children) -> None:
    await children.start(flags.etcd(site))
    await children.until(partial(endpoints.answer, f"{site.etcd_url}/readyz"), "etcd ready", _ETCD_SECONDS)
    await children.start(flags.apiserver(site, options.apiserver_memory_mib, options.apiserver_extra_flag))
    await children.until(partial(endpoints.answer, f"{site.api_url}/readyz"), "kube-apiserver ready", _API_SECONDS)

    async with KubeClient(site.pki.admin(), user_agent="scaletest-control-plane") as client:
        await children.within(_CRDS_SECONDS, "CRDs established", apply_crds(client))

        config = options.shared_dir / "scheduler.yaml"
        write_file(config, yaml.safe_dump(flags.scheduler_configuration(site)).encode(), mode=0o600)
        await children.start(flags.kwok(site, options.node_lease_seconds))
        await children.start(flags.controller_manager(site))
        await children.start(flags.scheduler(site, config))
        for name, url in (
            ("kwok", f"{site.kwok_url}/healthz"),
            ("kube-controller-manager", f"{site.controller_manager_url}/healthz"),
            ("kube-scheduler", f"{site.scheduler_url}/readyz"),
        ):
            await children.until(partial(endpoints.answer, url), f"{name} ready", _CONTROLLERS_SECONDS)

        # Once per life of the cluster: a canary among BigFleet's Pods would be demand.
        bound = options.shared_dir / _CANARY_MARKER
        if not bound.exists():
            await children.within(_CANARY_SECONDS, "canary Pod bound and running", fly_canary(client))
            bound.touch()


async def apply_crds(client: KubeClient) -> None:
    """Install BigFleet's CRDs and return when the apiserver serves them. Safe to repeat."""
    folder = resources.files("bigfleet.api") / "crds"
    documents = [yaml.safe_load(path.read_text()) for path in folder.iterdir() if path.name.endswith(".yaml")]
    for document in documents:
        await client.patch(CRDS, document["metadata"]["name"], document, kind="apply", field_manager="scaletest")
    for document in documents:
        await poll(partial(_established, client, document["metadata"]["name"]))


async def _established(client: KubeClient, name: str) -> bool:
    crd = await client.get(CRDS, name)
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
