"""A cluster that cannot be reached, or does not let us in: told at once, with what to look at, and nothing is left."""

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from scaletest import toolchain
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.run.runner_cli import Runner

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

Spoil = Callable[[dict[str, Any]], None]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(tmp_path_factory: pytest.TempPathFactory, host_tools: toolchain.Toolchain) -> AsyncIterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("refused"))
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(runner: Runner, host_tools: toolchain.Toolchain) -> Kubectl:
    """Somebody's cluster, with an account that may do nothing."""
    await runner("host", "up")
    kubeconfig = (await runner("host", "kubeconfig")).strip()
    kubectl = Kubectl(host_tools.path("kubectl"), Path(kubeconfig))
    await kubectl("create", "serviceaccount", "nobody")
    return kubectl


async def refused(runner: Runner, cluster: Kubectl, spoil: Spoil) -> str:
    """What a run and `up` say when they use a spoilt copy of the cluster's kubeconfig."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    spoil(document)
    spoilt = runner.home / "kubeconfig"
    spoilt.write_text(yaml.safe_dump(document))
    flags = ("--substrate", "example-kind-laptop", "--namespace", "mine")
    images = ("--image", "bigfleet=bigfleet:dev", "--image", "scaletest=bigfleet-scaletest:dev")
    run = await runner.start_run("--profile", "smoke", *flags, *images, KUBECONFIG=str(spoilt))
    screens = [await run.end(4)]
    summary = json.loads((runner.results / "summary.json").read_text())
    assert (summary["exitCode"], summary["verdict"]) == (4, "incomplete")
    assert summary["failure"] in screens[0]
    assert {path.name for path in runner.results.iterdir()} >= {"plan.json", "events.jsonl", "junit.xml", "report.html"}
    up = await runner.start_up(*flags, KUBECONFIG=str(spoilt))
    screens.append(await up.end(4))
    for screen in screens:
        assert "Traceback" not in screen
        assert summary["failure"] in screen
        assert [line for line in screen.splitlines() if "hint: " in line], screen
    assert not list(runner.state.glob("stages/*")), screens
    assert "NotFound" in await cluster("get", "namespace", "mine", check=False)
    assert "nothing is left behind" in await runner("gc")
    return screens[0]


async def test_a_server_that_nobody_is_at(runner: Runner, cluster: Kubectl) -> None:
    def nobody_there(document: dict[str, Any]) -> None:
        document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"

    screen = await refused(runner, cluster, nobody_there)
    assert "the Kubernetes API does not answer" in screen
    assert "hint: run `kubectl cluster-info`" in screen


async def test_a_server_that_is_another_one(runner: Runner, cluster: Kubectl) -> None:
    def another_ca(document: dict[str, Any]) -> None:
        entry = document["clusters"][0]["cluster"]
        entry.pop("certificate-authority-data", None)
        entry.pop("certificate-authority", None)

    screen = await refused(runner, cluster, another_ca)
    assert "the Kubernetes API does not answer" in screen
    assert "certificate" in screen


async def test_credentials_that_nobody_knows(runner: Runner, cluster: Kubectl) -> None:
    def unknown(document: dict[str, Any]) -> None:
        document["users"][0]["user"] = {"token": "unknown"}

    screen = await refused(runner, cluster, unknown)
    assert "the Kubernetes API denied the request: Unauthorized" in screen
    assert "hint: run `kubectl auth whoami`" in screen


async def test_an_account_that_may_not(runner: Runner, cluster: Kubectl) -> None:
    token = (await cluster("create", "token", "nobody")).strip()

    def powerless(document: dict[str, Any]) -> None:
        document["users"][0]["user"] = {"token": token}

    screen = await refused(runner, cluster, powerless)
    assert "system:serviceaccount:default:nobody" in screen
    assert "hint: run `scaletest-runner rbac`" in screen
    assert "`kubectl auth can-i" in screen
    assert token not in screen
