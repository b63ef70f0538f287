"""A certificate authority for one run: it signs short-lived leaves that carry an identity."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.security.files import CA_CERTIFICATE, IdentityFiles, write_file
from bigfleet.security.identity import Identity

CA_KEY = "ca.key"
LEAF_LIFETIME = timedelta(hours=24)
CA_LIFETIME = timedelta(days=7)
# Hosts whose clocks differ by less than this trust a new certificate at once.
_CLOCK_SKEW = timedelta(minutes=5)


class BadRequest(Exception):
    """A certificate signing request that cannot be signed, with the reason."""


@dataclass(frozen=True)
class Authority:
    """The CA of one run, and its private key."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, run_id: str, lifetime: timedelta = CA_LIFETIME) -> "Authority":
        """A new CA that no other run trusts."""
        key = new_key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"bigfleet run {run_id}"[:64])])
        now = datetime.now(UTC)
        key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(key_id, critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        """Read `ca.crt` and `ca.key`, e.g. from a mounted Secret."""
        key = serialization.load_pem_private_key((directory / CA_KEY).read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{CA_KEY} holds no elliptic-curve key")
        return cls(x509.load_pem_x509_certificate((directory / CA_CERTIFICATE).read_bytes()), key)

    def save(self, directory: Path) -> None:
        """Write `ca.crt` and `ca.key`; the key for our eyes only."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(directory / CA_KEY, self.key_pem, mode=0o600)
        write_file(directory / CA_CERTIFICATE, self.certificate_pem, mode=0o644)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return key_to_pem(self._key)

    def sign_request(
        self,
        csr_pem: bytes,
        identity: Identity,
        *,
        dns_names: Iterable[str] = (),
        ip_addresses: Iterable[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> bytes:
        """Sign the public key of a request. Every name comes from the arguments; the request's own are ignored."""
        try:
            request = x509.load_pem_x509_csr(csr_pem)
            public_key = request.public_key()
            owns_key = request.is_signature_valid
        except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise BadRequest("csr is not a PEM certificate signing request") from error
        if not isinstance(public_key, ec.EllipticCurvePublicKey) or not isinstance(public_key.curve, ec.SECP256R1):
            raise BadRequest("csr must hold an elliptic-curve key on P-256")
        if not owns_key:
            raise BadRequest("csr is not signed by its own key")
        return self._sign(public_key, identity.kind, _alternative_names(identity, dns_names, ip_addresses), lifetime)

    def issue(
        self,
        identity: Identity,
        *,
        dns_names: Iterable[str] = (),
        ip_addresses: Iterable[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> IdentityFiles:
        """A new key and its certificate, for an identity that enrols with nobody (the runner's own admin)."""
        key = new_key()
        names = _alternative_names(identity, dns_names, ip_addresses)
        certificate = self._sign(key.public_key(), identity.kind, names, lifetime)
        return IdentityFiles(certificate, key_to_pem(key), self.certificate_pem)

    def issue_server(self, dns_name: str, ip_address: str) -> IdentityFiles:
        """A key and certificate for a server without an identity, valid as long as this CA."""
        key = new_key()
        names = _alternative_names(None, [dns_name], [ip_address])
        lifetime = self.certificate.not_valid_after_utc - datetime.now(UTC)
        return IdentityFiles(
            self._sign(key.public_key(), dns_name, names, lifetime), key_to_pem(key), self.certificate_pem
        )

    def _sign(
        self, public_key: ec.EllipticCurvePublicKey, subject: str, names: list[x509.GeneralName], lifetime: timedelta
    ) -> bytes:
        now = datetime.now(UTC)
        ca_key_id = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            x509.CertificateBuilder(
                issuer_name=self.certificate.subject,
                subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
                public_key=public_key,
            )
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(now - _CLOCK_SKEW, self.certificate.not_valid_before_utc))
            .not_valid_after(min(now + lifetime, self.certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(digital_signature=True), critical=True)
            # Both usages: every server here is somebody's client too, and etcd's gateway dials itself.
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def signing_request(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A request that proves the possession of `key` and asks for no name: names are the authority's to give."""
    return (
        x509.CertificateSigningRequestBuilder(x509.Name([]))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def _alternative_names(
    identity: Identity | None, dns_names: Iterable[str], ip_addresses: Iterable[str]
) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri)] if identity else []
    names += [x509.DNSName(name) for name in dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ip_addresses]
    return names


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
