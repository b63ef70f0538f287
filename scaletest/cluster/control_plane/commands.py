"""What a KWOK cluster's control plane is told that the host's is not, as it was measured on embedded hosts."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from scaletest.components import apiserver, controller_manager, etcd, kine, kwok, scheduler
from scaletest.components.apiserver import ApiserverSettings
from scaletest.components.component import Component, Plane
from scaletest.components.controller_manager import ControllerManagerSettings
from scaletest.components.etcd import EtcdSettings
from scaletest.components.kwok import KwokSettings
from scaletest.components.scheduler import SchedulerSettings
from scaletest.errors import ScaletestError
from scaletest.supervise.command import Command

KWOK_CONFIG = Path(__file__).with_name("kwok_stages.yaml")
STORAGES = (etcd.NAME, kine.NAME)

# Collect garbage when the heap has grown by half, not when it has doubled: 0.9 instead of 1.3 GB for a cluster of 2,500
# Pods, for 8 % more CPU time (tests/bench/cluster/demand.py).
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
# Requests in a second, and at once: the scheduler binds fast.
_SCHEDULER_QPS = 200
_SCHEDULER_BURST = 400

_HINT = "set SCALETEST_TOOLS to a folder that holds it"
_HINTS = {"kine": "add kine to your image, as none of ours holds it, or set the substrate's cluster.storage to etcd"}


def tool(name: str) -> str:
    """Where the binary is: in the folder SCALETEST_TOOLS, else on PATH."""
    folders = [os.environ.get("SCALETEST_TOOLS", ""), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    if not found:
        raise ScaletestError(f"{name} is not on PATH", hint=_HINTS.get(name, _HINT))
    return found


def command(component: Component) -> Command:
    """How to start it from where its binary is. Raises ScaletestError if there is none."""
    return component.command(tool(component.name))


def storage(plane: Plane, kind: str) -> Component:
    """What keeps the cluster's objects: `etcd`, or `kine` if the image has it."""
    if kind == kine.NAME:
        return kine.build(plane)
    # Entries are kept in memory for followers, and there are none.
    settings = EtcdSettings(member_name="kwok", quota_bytes=_ETCD_QUOTA_BYTES, catchup_entries=100)
    return _frugal(etcd.build(plane, settings))


def api(plane: Plane, storage: str, memory_mib: int, extra: tuple[str, ...]) -> Component:
    settings = ApiserverSettings(
        # A client with a certificate of this cluster may do everything; other clients may do nothing.
        authorization_mode="AlwaysAllow",
        admission_off=_ADMISSION_OFF,
        storage_socket=kine.socket_of(plane) if storage == kine.NAME else None,
        gates_off=_GATES_OFF,
        metrics_off=_METRICS_OFF,
        apis_off=_APIS_OFF,
        queues_requests=False,
        polls_storage=False,
        event_ttl=_EVENT_TTL,
        extra_flags=extra,
    )
    return _frugal(apiserver.build(plane, settings), GOMEMLIMIT=f"{memory_mib}MiB")


def kubelets(plane: Plane, node_lease_seconds: int) -> Component:
    return _frugal(kwok.build(plane, KwokSettings(KWOK_CONFIG, node_lease_seconds)))


def controllers(plane: Plane) -> Component:
    settings = ControllerManagerSettings(_CONTROLLERS, qps=_CONTROLLER_QPS, burst=_CONTROLLER_QPS)
    return _frugal(controller_manager.build(plane, settings))


def scheduling_settings(config_file: Path, pod_max_backoff_seconds: int = 0) -> SchedulerSettings:
    return SchedulerSettings(
        _SCHEDULER_QPS, _SCHEDULER_BURST, config_file, pod_max_backoff_seconds, gates_off=(_NO_DEVICES,)
    )


def scheduling(plane: Plane, settings: SchedulerSettings) -> Component:
    return replace(_frugal(scheduler.build(plane, settings)), nice=5)


def _frugal(component: Component, **env: str) -> Component:
    return replace(component, env={**env, **_FRUGAL})
