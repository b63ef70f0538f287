"""The chart before its real judges: a kube-apiserver with PodSecurity `restricted`, and a Prometheus with its files."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from bigfleet.security.authority import Authority
from bigfleet.security.identity import Identity
from scaletest import toolchain
from scaletest.host.embedded import EmbeddedHost
from tests.golden.rendering import NAMESPACE
from tests.golden.variants import VARIANTS, objects_of
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

DRY_RUN = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
JUDGED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(kubectl: Kubectl) -> None:
    await kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": JUDGED}},
    )


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_apiserver_takes_every_object_without_a_warning(
    host: EmbeddedHost, kubectl: Kubectl, stage: None, variant: str
) -> None:
    objects = objects_of(variant)
    said = await kubectl(*DRY_RUN, stdin=yaml.safe_dump_all(objects), check=False)
    lines = said.splitlines()
    assert [line for line in lines if not line.endswith("created (server dry run)")] == []
    assert len(lines) == len(objects)


async def test_the_apiserver_would_warn_of_a_pod_that_is_not_restricted(
    host: EmbeddedHost, kubectl: Kubectl, stage: None
) -> None:
    (shard,) = [
        one
        for one in objects_of("dev-50")
        if one["metadata"]["name"] == "bigfleet-shard" and "replicas" in one.get("spec", {})
    ]
    loose = yaml.safe_load(yaml.safe_dump(shard))
    del loose["spec"]["template"]["spec"]["securityContext"]
    said = await kubectl(*DRY_RUN, stdin=yaml.safe_dump(loose), check=False)
    assert "would violate PodSecurity" in said


def write_config(directory: Path, port: int) -> None:
    """Prometheus's files as the chart has them, with a directory of ours in place of the pod's mounts."""
    (config,) = [one["data"] for one in objects_of("dev-50") if one["metadata"]["name"] == "prometheus-config"]
    ours = {
        "/var/run/bigfleet/tls": str(directory / "prometheus"),
        "/var/run/bigfleet/host-api": str(directory),
        "https://kubernetes.default.svc": f"https://127.0.0.1:{port}",
    }
    for name, text in config.items():
        for theirs, here in ours.items():
            text = text.replace(theirs, here)
        (directory / name).write_text(text)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[str, Path]]:
    """The real Prometheus with the chart's files: its address, and a directory of identities."""
    directory = tmp_path_factory.mktemp("prometheus")
    authority = Authority.create("test")
    authority.issue(Identity("prometheus", "prometheus-0"), dns_names=["prometheus.bigfleet"]).write(
        directory / "prometheus"
    )
    for name, identity in {
        "runner": Identity("admin"),
        "person": Identity("readonly"),
        "shard": Identity("shard", "bigfleet-shard-0"),
        "cluster": Identity("cluster", "kwok-cluster-0"),
    }.items():
        authority.issue(identity).write(directory / name)
    (directory / "token").write_text("none")
    (directory / "ca.crt").write_bytes(authority.certificate_pem)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    write_config(directory, port)
    tools = await toolchain.ensure(["prometheus"])
    arguments = (
        f"--config.file={directory / 'prometheus.yml'}",
        f"--web.config.file={directory / 'web.yml'}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
    )
    process = await asyncio.create_subprocess_exec(
        str(tools.path("prometheus")), *arguments, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await eventually(lambda: answers(f"https://127.0.0.1:{port}", directory / "runner"))
        yield f"https://127.0.0.1:{port}", directory
    finally:
        process.terminate()
        await process.wait()


async def answers(url: str, identity: Path) -> bool:
    """Whether Prometheus is ready for a client with this certificate."""
    context = ssl.create_default_context(cafile=str(identity / "ca.crt"))
    context.load_cert_chain(identity / "tls.crt", identity / "tls.key")
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{url}/-/ready", ssl=context, server_hostname="prometheus.bigfleet") as answer,
        ):
            return answer.status == 200
    except (aiohttp.ClientError, ssl.SSLError, OSError):
        return False


@pytest.mark.parametrize(
    ("client", "answered"), [("runner", True), ("person", True), ("shard", False), ("cluster", False)]
)
async def test_prometheus_takes_the_charts_files_and_answers_only_whom_they_name(
    prometheus: tuple[str, Path], client: str, answered: bool
) -> None:
    url, directory = prometheus
    assert await answers(url, directory / client) is answered
