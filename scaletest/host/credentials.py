"""The identities on a host: one certificate per component, signed by the host's own authorities."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bigfleet.kube import KubeConfig
from bigfleet.process.files import write_file
from bigfleet.security.certificates import CertificateAuthority, KeyFiles, Subject, service_account_key_pem
from scaletest.host.addresses import Network

# Longer than any run, and than a host that was left up; the authorities and all they signed go away with the host.
_LIFETIME = timedelta(days=90)
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
    apiserver: KeyFiles
    controller_manager: KeyFiles
    scheduler: KeyFiles
    kubelet: KeyFiles
    apiserver_to_kubelet: KeyFiles
    service_account_key: Path
    etcd_ca: Path
    etcd: KeyFiles
    etcd_client: KeyFiles
    admin_kubeconfig: Path
    controller_manager_kubeconfig: Path
    scheduler_kubeconfig: Path
    kubelet_kubeconfig: Path


def issue_credentials(directory: Path, network: Network, admin_kubeconfig: Path) -> Credentials:
    """Make all credentials of a host, in `directory`, and the administrator's kubeconfig where the caller wants it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster = CertificateAuthority.create("ca", _LIFETIME)
    # An authority of its own: a certificate that opens the API does not open the database behind it.
    storage = CertificateAuthority.create("etcd-ca", _LIFETIME)

    def private(name: str, content: bytes) -> Path:
        path = directory / name
        write_file(path, content, mode=0o600)
        return path

    def issue(authority: CertificateAuthority, name: str, subject: Subject) -> KeyFiles:
        files = KeyFiles.named(directory, name)
        files.write(authority.issue(subject))
        return files

    def serving(authority: CertificateAuthority, name: str, dns_names: Sequence[str] = ()) -> KeyFiles:
        subject = Subject(name, dns_names=dns_names, ip_addresses=[network.control_plane], serves=True)
        return issue(authority, name, subject)

    def kubeconfig(path: Path, user: str, *groups: str) -> Path:
        pair = cluster.issue(Subject(user, groups))
        KubeConfig(network.apiserver_url, cluster.certificate_pem, pair.certificate, pair.private_key).write(path)
        return path

    return Credentials(
        network=network,
        ca=private("ca.crt", cluster.certificate_pem),
        apiserver=serving(cluster, "kube-apiserver", _APISERVER_NAMES),
        controller_manager=serving(cluster, "kube-controller-manager", ["localhost"]),
        scheduler=serving(cluster, "kube-scheduler", ["localhost"]),
        kubelet=serving(cluster, "kubelet", ["localhost"]),
        apiserver_to_kubelet=issue(cluster, "apiserver-to-kubelet", Subject(APISERVER_AS_KUBELET_CLIENT)),
        service_account_key=private("service-account.key", service_account_key_pem()),
        etcd_ca=private("etcd-ca.crt", storage.certificate_pem),
        etcd=serving(storage, "etcd"),
        etcd_client=issue(storage, "etcd-client", Subject("kube-apiserver")),
        admin_kubeconfig=kubeconfig(admin_kubeconfig, "admin", "system:masters"),
        controller_manager_kubeconfig=kubeconfig(
            directory / "kube-controller-manager.kubeconfig", "system:kube-controller-manager"
        ),
        scheduler_kubeconfig=kubeconfig(directory / "kube-scheduler.kubeconfig", "system:kube-scheduler"),
        kubelet_kubeconfig=kubeconfig(directory / "kubelet.kubeconfig", KUBELET_USER, "system:nodes"),
    )
