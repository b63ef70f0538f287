"""Identities, the run's CA, mutual TLS over gRPC, and enrolment over a real TLS socket."""

import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.kube import NotFound
from bigfleet.security import GRPC_OPTIONS, Identity, channel, listen, peer_identity, require
from bigfleet.security.authority import Authority, BadRequest, signing_request
from bigfleet.security.certificates import Subject, new_key
from bigfleet.security.credentials import CHANNEL_OPTIONS, CannotListen
from bigfleet.security.enrol_pod import EnrollOptions, EnrolmentFailed, enroll
from bigfleet.security.entitlement import BoundPod, NotEntitled, NotYet, bound_pod, host_names
from bigfleet.security.files import IdentityFiles
from bigfleet.security.identity import InvalidIdentity, identity_of
from bigfleet.security.issuer import Issuer, start_https

NAMESPACE = "run-1"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("test")


def names_in(certificate_pem: bytes) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


class TestIdentity:
    @pytest.mark.parametrize(
        ("uri", "identity"),
        [
            ("bigfleet://cluster/kwok-cluster-0", Identity("cluster", "kwok-cluster-0")),
            ("bigfleet://shard/bigfleet-shard-1", Identity("shard", "bigfleet-shard-1")),
            ("bigfleet://admin", Identity("admin")),
            ("bigfleet://readonly", Identity("readonly")),
        ],
    )
    def test_reads_and_writes_the_same_uri(self, uri: str, identity: Identity) -> None:
        assert Identity.parse(uri) == identity
        assert identity.uri == uri

    @pytest.mark.parametrize(
        "uri",
        [
            "spiffe://shard/a",
            "bigfleet://",
            "bigfleet://root",
            "bigfleet://shard",
            "bigfleet://shard/",
            "bigfleet://shard/a/b",
            "bigfleet://admin/me",
            "bigfleet://admin/",
        ],
    )
    def test_refuses_what_is_not_an_identity(self, uri: str) -> None:
        with pytest.raises(InvalidIdentity):
            Identity.parse(uri)

    @pytest.mark.parametrize("uris", [[], ["https://shard/a"], ["bigfleet://admin", "bigfleet://shard/a"]])
    def test_a_certificate_must_carry_exactly_one(self, uris: list[str]) -> None:
        with pytest.raises(InvalidIdentity, match="exactly one"):
            identity_of(uris)

    def test_foreign_uris_do_not_count(self) -> None:
        assert identity_of(["spiffe://x", "bigfleet://admin"]) == Identity("admin")


