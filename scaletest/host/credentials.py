"""Who is who on a host: one certificate per component, signed by the host's own authorities."""

from dataclasses import dataclass
from pathlib import Path

from scaletest.host.addresses import Network
from scaletest.host.pki import Authority, Identity, write_kubeconfig, write_signing_key

NODE_NAME = "embedded"
KUBELET_USER = f"system:node:{NODE_NAME}"
# The only client that the kubelet's log server answers.
APISERVER_AS_KUBELET_CLIENT = "kube-apiserver-kubelet-client"

_APISERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class Credentials:
    """Every certificate, key and kubeconfig of a host."""

    network: Network
    ca: Path
    apiserver: Identity
    controller_manager: Identity
    scheduler: Identity
    kubelet: Identity
    apiserver_to_kubelet: Identity
    service_account_key: Path
    etcd_ca: Path
    etcd: Identity
    etcd_client: Identity
    admin_kubeconfig: Path
    controller_manager_kubeconfig: Path
    scheduler_kubeconfig: Path
    kubelet_kubeconfig: Path


def issue_credentials(directory: Path, network: Network, admin_kubeconfig: Path) -> Credentials:
    """Make all credentials of a host, in `directory`, and the administrator's kubeconfig where the caller wants it."""
    cluster = Authority(directory, "ca")
    # An authority of its own: a certificate that opens the API does not open the database behind it.
    storage = Authority(directory, "etcd-ca")
    address = network.control_plane

    def serving(name: str) -> Identity:
        return cluster.server(name, addresses=[address], names=["localhost"])

    def kubeconfig(name: str, user: str, *groups: str, path: Path | None = None) -> Path:
        identity = cluster.client(f"{name}-client", user, groups)
        return write_kubeconfig(path or directory / f"{name}.kubeconfig", network.apiserver_url, cluster, identity)

    return Credentials(
        network=network,
        ca=cluster.certificate,
        apiserver=cluster.server("kube-apiserver", addresses=[address], names=_APISERVER_NAMES),
        controller_manager=serving("kube-controller-manager"),
        scheduler=serving("kube-scheduler"),
        kubelet=serving("kubelet"),
        apiserver_to_kubelet=cluster.client("apiserver-to-kubelet", APISERVER_AS_KUBELET_CLIENT),
        service_account_key=write_signing_key(directory, "service-account"),
        etcd_ca=storage.certificate,
        etcd=storage.server("etcd", addresses=[address]),
        etcd_client=storage.client("etcd-client", "kube-apiserver"),
        admin_kubeconfig=kubeconfig("admin", "admin", "system:masters", path=admin_kubeconfig),
        controller_manager_kubeconfig=kubeconfig("kube-controller-manager", "system:kube-controller-manager"),
        scheduler_kubeconfig=kubeconfig("kube-scheduler", "system:kube-scheduler"),
        kubelet_kubeconfig=kubeconfig("kubelet", KUBELET_USER, "system:nodes"),
    )
