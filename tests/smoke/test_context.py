"""A whole run on a kube context: somebody's cluster is a host that was left up, used through its kubeconfig alone."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaletest.host.markers import command_of
from scaletest.project import SUBSTRATES
from tests.smoke.runs import SHARED, FinishedRun, LiveRun, run
from tests.smoke.up_fleet import UpFleet

# The cluster has no images, and its pods share one loopback.
SETTINGS = ("--image", "none:none", "--set", "grafana.enabled=false", "--set", "portForward=false")
LABELLED = ("namespaces,clusterroles,clusterrolebindings", "-l", "bigfleet-scaletest-run", "-o", "json")


def small_substrate(directory: Path) -> Path:
    """The kind laptop, but so small that two cores carry it beside other work."""
    substrate = yaml.safe_load((SUBSTRATES / "example-kind-laptop.yaml").read_text())
    substrate["kwokPod"]["requests"] = {"cpu": "100m", "memory": "256Mi"}
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(substrate | {"selfCheck": SHARED}))
    return path


class SomebodysCluster:
    """A host, a user who may do what `rbac` prints and no more, and a kubeconfig with another current context."""

    def __init__(self, directory: Path) -> None:
        self._fleet = UpFleet(directory)
        self.state = self._fleet.state
        self.kubeconfig = directory / "kubeconfig"

    def up(self) -> None:
        asyncio.run(self._fleet.runner("host", "up"))
        self.kubeconfig.write_text(Path(self._command("host", "kubeconfig").strip()).read_text())
        (self._fleet.state / "rbac.yaml").write_text(self._command("rbac"))
        self.kubectl("apply", "-f", str(self._fleet.state / "rbac.yaml"))
        self.kubectl("create", "serviceaccount", "us")
        role = ("--clusterrole=bigfleet-scaletest-runner", "--serviceaccount=default:us")
        self.kubectl("create", "clusterrolebinding", "us", *role)
        self._add_user("us", self.kubectl("create", "token", "us").strip())
        self.kubectl("config", "rename-context", self.kubectl("config", "current-context").strip(), "admin")
        cluster = self.kubectl("config", "view", "-o", "jsonpath={.clusters[0].name}").strip()
        self.kubectl("config", "set-context", "somebodys", f"--cluster={cluster}", "--user=us")
        self.kubectl("config", "set-context", "elsewhere", "--cluster=nowhere", "--user=nobody")
        self.kubectl("config", "use-context", "elsewhere")

    def _add_user(self, name: str, token: str) -> None:
        """In the file, not by `kubectl config set-credentials`: command lines are for everybody to read."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"].append({"name": name, "user": {"token": token}})
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def down(self) -> None:
        self._command("host", "down", "--all")

    def kubectl(self, *arguments: str) -> str:
        return asyncio.run(self._fleet.kubectl(str(self.kubeconfig), *arguments))

    def _command(self, *arguments: str) -> str:
        return asyncio.run(self._fleet.runner(*arguments))

    def forwards(self) -> list[int]:
        """The processes that hold a way to this cluster open for its runs."""
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        commands = {pid: command_of(pid) for pid in pids}
        return [pid for pid, line in commands.items() if "port-forward" in line and str(self.state) in " ".join(line)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SomebodysCluster]:
    made = SomebodysCluster(tmp_path_factory.mktemp("somebodys"))
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def finished(cluster: SomebodysCluster, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    directory = tmp_path_factory.mktemp("context")

    async def break_the_way(live: LiveRun) -> None:
        """Load balancers do that to connections that last."""
        await live.reached("soak")
        for pid in cluster.forwards():
            os.kill(pid, signal.SIGKILL)

    return asyncio.run(
        run(
            directory / "results",
            *("--profile", "smoke", "--duration", "1m", "--substrate", str(small_substrate(directory))),
            *("--context", "somebodys", *SETTINGS),
            meddle=break_the_way,
            KUBECONFIG=str(cluster.kubeconfig),
            XDG_STATE_HOME=str(cluster.state),
        )
    )


def test_the_run_passes_with_every_gate_measured(finished: FinishedRun) -> None:
    assert finished.exit_code == 0, finished.screen
    assert {gate["verdict"] for gate in finished.summary["gates"]} == {"pass"}
    assert finished.summary["target"] == {"context": "somebodys", "kind": "unknown"}


def test_a_way_that_breaks_off_is_opened_again(finished: FinishedRun) -> None:
    assert "the port-forward to prometheus-0:9090 ended" in finished.screen
    assert len(finished.summary["gateSamples"]) >= 3


def test_the_snapshot_comes_the_same_way(finished: FinishedRun) -> None:
    assert finished.summary["snapshot"]["samples"] > 10_000
    assert not list(finished.output.glob("*.partial"))


def test_the_harness_is_judged_by_what_the_hosts_count(finished: FinishedRun) -> None:
    checks = {check["key"]: check for check in finished.summary["selfCheck"]}
    if not Path("/proc/pressure/cpu").exists():
        assert checks["cpuPressurePercent"]["verdict"] == "skipped"
        pytest.skip("this kernel counts no pressure")
    assert {check["verdict"] for check in checks.values()} == {"ok"}
    assert checks["cpuPressurePercent"]["reason"].startswith("the host of kwok-cluster-")


def test_nothing_is_left_but_the_cluster(finished: FinishedRun, cluster: SomebodysCluster) -> None:
    assert "nothing is left behind" in finished.screen
    found: dict[str, Any] = json.loads(cluster.kubectl("--context=admin", "get", *LABELLED))
    assert found["items"] == []
    assert cluster.forwards() == []
    assert not list(cluster.state.glob("*/stages/*"))
    assert "Ready" in cluster.kubectl("--context=admin", "get", "nodes")