class TestAuthority:
    def test_signs_the_names_it_is_given_and_ignores_the_requests_own(self, authority: Authority) -> None:
        key = new_key()
        greedy = (
            x509.CertificateSigningRequestBuilder(x509.Name([]))
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier("bigfleet://admin")]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
        pem = authority.sign_request(
            greedy, Identity("shard", "s-0"), dns_names=["shard.bigfleet"], ip_addresses=["127.1.0.5"]
        )
        certificate = x509.load_pem_x509_certificate(pem)
        names = names_in(pem)
        assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["bigfleet://shard/s-0"]
        assert names.get_values_for_type(x509.DNSName) == ["shard.bigfleet"]
        assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.1.0.5"]
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert certificate.public_key() == key.public_key()
        certificate.verify_directly_issued_by(authority.certificate)

    def test_leaves_live_a_day_and_never_longer_than_their_ca(self, authority: Authority) -> None:
        def expiry(signer: Authority) -> datetime:
            pem = signer.sign_request(signing_request(new_key()), Identity("admin"))
            return x509.load_pem_x509_certificate(pem).not_valid_after_utc

        short_lived = Authority.create("short", lifetime=timedelta(hours=1))
        assert abs(expiry(authority) - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=1)
        assert expiry(short_lived) == short_lived.certificate.not_valid_after_utc

    @pytest.mark.parametrize(
        "csr", [b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
    )
    def test_refuses_what_is_not_a_request(self, authority: Authority, csr: bytes) -> None:
        with pytest.raises(BadRequest, match="not a PEM"):
            authority.sign_request(csr, Identity("admin"))

    def test_refuses_other_kinds_of_key(self, authority: Authority) -> None:
        for key in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())):
            csr = x509.CertificateSigningRequestBuilder(x509.Name([])).sign(key, hashes.SHA256())
            with pytest.raises(BadRequest, match="P-256"):
                authority.sign_request(csr.public_bytes(serialization.Encoding.PEM), Identity("admin"))

    def test_refuses_a_request_for_somebody_elses_key(self, authority: Authority) -> None:
        csr = bytearray(x509.load_pem_x509_csr(signing_request(new_key())).public_bytes(serialization.Encoding.DER))
        csr[-1] ^= 1
        forged = x509.load_der_x509_csr(bytes(csr)).public_bytes(serialization.Encoding.PEM)
        with pytest.raises(BadRequest, match="own key"):
            authority.sign_request(forged, Identity("admin"))

    def test_a_saved_ca_signs_on_and_keeps_its_key_to_itself(self, authority: Authority, tmp_path: Path) -> None:
        authority.save(tmp_path)
        issued = Authority.load(tmp_path).issue(Identity("admin"))
        x509.load_pem_x509_certificate(issued.certificate).verify_directly_issued_by(authority.certificate)
        assert stat.S_IMODE((tmp_path / "ca.key").stat().st_mode) == 0o600

    def test_an_identity_directory_holds_three_files_and_a_private_key(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        authority.issue(Identity("admin")).write(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
        assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600
        assert (tmp_path / "ca.crt").read_bytes() == authority.certificate_pem

    def test_a_key_never_shows_in_a_repr(self, authority: Authority) -> None:
        issued = authority.issue(Identity("admin"))
        assert "PRIVATE" not in repr(issued)


class WhoAmI(rpc.CoordinatorServicer):
    """RemoveShard asks for the shard's own certificate, ListShards for a reader, and tells who called."""

    def __init__(self) -> None:
        self.seen: list[Identity | None] = []

    async def RemoveShard(self, request: pb.RemoveShardRequest, context: Any) -> pb.RemoveShardResponse:  # noqa: N802
        self.seen.append(await require(context, "shard", name=request.shard_id))
        return pb.RemoveShardResponse()

    async def ListShards(self, request: pb.ListShardsRequest, context: Any) -> pb.ListShardsResponse:  # noqa: N802
        await require(context, "admin", "readonly")
        self.seen.append(peer_identity(context))
        return pb.ListShardsResponse()


@asynccontextmanager
async def serving(tls_dir: Path | None) -> AsyncIterator[tuple[WhoAmI, str]]:
    servicer, server = WhoAmI(), grpc.aio.server(options=GRPC_OPTIONS)
    rpc.add_CoordinatorServicer_to_server(servicer, server)
    port = listen(server, "127.0.0.1:0", tls_dir)
    await server.start()
    try:
        yield servicer, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


class TestMutualTls:
    @pytest.fixture
    def server_dir(self, authority: Authority, tmp_path: Path) -> Path:
        directory = tmp_path / "server"
        authority.issue(Identity("coordinator", "c-0"), dns_names=["coordinator.bigfleet"]).write(directory)
        return directory

    def client_dir(self, authority: Authority, tmp_path: Path, *uris: str) -> Path:
        directory = tmp_path / "client"
        subject = Subject("test", uris=uris, dns_names=[] if uris else ["x"], serves=True)
        pair = authority._ca.issue(subject)
        IdentityFiles(pair.certificate, pair.private_key, authority.certificate_pem).write(directory)
        return directory

    async def remove(
        self, address: str, tls_dir: Path | None, shard: str, role: Any = "coordinator"
    ) -> grpc.StatusCode:
        async with channel(address, tls_dir, role) as dialled:
            try:
                await rpc.CoordinatorStub(dialled).RemoveShard(pb.RemoveShardRequest(shard_id=shard), timeout=5)
            except grpc.aio.AioRpcError as error:
                return error.code()
        return grpc.StatusCode.OK

    async def test_a_server_that_says_it_is_another_does_not_start(self, server_dir: Path) -> None:
        server = grpc.aio.server()
        with pytest.raises(CannotListen, match="is for bigfleet://coordinator/c-0, not for bigfleet://coordinator/c-1"):
            listen(server, "127.0.0.1:0", server_dir, Identity("coordinator", "c-1"))
        assert listen(server, "127.0.0.1:0", server_dir, Identity("coordinator", "c-0"))

    async def test_the_named_shard_gets_in(self, authority: Authority, server_dir: Path, tmp_path: Path) -> None:
        client = self.client_dir(authority, tmp_path, "bigfleet://shard/s-0")
        async with serving(server_dir) as (servicer, address):
            assert await self.remove(address, client, "s-0") == grpc.StatusCode.OK
        assert servicer.seen == [Identity("shard", "s-0")]

    @pytest.mark.parametrize(
        "uris",
        [
            ["bigfleet://shard/s-1"],
            ["bigfleet://admin"],
            [],
            ["bigfleet://shard/s-0", "bigfleet://admin"],
            ["bigfleet://nobody"],
        ],
        ids=["another shard", "admin", "no identity", "two identities", "unknown kind"],
    )
    async def test_everybody_else_is_denied(
        self, authority: Authority, server_dir: Path, tmp_path: Path, uris: list[str]
    ) -> None:
        client = self.client_dir(authority, tmp_path, *uris)
        async with serving(server_dir) as (servicer, address):
            assert await self.remove(address, client, "s-0") == grpc.StatusCode.PERMISSION_DENIED
        assert servicer.seen == []

    async def test_a_nameless_kind_may_be_one_of_several(
        self, authority: Authority, server_dir: Path, tmp_path: Path
    ) -> None:
        client = self.client_dir(authority, tmp_path, "bigfleet://readonly")
        async with serving(server_dir) as (servicer, address), channel(address, client, "coordinator") as dialled:
            await rpc.CoordinatorStub(dialled).ListShards(pb.ListShardsRequest(), timeout=5)
        assert servicer.seen == [Identity("readonly")]

    async def test_a_stranger_from_another_run_is_not_even_heard(self, server_dir: Path, tmp_path: Path) -> None:
        Authority.create("other").issue(Identity("shard", "s-0")).write(tmp_path / "stranger")
        async with serving(server_dir) as (servicer, address):
            assert await self.remove(address, tmp_path / "stranger", "s-0") == grpc.StatusCode.UNAVAILABLE
        assert servicer.seen == []

    async def test_a_server_of_another_role_is_not_trusted(
        self, authority: Authority, server_dir: Path, tmp_path: Path
    ) -> None:
        client = self.client_dir(authority, tmp_path, "bigfleet://shard/s-0")
        async with serving(server_dir) as (servicer, address):
            assert await self.remove(address, client, "s-0", role="provider") == grpc.StatusCode.UNAVAILABLE
        assert servicer.seen == []

    async def test_plaintext_skips_every_check(self) -> None:
        async with serving(None) as (servicer, address):
            assert await self.remove(address, None, "s-0") == grpc.StatusCode.OK
        assert servicer.seen == [None]


def review(**changes: Any) -> dict[str, Any]:
    """The status of a TokenReview for a shard's pod, with some parts changed."""
    parts = {
        "authenticated": True,
        "audiences": ["bigfleet-issuer"],
        "username": f"system:serviceaccount:{NAMESPACE}:bigfleet-shard",
        "pod": ["bigfleet-shard-0"],
        "uid": ["u-1"],
    } | changes
    return {
        "authenticated": parts["authenticated"],
        "audiences": parts["audiences"],
        "error": "token has expired" if not parts["authenticated"] else "",
        "user": {
            "username": parts["username"],
            "extra": {
                "authentication.kubernetes.io/pod-name": parts["pod"],
                "authentication.kubernetes.io/pod-uid": parts["uid"],
            },
        },
    }


def pod(**changes: Any) -> dict[str, Any]:
    parts = {
        "uid": "u-1",
        "podIP": "127.0.0.1",
        "spec": {"hostname": "bigfleet-shard-0", "subdomain": "shards"},
    } | changes
    return {
        "metadata": {"name": "bigfleet-shard-0", "namespace": NAMESPACE, "uid": parts["uid"]},
        "spec": parts["spec"],
        "status": {"podIP": parts["podIP"]},
    }


class TestEntitlement:
    @pytest.mark.parametrize(
        ("account", "kind"),
        [
            ("bigfleet-shard", "shard"),
            ("bigfleet-provider", "provider"),
            ("bigfleet-coordinator", "coordinator"),
            ("kwok-cluster", "cluster"),
            ("prometheus", "prometheus"),
        ],
    )
    def test_the_service_account_decides_the_kind_and_the_pod_the_name(self, account: str, kind: str) -> None:
        status = review(username=f"system:serviceaccount:{NAMESPACE}:{account}", pod=["pod-7"])
        assert bound_pod(status, NAMESPACE) == BoundPod("pod-7", "u-1", Identity(kind, "pod-7"))

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"authenticated": False}, "token has expired"),
            ({"audiences": ["https://kubernetes.default.svc"]}, "audience"),
            ({"audiences": None}, "audience"),
            ({"username": "system:admin"}, "no ServiceAccount"),
            ({"username": "system:serviceaccount:other:bigfleet-shard"}, "namespace 'other'"),
            ({"username": f"system:serviceaccount:{NAMESPACE}:default"}, "'default' has no identity"),
            ({"pod": None}, "not bound to a pod"),
        ],
    )
    def test_refuses_with_a_reason(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(NotEntitled, match=reason):
            bound_pod(review(**changes), NAMESPACE)

    def test_names_come_from_the_pod(self) -> None:
        names = host_names(bound_pod(review(), NAMESPACE), pod())
        assert names.ips == ("127.0.0.1",)
        assert names.dns == (
            "shard.bigfleet",
            "bigfleet-shard-0.shards",
            f"bigfleet-shard-0.shards.{NAMESPACE}.svc",
            f"bigfleet-shard-0.shards.{NAMESPACE}.svc.cluster.local",
        )

    def test_a_pod_outside_a_headless_service_has_its_role_name_only(self) -> None:
        assert host_names(bound_pod(review(), NAMESPACE), pod(spec={})).dns == ("shard.bigfleet",)

    def test_a_token_of_an_earlier_pod_is_refused(self) -> None:
        with pytest.raises(NotEntitled, match="earlier pod"):
            host_names(bound_pod(review(), NAMESPACE), pod(uid="u-2"))

    def test_a_pod_without_an_address_must_wait(self) -> None:
        with pytest.raises(NotYet, match="no address"):
            host_names(bound_pod(review(), NAMESPACE), pod(podIP=""))


class FakeReviewer:
    """The Kubernetes API at the issuer's one port: token `good` is a shard's, everything else has expired."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {"bigfleet-shard-0": pod()}
        self.reviews = 0

    async def review(self, token: str) -> dict[str, Any]:
        self.reviews += 1
        return review(authenticated=token == "good")

    async def pod(self, name: str) -> dict[str, Any]:
        if name not in self.pods:
            raise NotFound(404, "NotFound", name)
        return self.pods[name]


@pytest.fixture
async def issuer(authority: Authority) -> AsyncIterator[tuple[FakeReviewer, str, CollectorRegistry]]:
    reviewer, registry = FakeReviewer(), CollectorRegistry()
    runner = await start_https(Issuer(authority, reviewer, NAMESPACE, registry).application(), "127.0.0.1:0", authority)
    host, port = runner.addresses[0][:2]
    yield reviewer, f"{host}:{port}", registry
    await runner.cleanup()


@pytest.fixture
def options(issuer: tuple[FakeReviewer, str, CollectorRegistry], authority: Authority, tmp_path: Path) -> EnrollOptions:
    authority.save(tmp_path / "ca")
    (tmp_path / "token").write_text("good\n")
    return EnrollOptions(
        issuer[1], tmp_path / "token", tmp_path / "ca" / "ca.crt", tmp_path / "out", deadline_seconds=0.5
    )


class TestEnrolment:
    async def test_a_pod_gets_a_working_identity(
        self, issuer: tuple[FakeReviewer, str, CollectorRegistry], options: EnrollOptions
    ) -> None:
        await enroll(options)
        assert names_in((options.out_dir / "tls.crt").read_bytes()).get_values_for_type(
            x509.UniformResourceIdentifier
        ) == ["bigfleet://shard/bigfleet-shard-0"]
        assert stat.S_IMODE((options.out_dir / "tls.key").stat().st_mode) == 0o600
        ssl.create_default_context().load_cert_chain(options.out_dir / "tls.crt", options.out_dir / "tls.key")
        assert issuer[2].get_sample_value("bigfleet_issuer_enrolments_total", {"outcome": "issued"}) == 1

    async def test_it_asks_again_until_the_pod_has_an_address(
        self,
        issuer: tuple[FakeReviewer, str, CollectorRegistry],
        options: EnrollOptions,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        reviewer = issuer[0]
        reviewer.pods["bigfleet-shard-0"] = pod(podIP="")
        first_review = reviewer.review

        async def review_then_assign(token: str) -> dict[str, Any]:
            if reviewer.reviews:
                reviewer.pods["bigfleet-shard-0"] = pod()
            return await first_review(token)

        monkeypatch.setattr(reviewer, "review", review_then_assign)
        await enroll(replace(options, deadline_seconds=30))
        assert reviewer.reviews == 2

    async def test_failure_names_the_last_reason_but_not_the_token(self, options: EnrollOptions) -> None:
        options.token_file.write_text("very-secret")
        with pytest.raises(EnrolmentFailed, match="token has expired") as failure:
            await enroll(options)
        assert "very-secret" not in str(failure.value)
        assert not options.out_dir.exists()

    async def test_an_issuer_of_another_run_is_not_trusted_with_the_token(
        self, issuer: tuple[FakeReviewer, str, CollectorRegistry], options: EnrollOptions
    ) -> None:
        options.ca_file.write_bytes(Authority.create("other").certificate_pem)
        with pytest.raises(EnrolmentFailed, match=r"not of this run: .*certificate verify failed"):
            await enroll(options)
        assert issuer[0].reviews == 0

    async def test_nobody_listening_is_a_plain_message(self, options: EnrollOptions) -> None:
        nowhere = EnrollOptions(
            "127.0.0.1:1", options.token_file, options.ca_file, options.out_dir, deadline_seconds=0.1
        )
        with pytest.raises(EnrolmentFailed, match=r"127\.0\.0\.1:1 within 0\.1 s; .*cannot connect"):
            await enroll(nowhere)

    @pytest.mark.parametrize(
        ("body", "status", "reason"),
        [
            ({"token": "good"}, 400, "csr"),
            ({"token": 5, "csr": "x"}, 400, "token"),
            ([], 400, "object"),
            ({"token": "good", "csr": "x"}, 400, "csr is not"),
            ({"token": "bad", "csr": "x"}, 403, "expired"),
        ],
    )
    async def test_bad_bodies_are_answered_with_the_field(
        self,
        issuer: tuple[FakeReviewer, str, CollectorRegistry],
        authority: Authority,
        body: Any,
        status: int,
        reason: str,
    ) -> None:
        tls = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        async with aiohttp.ClientSession() as http:
            url = f"https://{issuer[1]}/v1/enroll"
            async with http.post(url, json=body, ssl=tls, server_hostname="issuer.bigfleet") as response:
                assert response.status == status
                assert reason in (await response.json())["error"]

    async def test_a_vanished_pod_is_refused(
        self, issuer: tuple[FakeReviewer, str, CollectorRegistry], options: EnrollOptions
    ) -> None:
        issuer[0].pods.clear()
        with pytest.raises(EnrolmentFailed, match="is gone"):
            await enroll(options)


def test_grpc_knows_every_option_that_we_give_it() -> None:
    """It ignores a name that it does not know: a server then hangs up on sessions that are only pinged."""
    core = find_spec("grpc._cython.cygrpc")
    assert core and core.origin
    library = Path(core.origin).read_bytes()
    assert [name for name, _ in CHANNEL_OPTIONS if f"{name}\0".encode() not in library] == []
