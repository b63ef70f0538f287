"""Certificates are renewed under running processes: servers take them up, clients re-dial, and no call is lost."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bigfleet.security import Identity, listen
from bigfleet.security.authority import Authority
from bigfleet.security.credentials import Redialled


class Callers:
    """A health service that remembers the certificate that each caller showed."""

    def __init__(self) -> None:
        self.serials: list[int] = []
        self.hold: asyncio.Event | None = None

    async def check(self, request: Any, context: Any) -> Any:
        (pem,) = context.auth_context()["x509_pem_cert"]
        self.serials.append(x509.load_pem_x509_certificate(pem).serial_number)
        if self.hold and request.service == "slow":
            await self.hold.wait()
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


@pytest.fixture
def authority() -> Authority:
    return Authority.create("test")


def issue_server(authority: Authority, place: Path, lifetime: timedelta = timedelta(hours=1)) -> int:
    files = authority.issue(Identity("shard", "s-0"), dns_names=["shard.bigfleet"], lifetime=lifetime)
    files.write(place)
    return x509.load_pem_x509_certificate(files.certificate).serial_number


@pytest.fixture
async def server(authority: Authority, tmp_path: Path) -> AsyncIterator[tuple[str, Callers]]:
    issue_server(authority, tmp_path / "server")
    callers = Callers()
    serving = grpc.aio.server()
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        callers.check,
        request_deserializer=health_pb2.HealthCheckRequest.FromString,
        response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
    )
    service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
    serving.add_generic_rpc_handlers((service,))
    port = listen(serving, "127.0.0.1:0", tmp_path / "server")
    await serving.start()
    yield f"127.0.0.1:{port}", callers
    await serving.stop(None)


def issue_client(authority: Authority, place: Path) -> int:
    files = authority.issue(Identity("admin"))
    files.write(place)
    return x509.load_pem_x509_certificate(files.certificate).serial_number


async def check(client: Redialled) -> None:
    await health_pb2_grpc.HealthStub(client.channel()).Check(health_pb2.HealthCheckRequest(), timeout=5)


async def test_a_client_shows_its_renewed_certificate_from_the_next_call_on(
    authority: Authority, server: tuple[str, Callers], tmp_path: Path
) -> None:
    address, callers = server
    first = issue_client(authority, tmp_path / "client")
    client = Redialled(address, tmp_path / "client", "shard")
    await check(client)
    await check(client)
    second = issue_client(authority, tmp_path / "client")
    await check(client)
    await client.close()
    assert callers.serials == [first, first, second]


async def test_a_call_that_is_under_way_ends_on_the_connection_that_it_began_on(
    authority: Authority, server: tuple[str, Callers], tmp_path: Path
) -> None:
    address, callers = server
    callers.hold = asyncio.Event()
    issue_client(authority, tmp_path / "client")
    client = Redialled(address, tmp_path / "client", "shard")
    stub = health_pb2_grpc.HealthStub(client.channel())
    slow = asyncio.ensure_future(stub.Check(health_pb2.HealthCheckRequest(service="slow"), timeout=30))
    while not callers.serials:
        await asyncio.sleep(0.01)
    issue_client(authority, tmp_path / "client")
    await check(client)
    callers.hold.set()
    assert (await slow).status == health_pb2.HealthCheckResponse.SERVING
    await client.close()
    assert len(set(callers.serials)) == 2


async def test_a_half_written_pair_changes_nothing_until_it_is_whole(
    authority: Authority, server: tuple[str, Callers], tmp_path: Path
) -> None:
    address, callers = server
    first = issue_client(authority, tmp_path / "client")
    client = Redialled(address, tmp_path / "client", "shard")
    renewed = authority.issue(Identity("admin"))
    (tmp_path / "client" / "tls.crt").write_bytes(renewed.certificate)
    await check(client)
    (tmp_path / "client" / "tls.key").write_bytes(renewed.private_key)
    await check(client)
    await client.close()
    assert callers.serials == [first, x509.load_pem_x509_certificate(renewed.certificate).serial_number]


async def test_a_server_shows_its_renewed_certificate_to_the_next_who_connects(
    authority: Authority, server: tuple[str, Callers], tmp_path: Path
) -> None:
    address, _ = server
    issue_client(authority, tmp_path / "client")

    async def shown() -> int:
        context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
        context.load_cert_chain(tmp_path / "client" / "tls.crt", tmp_path / "client" / "tls.key")
        context.set_alpn_protocols(["h2"])
        host, _, port = address.partition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="shard.bigfleet")
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(der).serial_number

    before = await shown()
    renewed = issue_server(authority, tmp_path / "server")
    assert before != renewed
    assert await shown() == renewed


async def test_after_its_server_renewed_a_client_still_gets_in_with_an_open_channel(
    authority: Authority, server: tuple[str, Callers], tmp_path: Path
) -> None:
    address, callers = server
    issue_client(authority, tmp_path / "client")
    client = Redialled(address, tmp_path / "client", "shard")
    await check(client)
    issue_server(authority, tmp_path / "server")
    issue_client(authority, tmp_path / "client")
    await check(client)
    await client.close()
    assert len(set(callers.serials)) == 2
