"""The command lines of a KWOK cluster's five processes, with the settings that embedded hosts were measured with."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaletest.cluster.control_plane.pki import Pki
from scaletest.errors import ScaletestError
from scaletest.supervise.command import Command

ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
API_PORT = 6443
CONTROLLER_MANAGER_PORT = 10257
SCHEDULER_PORT = 10259
KWOK_PORT = 10247

KWOK_CONFIG = Path(__file__).with_name("kwok_stages.yaml")

# Collect garbage when the heap has grown by half, not when it has doubled: 0.9 instead of 1.3 GB for a cluster of 2,500
# Pods, for 8 % more CPU time (tests/bench/demand.py).
_FRUGAL = {"GOGC": "50"}

_ETCD_QUOTA_BYTES = 8 * 1024**3
_EVENT_TTL = "10m"

# Priority off lets a Pod carry a bare integer; TaintNodesByCondition off, because no node-lifecycle controller would
# ever remove its taint; ServiceAccount off, because no ServiceAccount exists. The others judge nothing here.
_ADMISSION_OFF = (
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)

# Each type that is served costs half a megabyte here and a connection to etcd. policy/v1 stays: the operator evicts. So
# do apps, events and what the scheduler's plugins watch. Webhooks and policies are not asked, devices not allocated.
_APIS_OFF = (
    "admissionregistration.k8s.io/v1",
    "api/beta",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "node.k8s.io/v1",
    "resource.k8s.io/v1",
)

# Else the scheduler waits for the types of resource.k8s.io.
_NO_DEVICES = "DynamicResourceAllocation"

# What costs an idle apiserver work, and judges or serves nothing here: list sizes for a fairness that is off, checks of
# the watch cache against etcd, a lease that tells apiservers apart.
_GATES_OFF = ("APIServerIdentity", "DetectCacheInconsistency", _NO_DEVICES, "SizeBasedListCostEstimate")

# Two thirds of an apiserver's 13,000 series, which the harness does not read: they would be most of a scrape's cost.
_METRICS_OFF = (
    "apiserver_request_body_size_bytes",
    "apiserver_request_sli_duration_seconds",
    "apiserver_response_sizes",
    "apiserver_watch_cache_read_wait_seconds",
    "apiserver_watch_events_sizes",
    "apiserver_watch_list_duration_seconds",
    "etcd_request_duration_seconds",
)

# Without disruption any PodDisruptionBudget refuses every eviction; without pod-garbage-collector the Pods of a lost
# Node never leave.
_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
)
# Pods are created no faster than this: an unpaced controller-manager starves the other watchers of its apiserver.
_CONTROLLER_QPS = 100


_HINT = "SCALETEST_TOOLS may name a folder that holds it"
_HINTS = {"kine": "no image of ours holds kine: add it to yours, or set the substrate's cluster.storage to etcd"}


def tool(name: str) -> str:
    """Where the binary is: in the folder SCALETEST_TOOLS, else on PATH."""
    folders = [os.environ.get("SCALETEST_TOOLS", ""), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    if not found:
        raise ScaletestError(f"{name} is not on PATH", hint=_HINTS.get(name, _HINT))
    return found


@dataclass(frozen=True)
class Site:
    """Where one KWOK cluster lives: its address, its folder, its certificates."""

    pod_ip: str
    shared_dir: Path
    pki: Pki

    @property
    def api_url(self) -> str:
        return api_url(self.pod_ip)

    @property
    def etcd_url(self) -> str:
        return f"https://{_host(self.pod_ip)}:{ETCD_PORT}"

    @property
    def kine_socket(self) -> Path:
        return self.shared_dir / "kine.sock"

    @property
    def controller_manager_url(self) -> str:
        return f"https://{_host(self.pod_ip)}:{CONTROLLER_MANAGER_PORT}"

    @property
    def scheduler_url(self) -> str:
        return f"https://{_host(self.pod_ip)}:{SCHEDULER_PORT}"

    @property
    def kwok_url(self) -> str:
        return f"http://{_host(self.pod_ip)}:{KWOK_PORT}"


def api_url(pod_ip: str) -> str:
    return f"https://{_host(pod_ip)}:{API_PORT}"


def _host(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def storage(site: Site, kind: str) -> Command:
    """What keeps the cluster's objects: `etcd`, or `kine` if the image has it."""
    return _STORAGES[kind](site)


def etcd(site: Site) -> Command:
    pki, files, peer_url = site.pki, site.pki.files("etcd"), f"https://{_host(site.pod_ip)}:{ETCD_PEER_PORT}"
    tls = {"cert-file": files.certificate, "key-file": files.key, "trusted-ca-file": pki.etcd_ca}
    return _command(
        "etcd",
        {
            "name": "kwok",
            "data-dir": site.shared_dir / "etcd",
            "listen-client-urls": site.etcd_url,
            "advertise-client-urls": site.etcd_url,
            "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url,
            "initial-cluster": f"kwok={peer_url}",
            "client-cert-auth": True,
            "peer-client-cert-auth": True,
            **tls,
            **{f"peer-{flag}": value for flag, value in tls.items()},
            # The data outlives the process, not the pod: fsync would buy nothing.
            "unsafe-no-fsync": True,
            "quota-backend-bytes": _ETCD_QUOTA_BYTES,
            # Kept in memory for followers, and there are none.
            "snapshot-catchup-entries": 100,
            "log-level": "warn",
        },
        env=_FRUGAL,
    )


