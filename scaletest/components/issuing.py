"""Makes the certificates and kubeconfigs of one control plane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from bigfleet.kube import KubeConfig
from bigfleet.process.files import write_file
from bigfleet.security.certificates import CertificateAuthority, Subject, service_account_key_pem
from scaletest.components import apiserver, controller_manager, etcd, scheduler
from scaletest.components.component import Plane
from scaletest.components.pki import ETCD_CLIENT

_SERVERS = (apiserver.NAME, controller_manager.NAME, scheduler.NAME)
_CLIENTS = {name: Subject(f"system:{name}") for name in (controller_manager.NAME, scheduler.NAME)}
_ADMIN = Subject("admin", groups=["system:masters"])


@dataclass(frozen=True)
class IssuedIdentities:
    """What the PKIs of the harness's control planes do not have in common."""

    # The CA's name; the one for etcd adds to it.
    authority: str
    lifetime: timedelta
    # Servers beside apiserver, controller manager and scheduler, and DNS names for any; all have the plane's address.
    dns_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Clients of the API beside controller manager, scheduler and admin: each gets a kubeconfig.
    clients: Mapping[str, Subject] = field(default_factory=dict)
    # Clients of other servers: each gets a pair of files.
    pairs: Mapping[str, Subject] = field(default_factory=dict)


def issue(plane: Plane, identities: IssuedIdentities) -> None:
    """Write all files of the plane's PKI anew."""
    pki = plane.pki
    pki.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Both forget their keys: what they sign here is all that they ever sign.
    ca = CertificateAuthority.create(identities.authority, identities.lifetime)
    # An authority of its own: a certificate that opens the API does not open the database behind it.
    etcd_ca = CertificateAuthority.create(f"{identities.authority}-etcd", identities.lifetime)
    _write(pki.ca, ca.certificate_pem)
    _write(pki.etcd_ca, etcd_ca.certificate_pem)
    _write(pki.service_account_key, service_account_key_pem())

    def server(name: str) -> Subject:
        names = identities.dns_names.get(name, ())
        return Subject(name, dns_names=names, ip_addresses=[plane.address], serves=True)

    for name in {*_SERVERS, *identities.dns_names}:
        pki.files(name).write(ca.issue(server(name)))
    for name, subject in identities.pairs.items():
        pki.files(name).write(ca.issue(subject))
    pki.files(etcd.NAME).write(etcd_ca.issue(server(etcd.NAME)))
    pki.files(ETCD_CLIENT).write(etcd_ca.issue(Subject(ETCD_CLIENT)))

    def write_kubeconfig(path: Path, user: Subject) -> None:
        pair = ca.issue(user)
        KubeConfig(apiserver.url(plane), ca.certificate_pem, pair.certificate, pair.private_key).write(path)

    for name, user in (_CLIENTS | dict(identities.clients)).items():
        write_kubeconfig(pki.kubeconfig(name), user)
    write_kubeconfig(pki.admin_kubeconfig, _ADMIN)


def _write(path: Path, content: bytes) -> None:
    write_file(path, content, mode=0o600)
