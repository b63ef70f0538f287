"""kube-apiserver: the only one of its control plane, with its clients known by certificates alone."""

from dataclasses import dataclass
from pathlib import Path

from scaletest.components import etcd
from scaletest.components.component import Component, Plane, rendered, switched_off
from scaletest.components.pki import ETCD_CLIENT

NAME = "kube-apiserver"
PORT = 6443
# The pair of files with which an apiserver dials kubelets.
TO_KUBELET = "apiserver-to-kubelet"


@dataclass(frozen=True)
class ApiserverSettings:
    """What the harness's apiservers do not have in common. An empty field leaves Kubernetes' own default."""

    authorization_mode: str
    admission_off: tuple[str, ...]
    # A socket that speaks etcd's API without certificates; None: the etcd of the same plane.
    storage_socket: Path | None = None
    # Where Services get their addresses from.
    service_range: str | None = None
    # Whether there are kubelets to dial, for logs, exec and port-forward.
    dials_kubelets: bool = False
    gates_off: tuple[str, ...] = ()
    metrics_off: tuple[str, ...] = ()
    apis_off: tuple[str, ...] = ()
    # False: every request is served at once, in no queue and without a limit.
    queues_requests: bool = True
    # False: it does not count its storage's keys and bytes now and then.
    polls_storage: bool = True
    event_ttl: str | None = None
    # Passed on as they are, behind all others, so that they win.
    extra_flags: tuple[str, ...] = ()


def url(plane: Plane) -> str:
    return plane.url(PORT)


def build(plane: Plane, settings: ApiserverSettings) -> Component:
    pki, files = plane.pki, plane.pki.files(NAME)
    flags = {
        "bind-address": plane.address,
        "advertise-address": plane.address,
        "secure-port": PORT,
        # Its own endpoint may be a loopback address, which EndpointSlices refuse.
        "endpoint-reconciler-type": "none",
        **_storage(plane, settings.storage_socket),
        "tls-cert-file": files.certificate,
        "tls-private-key-file": files.key,
        "client-ca-file": pki.ca,
        "authorization-mode": settings.authorization_mode,
        "anonymous-auth": False,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki.service_account_key,
        "service-account-signing-key-file": pki.service_account_key,
        "service-cluster-ip-range": settings.service_range,
        **(_kubelets(plane) if settings.dials_kubelets else {}),
        "disable-admission-plugins": settings.admission_off,
        "feature-gates": switched_off(settings.gates_off),
        "disabled-metrics": settings.metrics_off,
        "runtime-config": switched_off(settings.apis_off),
        **({} if settings.queues_requests else _UNQUEUED),
        "profiling": False,
        **({} if settings.polls_storage else _UNPOLLED),
        "event-ttl": settings.event_ttl,
    }
    return Component(
        NAME, (*rendered(flags), *settings.extra_flags), f"{plane.url(PORT)}/readyz", f"{plane.url(PORT)}/metrics"
    )


_UNQUEUED: dict[str, object] = {
    "enable-priority-and-fairness": False,
    "max-requests-inflight": 0,
    "max-mutating-requests-inflight": 0,
}
_UNPOLLED: dict[str, object] = {"etcd-count-metric-poll-period": 0, "etcd-db-metric-poll-interval": 0}


def _storage(plane: Plane, socket: Path | None) -> dict[str, object]:
    if socket:
        return {"etcd-servers": f"unix://{socket}"}
    client = plane.pki.files(ETCD_CLIENT)
    return {
        "etcd-servers": plane.url(etcd.CLIENT_PORT),
        "etcd-cafile": plane.pki.etcd_ca,
        "etcd-certfile": client.certificate,
        "etcd-keyfile": client.key,
    }


def _kubelets(plane: Plane) -> dict[str, object]:
    client = plane.pki.files(TO_KUBELET)
    return {
        "kubelet-certificate-authority": plane.pki.ca,
        "kubelet-client-certificate": client.certificate,
        "kubelet-client-key": client.key,
        "kubelet-preferred-address-types": "InternalIP",
    }
