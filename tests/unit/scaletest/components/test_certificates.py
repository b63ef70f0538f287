"""Which certificates both control planes have, and whom they are for: `make golden` stores a wanted change."""

from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from bigfleet.kube import KubeConfig
from scaletest.cluster.control_plane.issuing import ensure_pki
from scaletest.components.component import Plane
from scaletest.components.pki import Pki
from scaletest.host.addresses import Network
from scaletest.host.credentials import make_plane
from tests.golden.rendering import compare_with_stored


def described(pem: bytes) -> str:
    """Issuer, subject, names, whether it serves, and its life in days."""
    certificate = x509.load_pem_x509_certificate(pem)
    extensions = certificate.extensions
    names, usages = [], []
    for extension in extensions:
        match extension.value:
            case x509.SubjectAlternativeName() as found:
                names = [str(name.value) for name in found]
            case x509.ExtendedKeyUsage() as found:
                usages = ["serves" if one == ExtendedKeyUsageOID.SERVER_AUTH else "dials" for one in found]
            case x509.BasicConstraints(ca=True):
                usages = ["signs"]
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    words = [
        f"{certificate.issuer.rfc4514_string()} -> {certificate.subject.rfc4514_string()}",
        "+".join(usages),
        f"{life.days} days",
        *names,
    ]
    return " | ".join(words)


def listing(root: Path) -> str:
    """Every file below, with what is known of it; keys are only named."""
    lines = []
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        said = f"{path.relative_to(root)} {path.stat().st_mode & 0o777:o}"
        if path.suffix == ".crt":
            said += f": {described(path.read_bytes())}"
        elif path.name.endswith("kubeconfig"):
            config = KubeConfig.from_file(path)
            assert config.client_cert_pem
            said += f": {config.server} by {described(config.client_cert_pem)}"
        lines.append(said)
    return "\n".join(lines) + "\n"


def test_the_embedded_host_has_the_certificates_that_were_stored(tmp_path: Path) -> None:
    make_plane(tmp_path, Network(99))
    compare_with_stored("commands/embedded-host-certificates.txt", listing(tmp_path))


def test_a_kwok_cluster_has_the_certificates_that_were_stored(tmp_path: Path) -> None:
    ensure_pki(Plane("127.9.8.7", tmp_path, Pki(tmp_path / "certs", tmp_path / "admin.kubeconfig")))
    compare_with_stored("commands/kwok-cluster-certificates.txt", listing(tmp_path))
