"""Makes the certificates of one KWOK cluster, unless a former life of its container has made them."""

from datetime import timedelta
from pathlib import Path

from bigfleet.kube import KubeConfig
from bigfleet.process.files import write_file
from bigfleet.security.certificates import CertificateAuthority, Subject, service_account_key_pem
from scaletest.cluster.control_plane.pki import CLIENTS, SERVERS, Pki

# Longer than any run; a pod's certificates die with its volume.
_LIFETIME = timedelta(days=7)
_MASTERS = "system:masters"
# Name of the file that tells which address the certificates beside it were made for; written last.
_STAMP = "made-for"


def ensure_pki(pki: Pki, pod_ip: str, api_url: str) -> None:
    """Keep the PKI that a former life of this container left; make a new one if there is none for this address."""
    stamp = pki.directory / _STAMP
    if stamp.exists() and stamp.read_text() == pod_ip and pki.admin_kubeconfig.exists():
        return
    pki.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    _write_new(pki, pod_ip, api_url)
    _write(stamp, pod_ip.encode())


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
