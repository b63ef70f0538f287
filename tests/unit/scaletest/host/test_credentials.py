"""A host's credentials: who they are for, whom they trust, who may read them."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from bigfleet.kube import KubeConfig
from scaletest.components.component import Plane
from scaletest.components.pki import Pki
from scaletest.host import commands
from scaletest.host.addresses import Network
from scaletest.host.credentials import make_plane


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return make_plane(tmp_path, Network(99))


@pytest.fixture
def made(plane: Plane) -> Pki:
    return plane.pki


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_private_files_are_private(made: Pki, tmp_path: Path) -> None:
    secret = [*(tmp_path / "pki").glob("*.key"), *(tmp_path / "pki").glob("*.kubeconfig"), made.admin_kubeconfig]
    assert len(secret) > 8
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_the_apiserver_answers_to_its_names(made: Pki) -> None:
    names = (
        certificate(made.files("kube-apiserver").certificate)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.99.0.1"]
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_the_administrator_is_a_master_and_can_be_loaded(made: Pki) -> None:
    config = KubeConfig.from_file(made.admin_kubeconfig)
    assert config.server == "https://127.99.0.1:6443"
    assert config.ssl_context() is not None
    assert config.client_cert_pem is not None
    subject = x509.load_pem_x509_certificate(config.client_cert_pem).subject
    assert [part.value for part in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


def test_a_cluster_certificate_does_not_open_etcd(made: Pki) -> None:
    certificate(made.files("etcd-client").certificate).verify_directly_issued_by(certificate(made.etcd_ca))
    with pytest.raises(ValueError, match="Issuer"):
        certificate(made.files("apiserver-to-kubelet").certificate).verify_directly_issued_by(certificate(made.etcd_ca))


def test_certificates_stand_up_to_strict_verification(made: Pki) -> None:
    context = ssl.create_default_context(cafile=str(made.ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(made.files("kube-apiserver").certificate, made.files("kube-apiserver").key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context.wrap_bio(to_client, to_server, server_hostname="kubernetes.default.svc"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].getpeercert() is not None


def test_no_secret_is_on_a_command_line_and_everything_binds_the_hosts_address(plane: Plane) -> None:
    components = [
        commands.storage(plane),
        commands.api(plane, Network(99)),
        commands.controllers(plane),
        commands.scheduling(plane),
    ]
    words = [word for component in components for word in component.arguments]
    assert not [word for word in words if "PRIVATE KEY" in word or "0.0.0.0" in word]
    bound = [word for word in words if word.startswith(("--bind-address=", "--listen-"))]
    assert len(bound) == 5
    assert all("127.99.0.1" in word for word in bound)
