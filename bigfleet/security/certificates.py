"""Keys, certificates and the authorities that sign them: what every PKI of this project is made of."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bigfleet.security.files import KeyFiles as KeyFiles
from bigfleet.security.files import KeyPair as KeyPair

# Hosts whose clocks differ by less than this trust a new certificate at once.
_CLOCK_SLACK = timedelta(minutes=5)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Subject:
    """The holder of a certificate. Kubernetes reads a user's name and groups from it."""

    common_name: str
    groups: Sequence[str] = ()
    dns_names: Sequence[str] = ()
    ip_addresses: Sequence[str] = ()
    uris: Sequence[str] = ()
    serves: bool = False
    """Good for servers as well as for clients: every server here is also a client, and etcd dials itself."""


@dataclass(frozen=True)
class CertificateAuthority:
    """A certificate that signs others, and its private key."""

    certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, common_name: str, lifetime: timedelta) -> Self:
        key = new_key()
        now = datetime.now(UTC)
        subject = Subject(common_name)
        builder = _builder(_name(subject), key.public_key(), now - _CLOCK_SLACK, now + lifetime, signs=True)
        return cls(builder.issuer_name(_name(subject)).sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, pair: KeyPair) -> Self:
        key = serialization.load_pem_private_key(pair.private_key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("a certificate authority needs an elliptic-curve key")
        return cls(x509.load_pem_x509_certificate(pair.certificate), key)

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)

    @property
    def key_pem(self) -> bytes:
        return key_to_pem(self._key)

    def sign(
        self, public_key: ec.EllipticCurvePublicKey, subject: Subject, lifetime: timedelta = timedelta.max
    ) -> bytes:
        """PEM of a certificate for `subject`, the holder of `public_key`; it never outlives this authority's own."""
        now = datetime.now(UTC)
        ours = self.certificate
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * subject.serves + [ExtendedKeyUsageOID.CLIENT_AUTH]
        signer = ours.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _builder(
                _name(subject),
                public_key,
                max(now - _CLOCK_SLACK, ours.not_valid_before_utc),
                now + min(lifetime, ours.not_valid_after_utc - now),
                signs=False,
            )
            .issuer_name(ours.subject)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            # Python 3.13 and later refuse a certificate that does not name its issuer's key.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
        )
        if names := _alternative_names(subject):
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def issue(self, subject: Subject, lifetime: timedelta = timedelta.max) -> KeyPair:
        """A new key and its certificate."""
        key = new_key()
        return KeyPair(self.sign(key.public_key(), subject, lifetime), key_to_pem(key))


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(
    key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(_PEM, form, serialization.NoEncryption())


def service_account_key_pem() -> bytes:
    """A new key to sign ServiceAccount tokens with, and to check them: in this older form of PEM the apiserver also
    finds the public half."""
    return key_to_pem(new_key(), serialization.PrivateFormat.TraditionalOpenSSL)


def _builder(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime, *, signs: bool
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder(subject_name=subject, public_key=public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(subject: Subject) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in subject.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])


def _alternative_names(subject: Subject) -> list[x509.GeneralName]:
    return [
        *(x509.UniformResourceIdentifier(uri) for uri in subject.uris),
        *(x509.DNSName(name) for name in subject.dns_names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in subject.ip_addresses),
    ]
