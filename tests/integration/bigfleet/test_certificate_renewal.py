"""Certificates that live for seconds: they are renewed before they end, and sessions and calls go on."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.provider.fake.server import ProviderOptions
from bigfleet.provider.fake.server import running as running_provider
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from bigfleet.security.enrol_pod import EnrollOptions, enroll
from bigfleet.security.entitlement import AUDIENCE
from bigfleet.security.issuer import Issuer, start_https
from bigfleet.security.renewal import Renewal
from scaletest.cluster import snapshots
from scaletest.cluster.snapshots import SnapshotsOptions
from tests.integration.players.apiserver import free_ports
from tests.integration.players.played_operator import PlayedOperator
from tests.integration.players.provider_client import CLUSTER, INSTANT, fleet_of, provider_at
from tests.integration.players.shard_client import Shard, shard_at, small_need
from tests.patience import eventually

LIFETIME = timedelta(seconds=10)
NAMESPACE = "run"
IDLE = {"idPrefix": "idle", "kind": "small", "count": 3, "state": "Idle"}


class Pods:
    """The Kubernetes API as the issuer sees it: a pod's token is its name, its account is without the ordinal."""

    async def review(self, token: str) -> dict[str, Any]:
        pod = {"authentication.kubernetes.io/pod-name": [token], "authentication.kubernetes.io/pod-uid": [token]}
        account = f"system:serviceaccount:{NAMESPACE}:{token.rpartition('-')[0]}"
        return {"authenticated": True, "audiences": [AUDIENCE], "user": {"username": account, "extra": pod}}

    async def pod(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": NAMESPACE, "uid": name}
        return {"metadata": metadata, "spec": {}, "status": {"podIP": "127.0.0.1"}}


@pytest.fixture
def run_authority() -> Authority:
    return Authority.create("test")


@pytest.fixture
async def issuer(run_authority: Authority) -> AsyncIterator[str]:
    issuer = Issuer(run_authority, Pods(), NAMESPACE, CollectorRegistry(), LIFETIME)
    runner = await start_https(issuer.application(), "127.0.0.1:0", run_authority)
    host, port = runner.addresses[0][:2]
    yield f"{host}:{port}"
    await runner.cleanup()


class Enrolled(TypedDict):
    """The options of a process that say where its certificate is and who renews it."""

    tls_dir: Path
    renewal: Renewal


async def enrolled(directory: Path, pod: str, issuer: str, authority: Authority) -> Enrolled:
    """Options of a process in this pod, whose init container has done its work."""
    authority.save(directory / "ca")
    (directory / f"{pod}.token").write_text(pod)
    token, tls_dir = directory / f"{pod}.token", directory / f"{pod}-tls"
    await enroll(EnrollOptions(issuer, token, directory / "ca" / "ca.crt", tls_dir))
    return {"tls_dir": tls_dir, "renewal": Renewal(issuer, token)}


def listens(port: int) -> bool:
    with socket.socket() as dialled:
        return dialled.connect_ex(("127.0.0.1", port)) == 0


async def certificate_at(port: int, admin: Path) -> bytes:
    """What Prometheus' sidecar shows to the runner."""
    context = ssl.create_default_context(cafile=str(admin / "ca.crt"))
    context.load_cert_chain(admin / "tls.crt", admin / "tls.key")
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="prometheus.bigfleet"
    )
    try:
        writer.write(b"GET /snapshots/none.tar.gz HTTP/1.0\r\n\r\n")
        assert b"404" in await reader.readline()
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.close()


async def test_prometheus_sidecar_renews_the_pods_certificate_and_shows_it(
    tmp_path: Path, issuer: str, run_authority: Authority
) -> None:
    tls = await enrolled(tmp_path, "prometheus-0", issuer, run_authority)
    run_authority.issue(Identity("admin")).write(tmp_path / "admin")
    (port,) = free_ports(1)
    sidecar = asyncio.create_task(snapshots.serve(SnapshotsOptions((f"127.0.0.1:{port}",), tmp_path, **tls)))
    try:
        await eventually(lambda: listens(port))
        first = await certificate_at(port, tmp_path / "admin")

        async def another() -> bool:
            return await certificate_at(port, tmp_path / "admin") != first

        await eventually(another)
        assert not sidecar.done()
    finally:
        sidecar.cancel()
        await asyncio.wait([sidecar])


async def renewals(shard: Shard) -> float:
    _, text = await shard.get("/metrics")
    wanted = 'bigfleet_certificate_renewals_total{outcome="renewed"} '
    return next(float(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted))


async def test_sessions_go_on_and_new_connections_are_let_in_long_after_the_first_certificates(
    tmp_path: Path, issuer: str, run_authority: Authority
) -> None:
    provider_tls = await enrolled(tmp_path, "bigfleet-provider-0", issuer, run_authority)
    shard_tls = await enrolled(tmp_path, "bigfleet-shard-0", issuer, run_authority)
    run_authority.issue(Identity("cluster", CLUSTER)).write(tmp_path / "operator")
    (port,) = free_ports(1)
    address, name, data = f"127.0.0.1:{port}", "bigfleet-provider-0", tmp_path / "provider"
    async with AsyncExitStack() as stack:
        at_home = provider_at(tmp_path, fleet_of(IDLE), id=name, listen=address, data_dir=data, **provider_tls)
        async with at_home as provider:
            options = {"id": "bigfleet-shard-0", "cycle_interval_seconds": 0.2, **shard_tls}
            shard = await stack.enter_async_context(shard_at(tmp_path, provider, **options))
            operator = PlayedOperator(CLUSTER, shard.address, address, tmp_path / "operator")
            operator.ask_for(small_need(machines=1))
            await stack.enter_async_context(operator.running())
            await shard.until_metric(1, "inventory_machines", state="Configured")
            async with asyncio.timeout(60):
                # Two renewals lie more than one lifetime after the first certificate.
                while await renewals(shard) < 2:
                    await asyncio.sleep(0.1)
            assert await shard.metric("reconcile_errors_total") == 0
            assert (operator.sessions, await shard.metric("session_lifecycle_total", event="removed")) == (1, 0)
        # The provider is gone and comes back: whoever dials now must show a certificate that is still good.
        again = ProviderOptions(
            address,
            metrics_addr="127.0.0.1:0",
            fleet=tmp_path / "fleet.json",
            id=name,
            data_dir=data,
            latencies=INSTANT,
            **provider_tls,
        )
        async with running_provider(again):
            operator.ask_for(small_need(machines=2))
            await shard.until_metric(2, "inventory_machines", state="Configured")
            assert operator.sessions == 1
