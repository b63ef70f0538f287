"""Somebody's cluster, before a run: the way to a pod, and what we are let to do there."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from scaletest import toolchain
from scaletest.errors import HostError, KubeApiDenied, KubeApiUnreachable
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import command_of
from scaletest.run.target.kube_api import KubeApi
from scaletest.run.target.port_forward import PortForward
from scaletest.run.target.rights import cluster_role, refuse_without_rights
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.host.host_pods import POD_IP, is_ready, pod, script
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

SERVE = "mkdir www; echo here > www/index.html; exec python -m http.server 8080 --bind $(POD_IP) -d www"
NAMESPACE = "a-run"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(kubectl: Kubectl) -> str:
    probe = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    await kubectl.apply(pod("server", script("server", SERVE, env=[POD_IP], readinessProbe=probe)))
    await kubectl.until(is_ready, "pod", "server")
    return "server"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest_asyncio.fixture(loop_scope="module")
async def way(
    host: EmbeddedHost, host_tools: toolchain.Toolchain, server: str, said: list[str]
) -> AsyncIterator[PortForward]:
    made = PortForward(command(host, host_tools), server, 8080, said.append)
    yield made
    await made.close()


def command(host: EmbeddedHost, host_tools: toolchain.Toolchain) -> list[str]:
    return [str(host_tools.path("kubectl")), f"--kubeconfig={host.kubeconfig}", "--namespace=default"]


def forwards(host: EmbeddedHost) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if {"port-forward", f"--kubeconfig={host.kubeconfig}"} <= set(command_of(pid))]


async def page(address: str) -> str:
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://{address}/index.html") as answer:
            return (await answer.text()).strip()
    except aiohttp.ClientError:
        return ""


async def test_a_way_is_held_open_at_one_address_until_it_is_closed(
    way: PortForward, host: EmbeddedHost, said: list[str]
) -> None:
    address = await way.open()
    assert address.startswith("127.0.0.1:")
    assert await page(address) == "here"
    [kubectl] = forwards(host)
    os.kill(kubectl, signal.SIGKILL)
    assert await eventually(lambda: page(address)) == "here"
    [again] = forwards(host)
    assert again != kubectl
    assert len(said) == 1
    assert "the port-forward to server:8080 ended" in said[0]
    await way.close()
    assert forwards(host) == []
    assert await page(address) == ""


async def test_a_pod_that_cannot_be_reached_is_told_in_kubectls_words(
    host: EmbeddedHost, host_tools: toolchain.Toolchain, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr("scaletest.run.target.port_forward._OPEN_SECONDS", 3)
    with pytest.raises(HostError, match='pods "nobody" not found') as refused:
        await PortForward(command(host, host_tools), "nobody", 8080, said.append).open()
    assert "--prometheus-url" in refused.value.hint
    assert forwards(host) == []


@pytest_asyncio.fixture(loop_scope="module")
async def somebody(kubectl: Kubectl, tmp_path: Path) -> KubeApi:
    """A user without any rights, until there is the ClusterRole that `rbac` prints."""
    if not (await kubectl("get", "serviceaccount", "runner", check=False)).startswith("NAME"):
        await kubectl("create", "serviceaccount", "runner")
        role = cluster_role()["metadata"]["name"]
        await kubectl("create", "clusterrolebinding", "us", f"--clusterrole={role}", "--serviceaccount=default:runner")
    token = (await kubectl("create", "token", "runner")).strip()
    theirs = Kubectl(Path(kubectl._command[0]), tmp_path / "kubeconfig")
    theirs.kubeconfig.write_text(kubectl.kubeconfig.read_text())
    await theirs("config", "set-credentials", "runner", f"--token={token}")
    await theirs("config", "set-context", "--current", "--user=runner")
    return KubeApi(theirs.kubeconfig, NAMESPACE, "run", tmp_path)


async def test_all_that_is_denied_is_told_before_anything_is_there(somebody: KubeApi) -> None:
    with pytest.raises(
        KubeApiDenied, match="context theirs does not let system:serviceaccount:default:runner get namespaces, list"
    ) as refused:
        await refuse_without_rights(somebody, "theirs", forwards=True)
    assert "more" in refused.value.message
    assert "auth can-i --list" in refused.value.hint


async def test_the_rights_that_we_name_are_enough_and_one_less_is_not(somebody: KubeApi, kubectl: Kubectl) -> None:
    whole = cluster_role()
    await kubectl.apply(
        whole | {"rules": [rule for rule in whole["rules"] if "pods/portforward" not in rule["resources"]]}
    )
    await eventually(lambda: allowed(somebody, forwards=False))
    with pytest.raises(KubeApiDenied, match=r"does not let .*:runner create pods/portforward$"):
        await refuse_without_rights(somebody, "theirs", forwards=True)
    await kubectl.apply(whole)
    await eventually(lambda: allowed(somebody, forwards=True))


async def allowed(api: KubeApi, *, forwards: bool) -> bool:
    try:
        await refuse_without_rights(api, "theirs", forwards=forwards)
    except KubeApiDenied:
        await asyncio.sleep(0.2)  # RBAC hears of a new role a little later
        return False
    return True


async def test_a_cluster_that_does_not_answer_is_told_at_once(kubectl: Kubectl, tmp_path: Path) -> None:
    dead = Kubectl(Path(kubectl._command[0]), tmp_path / "kubeconfig")
    dead.kubeconfig.write_text(kubectl.kubeconfig.read_text())
    cluster = (await dead("config", "view", "-o", "jsonpath={.clusters[0].name}")).strip()
    await dead("config", "set-cluster", cluster, "--server=https://127.0.0.1:1")
    with pytest.raises(KubeApiUnreachable, match="does not answer"):
        await refuse_without_rights(KubeApi(dead.kubeconfig, NAMESPACE, "run", tmp_path), "dead", forwards=True)
