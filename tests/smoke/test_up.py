"""`up` brings a fleet that can be used, `down` leaves nothing; and no secret shows on the way."""

import asyncio
import base64
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaletest.host.markers import command_of
from tests.smoke.runs import listening_addresses, marked_processes
from tests.smoke.up_fleet import NAMESPACE, UpFleet

DEPLOYMENT = ("create", "deployment", "visitor", "--image=any", "--replicas=3")
# A signed token, or a key, on a command line or in a file that anyone may read.
_TOKEN = re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.")


class Commands:
    """Every command line that a process of this machine had while we looked."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self._seen: dict[int, list[str]] = {}

    async def watch_while(self, work: Awaitable[None]) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            await work
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):  # noqa: PTH208
                # The first look may come before the exec that puts the real command there.
                if (command := command_of(pid)) != self._seen.get(pid):
                    self._seen[pid] = command
                    self.lines.add("\n".join(command))
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def commands() -> Commands:
    return Commands()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Iterator[UpFleet]:
    made = UpFleet(tmp_path_factory.mktemp("up"))
    asyncio.run(commands.watch_while(made.up("--profile", "smoke")))
    yield made
    made.down()


def test_every_pod_is_ready(fleet: UpFleet) -> None:
    pods = fleet.get("pods", "-o", "json")["items"]
    ready = {
        pod["metadata"]["name"]
        for pod in pods
        for condition in pod["status"]["conditions"]
        if condition["type"] == "Ready" and condition["status"] == "True"
    }
    assert len(ready) == len(pods) == 7
    assert fleet.status()["pods"] == "7/7"
    assert fleet.status()["ownerPid"] is None


def test_every_pod_of_the_demand_was_bound_when_up_returned(fleet: UpFleet) -> None:
    async def pods(ordinal: int) -> list[dict[str, Any]]:
        kubeconfig = (await fleet.runner("host", "kubeconfig", "--cluster", str(ordinal))).strip()
        return list(json.loads(await fleet.kubectl(kubeconfig, "-n", "default", "get", "pods", "-o", "json"))["items"])

    nodes = [pod["spec"].get("nodeName") for ordinal in range(2) for pod in asyncio.run(pods(ordinal))]
    assert len(nodes) == 80
    assert all(nodes)
    said = [json.loads(line) for line in (fleet.output / "events.jsonl").read_text().splitlines()]
    assert "80 Pods are bound" in [event["message"] for event in said if event["phase"] == "demand"]


def test_logs_can_be_read(fleet: UpFleet) -> None:
    kubeconfig = fleet.status()["kubeconfig"]
    log = asyncio.run(fleet.kubectl(kubeconfig, "-n", NAMESPACE, "logs", "kwok-cluster-0", "-c", "apiserver"))
    assert "control plane is ready" in log


def test_a_deployment_in_a_kwok_cluster_gets_running_pods(fleet: UpFleet) -> None:
    async def deploy() -> None:
        kubeconfig = (await fleet.runner("host", "kubeconfig", "--cluster", "1")).strip()
        await fleet.kubectl(kubeconfig, *DEPLOYMENT)
        running = ("wait", "deployment/visitor", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=180s")
        await fleet.kubectl(kubeconfig, *running)

    asyncio.run(deploy())


def test_prometheus_reaches_every_target(fleet: UpFleet) -> None:
    status = fleet.status()
    identity = Path(status["kubeconfig"]).parent / "runner"
    tls = ssl.create_default_context(cafile=str(identity / "ca.crt"))
    tls.load_cert_chain(identity / "tls.crt", identity / "tls.key")

    async def health() -> list[tuple[str, str]]:
        def ask() -> Any:
            with urllib.request.urlopen(f"{status['prometheus']}/api/v1/targets?state=active", context=tls) as answer:
                return json.load(answer)

        targets = (await asyncio.to_thread(ask))["data"]["activeTargets"]
        return [(target["scrapeUrl"], target["health"]) for target in targets]

    async def until_scraped() -> list[tuple[str, str]]:
        # Control planes are scraped every 30 s; before the first time a target is `unknown`.
        async with asyncio.timeout(90):
            while any(state == "unknown" for _, state in found) or not found:
                await asyncio.sleep(1)
                found[:] = await health()
        return found

    found: list[tuple[str, str]] = []
    asyncio.run(until_scraped())
    # shard, provider, coordinator and issuer, and five in each of two clusters
    assert len(found) >= 13
    assert [target for target in found if target[1] != "up"] == []


def test_bigfleetctl_asks_the_coordinators_with_what_status_prints(fleet: UpFleet) -> None:
    # A long command goes on behind a backslash, as a shell reads it.
    screen = re.sub(r"\\\n\s*", "", asyncio.run(fleet.runner("status")))
    [line] = [line for line in screen.splitlines() if line.startswith("  bigfleet ")]
    pasted = line.split(maxsplit=1)[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        ["sh", "-c", pasted], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "bigfleet-shard-0" in said.stdout


def test_no_secret_is_on_a_command_line_or_in_the_results(fleet: UpFleet, commands: Commands) -> None:
    secret = fleet.get("secret", "bigfleet-ca", "-o", "json")["data"]["ca.key"]
    body = base64.b64decode(secret).decode().splitlines()[1:-1]
    lines = "\n".join(commands.lines)
    assert "upgrade\nscaletest" in lines, "Helm was not seen: nobody looked"
    assert "kube-apiserver" in lines
    kept = "".join(path.read_text(errors="replace") for path in fleet.output.rglob("*") if path.is_file())
    for text in (lines, kept):
        assert "PRIVATE KEY" not in text
        assert not _TOKEN.search(text)
        assert not any(line in text for line in [*body, secret])


def test_down_leaves_nothing_but_results(fleet: UpFleet) -> None:
    status = fleet.status()
    asyncio.run(fleet.runner("down", status["run"]))
    assert not list(fleet.state.glob("*/*/*"))
    mine = f"SCALETEST_HOST={status['host']}".encode()
    environments = [Path(f"/proc/{pid}/environ") for pid in marked_processes()]
    assert not [path for path in environments if path.exists() and mine in path.read_bytes()]
    network = status["where"].rsplit(".", 2)[0]
    if not marked_processes():  # else another host may have claimed the network since
        assert [address for address in listening_addresses() if address.startswith(f"{network}.")] == []
    assert {path.name for path in fleet.output.iterdir()} == {"events.jsonl", "rendered-values.yaml"}
