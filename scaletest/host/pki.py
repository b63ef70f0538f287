"""A host's own certificate authorities, the certificates of its components, and kubeconfigs that carry them."""

import base64
import ipaddress
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Longer than any run; the authority and all it signed go away with the host.
_LIFETIME = timedelta(days=7)
_CLOCK_SLACK = timedelta(minutes=5)


@dataclass(frozen=True)
class Identity:
    """Paths of a certificate and its private key (0600), both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files live in one directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name)
        signed = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.certificate = directory / f"{name}.crt"
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> Identity:
        """A client certificate for `user`, a member of `groups`, as Kubernetes reads them."""
        return self._issue(file_name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def server(self, file_name: str, *, addresses: Sequence[str], names: Sequence[str] = ()) -> Identity:
        """A serving certificate for these addresses and DNS names. Also good as a client's, as etcd's peers want it."""
        alternatives: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(one)) for one in addresses]
        alternatives += [x509.DNSName(one) for one in names]
        return self._issue(file_name, _subject(file_name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def _issue(
        self, file_name: str, subject: x509.Name, usage: x509.ObjectIdentifier, alternatives: Sequence[x509.GeneralName]
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [usage] if usage == ExtendedKeyUsageOID.CLIENT_AUTH else [usage, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(self._authority_key(), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        identity = Identity(self._directory / f"{file_name}.crt", self._directory / f"{file_name}.key")
        identity.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        write_private(identity.key, _private_pem(key))
        return identity

    def _authority_key(self) -> x509.AuthorityKeyIdentifier:
        # Python 3.13 and later refuse a certificate that does not name its issuer's key.
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())


def write_signing_key(directory: Path, name: str) -> Path:
    """A key for signing ServiceAccount tokens; the apiserver takes the public half from the same file."""
    path = directory / f"{name}.key"
    # The older PEM form: in this one the apiserver also finds the public key.
    write_private(
        path, _private_pem(ec.generate_private_key(ec.SECP256R1()), serialization.PrivateFormat.TraditionalOpenSSL)
    )
    return path


def write_kubeconfig(path: Path, server: str, authority: Authority, user: Identity) -> Path:
    """A kubeconfig (0600) with everything inline. JSON, which is YAML too."""
    inline = {"certificate-authority-data": _encoded(authority.certificate)}
    credentials = {
        "client-certificate-data": _encoded(user.certificate),
        "client-key-data": _encoded(user.key),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "embedded", "cluster": {"server": server} | inline}],
        "users": [{"name": "user", "user": credentials}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "user"}}],
        "current-context": "embedded",
    }
    write_private(path, json.dumps(document, indent=2).encode())
    return path


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read, not even for an instant."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def _private_pem(
    key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SLACK)
        .not_valid_after(now + _LIFETIME)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