def kine(site: Site) -> Command:
    """etcd's API on SQLite. It asks no client for a certificate, so it listens where only we can dial: on a file."""
    database = site.shared_dir / "kine.db"
    site.kine_socket.unlink(missing_ok=True)  # a kine that was killed may have left it
    return _command(
        "kine",
        {
            "listen-address": f"unix://{site.kine_socket}",
            "endpoint": f"sqlite://{database}?_journal=WAL&cache=shared&_sync=OFF",
            "metrics-bind-address": 0,
        },
    )


_STORAGES: dict[str, Callable[[Site], Command]] = {"etcd": etcd, "kine": kine}
STORAGES = tuple(_STORAGES)


def apiserver(site: Site, storage: str, memory_mib: int, extra: tuple[str, ...]) -> Command:
    pki = site.pki
    dial = (
        {"etcd-servers": f"unix://{site.kine_socket}"}
        if storage == "kine"
        else {
            "etcd-servers": site.etcd_url,
            "etcd-cafile": pki.etcd_ca,
            "etcd-certfile": pki.files("etcd-client").certificate,
            "etcd-keyfile": pki.files("etcd-client").key,
        }
    )
    command = _command(
        "kube-apiserver",
        {
            "bind-address": site.pod_ip,
            "advertise-address": site.pod_ip,
            "secure-port": API_PORT,
            "endpoint-reconciler-type": "none",
            **dial,
            "tls-cert-file": pki.files("kube-apiserver").certificate,
            "tls-private-key-file": pki.files("kube-apiserver").key,
            "client-ca-file": pki.ca,
            # A client with a certificate of this cluster may do everything; other clients may do nothing.
            "authorization-mode": "AlwaysAllow",
            "anonymous-auth": False,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": pki.service_account_key,
            "service-account-signing-key-file": pki.service_account_key,
            "disable-admission-plugins": ",".join(_ADMISSION_OFF),
            "feature-gates": ",".join(f"{gate}=false" for gate in _GATES_OFF),
            "disabled-metrics": ",".join(_METRICS_OFF),
            "runtime-config": ",".join(f"{api}=false" for api in _APIS_OFF),
            "enable-priority-and-fairness": False,
            "max-requests-inflight": 0,
            "max-mutating-requests-inflight": 0,
            "profiling": False,
            "etcd-count-metric-poll-period": 0,
            "etcd-db-metric-poll-interval": 0,
            "event-ttl": _EVENT_TTL,
        },
        env={"GOMEMLIMIT": f"{memory_mib}MiB", **_FRUGAL},
    )
    return Command(command.name, (*command.argv, *extra), command.env)


def kwok(site: Site, node_lease_seconds: int) -> Command:
    return _command(
        "kwok",
        {
            "kubeconfig": site.pki.kubeconfig("kwok"),
            "config": KWOK_CONFIG,
            "manage-all-nodes": True,
            "node-lease-duration-seconds": node_lease_seconds,
            "server-address": f"{_host(site.pod_ip)}:{KWOK_PORT}",
            "v": "WARN",
        },
        env=_FRUGAL,
    )


def controller_manager(site: Site) -> Command:
    return _command(
        "kube-controller-manager",
        {
            "kubeconfig": site.pki.kubeconfig("kube-controller-manager"),
            "controllers": ",".join(_CONTROLLERS),
            "leader-elect": False,
            "kube-api-qps": _CONTROLLER_QPS,
            "kube-api-burst": _CONTROLLER_QPS,
            "profiling": False,
            **_serving(site, "kube-controller-manager", CONTROLLER_MANAGER_PORT),
        },
        env=_FRUGAL,
    )


def scheduler(site: Site, config: Path) -> Command:
    flags = {
        "config": config,
        "feature-gates": f"{_NO_DEVICES}=false",
        **_serving(site, "kube-scheduler", SCHEDULER_PORT),
    }
    return _command("kube-scheduler", flags, env=_FRUGAL, nice=5)


def scheduler_configuration(site: Site, pod_max_backoff_seconds: int = 0) -> dict[str, Any]:
    """The real scheduler, binding fast and packing densely; its back-off stays Kubernetes' own unless one is given."""
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": pod_max_backoff_seconds}
    return {
        **(backoff if pod_max_backoff_seconds else {}),
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(site.pki.kubeconfig("kube-scheduler")), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                            }
                        },
                    }
                ],
            }
        ],
    }


def _serving(site: Site, name: str, port: int) -> dict[str, Any]:
    """HTTPS that shows its metrics to system:masters of our CA and to no other client."""
    return {
        "bind-address": site.pod_ip,
        "secure-port": port,
        "tls-cert-file": site.pki.files(name).certificate,
        "tls-private-key-file": site.pki.files(name).key,
        "client-ca-file": site.pki.ca,
    }


def _command(name: str, flags: dict[str, Any], *, env: dict[str, str] | None = None, nice: int = 0) -> Command:
    rendered = [f"--{flag}={_text(value)}" for flag, value in flags.items()]
    return Command(name, (tool(name), *rendered), env or {}, nice)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
