"""Certificates and keys as files: a pair of them, or the three of an identity in one directory."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bigfleet.process.files import write_file
from bigfleet.security.identity import Identity, InvalidIdentity, identity_of

CERTIFICATE = "tls.crt"
PRIVATE_KEY = "tls.key"
CA_CERTIFICATE = "ca.crt"


@dataclass(frozen=True)
class KeyPair:
    """PEM of a certificate and its private key."""

    certificate: bytes
    private_key: bytes = field(repr=False)


@dataclass(frozen=True)
class KeyFiles:
    """Paths of a certificate and its private key, for our eyes only."""

    certificate: Path
    key: Path

    @classmethod
    def named(cls, directory: Path, name: str) -> Self:
        return cls(directory / f"{name}.crt", directory / f"{name}.key")

    def write(self, pair: KeyPair) -> None:
        write_file(self.key, pair.private_key, mode=0o600)
        write_file(self.certificate, pair.certificate, mode=0o600)


@dataclass(frozen=True)
class IdentityPaths:
    """Where the three files of an identity are."""

    certificate: Path
    private_key: Path
    ca_certificate: Path

    @classmethod
    def within(cls, directory: Path) -> Self:
        return cls(directory / CERTIFICATE, directory / PRIVATE_KEY, directory / CA_CERTIFICATE)


@dataclass(frozen=True)
class IdentityFiles:
    """PEM of an identity. The private key never shows in its repr."""

    certificate: bytes
    private_key: bytes
    ca_certificate: bytes

    def __repr__(self) -> str:
        return "IdentityFiles(…)"

    @classmethod
    def read(cls, place: Path | IdentityPaths) -> "IdentityFiles":
        """Of a directory, or of three files."""
        paths = place if isinstance(place, IdentityPaths) else IdentityPaths.within(place)
        return cls(paths.certificate.read_bytes(), paths.private_key.read_bytes(), paths.ca_certificate.read_bytes())

    @property
    def fits(self) -> bool:
        """The certificate is of this private key, and neither is cut off."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(self.private_key, password=None)
            return x509.load_pem_x509_certificate(self.certificate).public_key() == key.public_key()
        except ValueError:
            return False

    @property
    def identity(self) -> Identity:
        """The identity that the certificate is for. Raises InvalidIdentity."""
        from cryptography import x509

        try:
            certificate = x509.load_pem_x509_certificate(self.certificate)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound) as error:
            raise InvalidIdentity(f"the certificate cannot be read: {error}") from error
        return identity_of(names.get_values_for_type(x509.UniformResourceIdentifier))

    def write(self, directory: Path) -> None:
        """Write the files so that no reader sees half of one; the certificate last, as the sign that all are there."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(directory / PRIVATE_KEY, self.private_key, mode=0o600)
        write_file(directory / CA_CERTIFICATE, self.ca_certificate, mode=0o644)
        write_file(directory / CERTIFICATE, self.certificate, mode=0o644)
