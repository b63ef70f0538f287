"""A certificate authority for one run: it signs short-lived leaves that carry an identity."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bigfleet.errors import BigFleetError
from bigfleet.process.files import write_file
from bigfleet.security.certificates import CertificateAuthority, KeyPair, Subject
from bigfleet.security.files import CA_CERTIFICATE, IdentityFiles
from bigfleet.security.identity import Identity

CA_KEY = "ca.key"
LEAF_LIFETIME = timedelta(hours=24)
CA_LIFETIME = timedelta(days=7)


class BadRequest(BigFleetError):
    """A certificate signing request that cannot be signed, with the reason."""


@dataclass(frozen=True)
class Authority:
    """The CA of one run, and its private key."""

    _ca: CertificateAuthority

    @classmethod
    def create(cls, run_id: str, lifetime: timedelta = CA_LIFETIME) -> "Authority":
        """A new CA that no other run trusts."""
        return cls(CertificateAuthority.create(f"bigfleet run {run_id}"[:64], lifetime))

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        """Read `ca.crt` and `ca.key`, e.g. from a mounted Secret."""
        pair = KeyPair((directory / CA_CERTIFICATE).read_bytes(), (directory / CA_KEY).read_bytes())
        return cls(CertificateAuthority.load(pair))

    def save(self, directory: Path) -> None:
        """Write `ca.crt` and `ca.key`; the key for our eyes only."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(directory / CA_KEY, self.key_pem, mode=0o600)
        write_file(directory / CA_CERTIFICATE, self.certificate_pem, mode=0o644)

    @property
    def certificate(self) -> x509.Certificate:
        return self._ca.certificate

    @property
    def certificate_pem(self) -> bytes:
        return self._ca.certificate_pem

    @property
    def key_pem(self) -> bytes:
        return self._ca.key_pem

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
        return self._ca.sign(public_key, _subject(identity, dns_names, ip_addresses), lifetime)

    def issue(
        self,
        identity: Identity,
        *,
        dns_names: Iterable[str] = (),
        ip_addresses: Iterable[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> IdentityFiles:
        """A new key and its certificate, for an identity that enrols with no issuer (the runner's own admin)."""
        return self._files(self._ca.issue(_subject(identity, dns_names, ip_addresses), lifetime))

    def issue_server(self, dns_name: str, ip_address: str) -> IdentityFiles:
        """A key and certificate for a server without an identity, valid as long as this CA."""
        subject = Subject(dns_name, dns_names=[dns_name], ip_addresses=[ip_address], serves=True)
        return self._files(self._ca.issue(subject))

    def _files(self, pair: KeyPair) -> IdentityFiles:
        return IdentityFiles(pair.certificate, pair.private_key, self.certificate_pem)


def signing_request(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A request that proves the possession of `key` and asks for no name: names are the authority's to give."""
    return (
        x509.CertificateSigningRequestBuilder(x509.Name([]))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def _subject(identity: Identity, dns_names: Iterable[str], ip_addresses: Iterable[str]) -> Subject:
    return Subject(
        identity.kind,
        uris=[identity.uri],
        dns_names=tuple(dns_names),
        ip_addresses=tuple(ip_addresses),
        serves=True,
    )
