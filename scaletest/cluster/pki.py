"""The certificates of one KWOK cluster: a CA for the API, another for etcd, kubeconfigs for every client."""

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.kube import KubeConfig
from bigfleet.security.authority import key_to_pem, new_key
from bigfleet.security.files import write_file

# Longer than any run; a pod's certificates die with its volume.
_LIFETIME = timedelta(days=7)
_CLOCK_SKEW = timedelta(minutes=5)
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

    @property
    def service_account_public(self) -> Path:
        return self.directory / "service-account.pub"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def kubeconfig(self, client: str) -> Path:
        return self.directory / f"{client}.kubeconfig"

    def admin(self) -> KubeConfig:
        return KubeConfig.from_file(self.admin_kubeconfig)

    def etcd_client(self, server: str) -> KubeConfig:
        """How to reach etcd's HTTP endpoints; it trusts another CA than the API does."""
        return KubeConfig(
            server=server,
            ca_pem=self.etcd_ca.read_bytes(),
            client_cert_pem=self.certificate("etcd-client").read_bytes(),
            client_key_pem=self.key("etcd-client").read_bytes(),
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
    ca, etcd_ca = _Authority.create("kwok-cluster"), _Authority.create("kwok-cluster-etcd")
    _write(pki.ca, ca.pem)
    _write(pki.etcd_ca, etcd_ca.pem)
    for name in SERVERS:
        _write_pair(pki, name, ca.issue(name, ip=pod_ip))
    _write_pair(pki, "etcd", etcd_ca.issue("etcd", ip=pod_ip))
    _write_pair(pki, "etcd-client", etcd_ca.issue("etcd-client"))

    signing_key = new_key()
    _write(pki.service_account_key, key_to_pem(signing_key))
    public = signing_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write(pki.service_account_public, public)

    for client, user in CLIENTS.items():
        _write(pki.kubeconfig(client), _kubeconfig(api_url, ca.pem, *ca.issue(user)))
    _write(pki.admin_kubeconfig, _kubeconfig(api_url, ca.pem, *ca.issue("admin", group=_MASTERS)))


def _write(path: Path, content: bytes) -> None:
    write_file(path, content, mode=0o600)


def _write_pair(pki: Pki, name: str, pair: tuple[bytes, bytes]) -> None:
    certificate, key = pair
    _write(pki.certificate(name), certificate)
    _write(pki.key(name), key)


@dataclass(frozen=True)
class _Authority:
    """A CA that forgets its key: what it signs at start is all that it ever signs."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, common_name: str) -> "_Authority":
        name, key = _name(common_name), new_key()
        builder = _builder(name, name, key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(name, key, certificate)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *, group: str = "", ip: str = "") -> tuple[bytes, bytes]:
        """A certificate and its key: a server's when it has an `ip`, a client's in any case (etcd dials itself)."""
        key = new_key()
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if ip else [])
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(_name(common_name, group), self.name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(authority_key, critical=False)
        )
        if ip:
            names: Sequence[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(ip))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), key_to_pem(key)


def _name(common_name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _kubeconfig(server: str, ca: bytes, certificate: bytes, key: bytes) -> bytes:
    def inline(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kwok",
        "contexts": [{"name": "kwok", "context": {"cluster": "kwok", "user": "kwok"}}],
        "clusters": [{"name": "kwok", "cluster": {"server": server, "certificate-authority-data": inline(ca)}}],
        "users": [
            {"name": "kwok", "user": {"client-certificate-data": inline(certificate), "client-key-data": inline(key)}}
        ],
    }
    return yaml.safe_dump(document).encode()
