"""Which certificate a pod is entitled to, judged by its reviewed token and its own object in the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bigfleet.errors import BigFleetError
from bigfleet.security.identity import Identity

AUDIENCE = "bigfleet-issuer"
ISSUER_NAME = "issuer.bigfleet"
ENROL_PATH = "/v1/enroll"

# A pod is what its ServiceAccount says it is; nothing the pod sends can change that.
KIND_OF_SERVICE_ACCOUNT: Mapping[str, str] = {
    "bigfleet-shard": "shard",
    "bigfleet-provider": "provider",
    "bigfleet-coordinator": "coordinator",
    "kwok-cluster": "cluster",
    "prometheus": "prometheus",
    "grafana": "grafana",
}

_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_CLUSTER_DOMAIN = "cluster.local"


class NotEntitled(BigFleetError):
    """The token or its pod gets no certificate, for this reason."""


class NotYet(BigFleetError):
    """The pod will be entitled once the API knows more about it: ask again."""


@dataclass(frozen=True)
class BoundPod:
    """The pod that a valid token is bound to, and the identity that follows from its ServiceAccount."""

    name: str
    uid: str
    identity: Identity


def bound_pod(review: Mapping[str, Any], namespace: str) -> BoundPod:
    """Read the status of a TokenReview."""
    if not review.get("authenticated"):
        raise NotEntitled(f"the token is not valid: {review.get('error') or 'not authenticated'}")
    if AUDIENCE not in (review.get("audiences") or ()):
        raise NotEntitled(f"the token is not for the audience {AUDIENCE!r}")
    user = review.get("user") or {}
    match str(user.get("username", "")).split(":"):
        case ["system", "serviceaccount", token_namespace, account]:
            pass
        case _:
            raise NotEntitled("the token belongs to no ServiceAccount")
    if token_namespace != namespace:
        raise NotEntitled(f"the token is from namespace {token_namespace!r}, this run lives in {namespace!r}")
    kind = KIND_OF_SERVICE_ACCOUNT.get(account)
    if kind is None:
        raise NotEntitled(f"ServiceAccount {account!r} has no identity in a run")
    extra = user.get("extra") or {}
    name, uid = (next(iter(extra.get(key) or ()), "") for key in (_POD_NAME, _POD_UID))
    if not name or not uid:
        raise NotEntitled("the token is not bound to a pod")
    return BoundPod(name, uid, Identity(kind, name))


@dataclass(frozen=True)
class HostNames:
    """What a server certificate must say so that clients find it under each of its addresses."""

    dns: tuple[str, ...]
    ips: tuple[str, ...]


def host_names(bound: BoundPod, pod: Mapping[str, Any]) -> HostNames:
    """The names and addresses of a pod, from its object."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    if metadata["uid"] != bound.uid:
        raise NotEntitled(f"the token is of an earlier pod named {bound.name!r}")
    addresses = [entry["ip"] for entry in status.get("podIPs") or ()] or [status.get("podIP")]
    ips = tuple(address for address in addresses if address)
    if not ips:
        raise NotYet(f"pod {bound.name!r} has no address yet")
    dns = [f"{bound.identity.kind}.bigfleet"]
    if subdomain := spec.get("subdomain"):
        host = f"{spec.get('hostname') or bound.name}.{subdomain}"
        service = f"{host}.{metadata['namespace']}.svc"
        dns += [host, service, f"{service}.{_CLUSTER_DOMAIN}"]
    return HostNames(tuple(dns), ips)
