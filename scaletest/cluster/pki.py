"""The certificates of one KWOK cluster: a CA for the API, another for etcd, kubeconfigs for every client."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bigfleet.files import write_file
from bigfleet.kube import KubeConfig
from bigfleet.security.certificates import CertificateAuthority, KeyFiles, Subject, service_account_key_pem

# Longer than any run; a pod's certificates die with its volume.
_LIFETIME = timedelta(days=7)
_MASTERS = "system:masters"
# Name of the file that tells which address the certificates beside it were made for; written last.
_STAMP = "made-for"

# Those who serve TLS on the pod's address, and those who only dial the API.
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
CLIENTS = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "kwok",
}


@dataclass(frozen=True)
class Pki:
    """Where the files of a cluster's PKI are."""

    directory: Path
    admin_kubeconfig: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def etcd_ca(self) -> Path:
        return self.directory / "etcd-ca.crt"

    @property
    def service_account_key(self) -> Path:
        return self.directory / "service-account.key"

    def files(self, name: str) -> KeyFiles:
        return KeyFiles.named(self.directory, name)

    def kubeconfig(self, client: str) -> Path:
        return self.directory / f"{client}.kubeconfig"

    def admin(self) -> KubeConfig:
        return KubeConfig.from_file(self.admin_kubeconfig)

    def etcd_client(self, server: str) -> KubeConfig:
        """How to reach etcd's HTTP endpoints; it trusts another CA than the API does."""
        files = self.files("etcd-client")
        return KubeConfig(
            server=server,
            ca_pem=self.etcd_ca.read_bytes(),
            client_cert_pem=files.certificate.read_bytes(),
            client_key_pem=files.key.read_bytes(),
        )


def ensure_pki(directory: Path, admin_kubeconfig: Path, pod_ip: str, api_url: str) -> Pki:
    """The PKI in `directory`: as a former life of this container left it, or new if there is none for this address."""
    pki = Pki(directory, admin_kubeconfig)
    stamp = directory / _STAMP
    if stamp.exists() and stamp.read_text() == pod_ip and admin_kubeconfig.exists():
        return pki
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    _write_new(pki, pod_ip, api_url)
    _write(stamp, pod_ip.encode())
    return pki


def _write_new(pki: Pki, pod_ip: str, api_url: str) -> None:
    # Both forget their keys: what they sign here is all that they ever sign.
    ca = CertificateAuthority.create("kwok-cluster", _LIFETIME)
    etcd_ca = CertificateAuthority.create("kwok-cluster-etcd", _LIFETIME)
    _write(pki.ca, ca.certificate_pem)
    _write(pki.etcd_ca, etcd_ca.certificate_pem)
    for name in SERVERS:
        pki.files(name).write(ca.issue(Subject(name, ip_addresses=[pod_ip], serves=True)))
    pki.files("etcd").write(etcd_ca.issue(Subject("etcd", ip_addresses=[pod_ip], serves=True)))
    pki.files("etcd-client").write(etcd_ca.issue(Subject("etcd-client")))
    _write(pki.service_account_key, service_account_key_pem())

    def write_kubeconfig(path: Path, user: Subject) -> None:
        pair = ca.issue(user)
        KubeConfig(api_url, ca.certificate_pem, pair.certificate, pair.private_key).write(path)

    for client, user in CLIENTS.items():
        write_kubeconfig(pki.kubeconfig(client), Subject(user))
    write_kubeconfig(pki.admin_kubeconfig, Subject("admin", groups=[_MASTERS]))


def _write(path: Path, content: bytes) -> None:
    write_file(path, content, mode=0o600)
