"""`host` and the commands of fleets, as a user types them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from scaletest import toolchain
from scaletest.host.registry import DAEMON
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.run.runner_cli import Runner
from tests.patience import eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

# A run with --keep, as far as its host is concerned.
KEEPER = """
import asyncio, sys, pathlib
from scaletest.run.target.target import prepare_embedded

async def main():
    target = await prepare_embedded(pathlib.Path(sys.argv[1]), "20260101-000000-kept", "any")
    await target.outlive_us()
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(tmp_path_factory: pytest.TempPathFactory, host_tools: toolchain.Toolchain) -> AsyncIterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("commands"))
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(runner: Runner, host_tools: toolchain.Toolchain) -> Kubectl:
    """Somebody's cluster: a host that was left up, used through its kubeconfig."""
    await runner("host", "up")
    [host_id] = runner.hosts()
    kubeconfig = (await runner("host", "kubeconfig", host_id)).strip()
    return Kubectl(host_tools.path("kubectl"), Path(kubeconfig))


async def test_a_host_outlives_its_command_and_ends_by_another(
    runner: Runner, cluster: Kubectl, host_tools: toolchain.Toolchain
) -> None:
    [first] = runner.hosts()
    assert "several are up" not in await runner("host", "kubeconfig")
    screen = await runner("host", "up")
    [second] = set(runner.hosts()) - {first}
    assert f"host down {second}" in screen
    assert "several are up" in await runner("host", "kubeconfig", code=2)
    listed = {row["id"]: row for row in json.loads(await runner("host", "status", "-o", "json"))}
    assert set(listed) == {first, second}
    assert listed[first]["address"] != listed[second]["address"]
    assert listed[first]["run"] is None
    table = await runner("host", "status")
    assert table.splitlines()[0].split() == ["ID", "SINCE", "ADDRESS", "PODS", "RUN", "KUBECONFIG"]
    for host_id in (first, second):
        kubeconfig = Path((await runner("host", "kubeconfig", host_id)).strip())
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert "Ready" in await Kubectl(host_tools.path("kubectl"), kubeconfig)("get", "nodes")
    assert "nothing is left behind" in await runner("gc", "--all")
    assert runner.hosts() == sorted([first, second]), "gc touches nothing that was left up on purpose"
    await runner("host", "down", second)
    assert runner.hosts() == [first]
    assert "there is no host 'nope'" in await runner("host", "down", "nope", code=2)


async def test_a_host_whose_runner_was_killed_stays_if_it_was_told_to_and_gc_finds_it(
    runner: Runner, host_tools: toolchain.Toolchain
) -> None:
    before = set(runner.hosts())
    environ = os.environ | {"XDG_STATE_HOME": str(runner.home / "state")}
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", KEEPER, host_tools.bin_dir], env=environ, stdout=subprocess.PIPE
    ) as keeper:
        assert keeper.stdout
        await eventually(keeper.stdout.readline)
        [kept] = set(runner.hosts()) - before
        assert "is under way" in await runner("gc", "--run", "20260101-000000-kept", code=2)
        assert "belongs to run" in await runner("host", "down", kept, code=2)
        keeper.kill()
    assert "gc shows it" in await runner("host", "status")
    assert "20260101-000000-kept" in await runner("gc")
    assert runner.processes(DAEMON)
    await runner("gc", "--run", "20260101-000000-kept")
    assert set(runner.hosts()) == before


async def on_cluster(runner: Runner, cluster: Kubectl, namespace: str, *flags: str, code: int | None = 0) -> str:
    """`up` on somebody's cluster."""
    up = await runner.start_up(
        *("--substrate", "example-kind-laptop", "--namespace", namespace, *flags), KUBECONFIG=str(cluster.kubeconfig)
    )
    return await up.end(code)


def runs_in(runner: Runner) -> list[str]:
    return sorted(path.name for path in runner.state.glob("stages/*"))


async def labelled(cluster: Kubectl, run_id: str) -> list[str]:
    found = await cluster.get("namespaces,clusterroles", "-l", f"bigfleet-scaletest-run={run_id}")
    return [item["metadata"]["name"] for item in found["items"]]


async def test_runs_stand_side_by_side_on_somebodys_cluster_and_go_one_by_one(runner: Runner, cluster: Kubectl) -> None:
    screen = await on_cluster(runner, cluster, "one")
    [first] = runs_in(runner)
    assert "1/1" in screen
    assert f"scaletest-runner down {first}" in screen
    refused = await on_cluster(runner, cluster, "one", code=2)
    assert f"namespace one is occupied by run {first}" in refused
    assert "removing" not in refused
    assert f"gc --context {await cluster.context()} --run {first}" in refused
    assert "belongs to no run" in await on_cluster(runner, cluster, "kube-public", code=2)
    await on_cluster(runner, cluster, "two")
    [second] = set(runs_in(runner)) - {first}
    assert first in (status := await runner("status"))
    assert second in status
    assert "several are up" in await runner("down", code=2)
    await runner("down", first)
    assert await labelled(cluster, first) == []
    assert sorted(await labelled(cluster, second)) == ["tiny-two", "two"]
    assert runs_in(runner) == [second]
    # Somebody on another machine has no notes, only the labels; what was left up on purpose needs its name.
    context = await cluster.context()
    state, kubeconfig = str(runner.home / "elsewhere"), str(cluster.kubeconfig)
    gc = partial(runner, "gc", "--context", context, XDG_STATE_HOME=state, KUBECONFIG=kubeconfig)
    assert "nothing is left behind" in await gc("--all")
    await gc("--run", second)
    assert await labelled(cluster, second) == []
    await runner("down", second)
    assert runs_in(runner) == []


async def test_what_a_killed_runner_left_on_a_cluster_is_named_and_removed(runner: Runner, cluster: Kubectl) -> None:
    up = await runner.start_up(
        *("--substrate", "example-kind-laptop", "--namespace", "three", "--set", "delay=600"),
        KUBECONFIG=str(cluster.kubeconfig),
    )
    await runner.reached("install", "waiting for tiny")
    [run_id] = runs_in(runner)
    assert "is under way" in await runner("down", run_id, code=2)
    up.send(signal.SIGKILL)
    await up.end(-signal.SIGKILL)
    assert f"namespace three is occupied by run {run_id}" in await on_cluster(runner, cluster, "three", code=2)
    await cluster("delete", "namespace", "three")
    left = await on_cluster(runner, cluster, "three", code=2)
    assert f"clusterrole/tiny-three (run {run_id})" in left
    assert run_id in await runner("gc")
    await runner("gc", "--all")
    assert await labelled(cluster, run_id) == []
    assert runs_in(runner) == []


async def test_an_interrupted_up_leaves_nothing_on_the_cluster(runner: Runner, cluster: Kubectl) -> None:
    up = await runner.start_up(
        *("--substrate", "example-kind-laptop", "--namespace", "four", "--set", "delay=600"),
        KUBECONFIG=str(cluster.kubeconfig),
    )
    await runner.reached("install", "waiting for tiny")
    [run_id] = runs_in(runner)
    up.send(signal.SIGTERM)
    assert "nothing is left behind" in await up.end(130)
    assert await labelled(cluster, run_id) == []
    assert runs_in(runner) == []


async def test_a_wrong_value_is_told_before_anything_is_started(runner: Runner) -> None:
    before = runner.hosts()
    output = runner.home / "wrong"
    screen = await runner("up", "--pods", "0", "--set", "kwok.nodeLeaseSeconds=abc", "--results", str(output), code=2)
    assert "helm template" in screen
    assert "kwok.nodeLeaseSeconds = 'abc' (--set)" in screen
    assert "Traceback" not in screen
    assert runner.hosts() == before
    assert not output.exists()
    assert "nothing is up" in await runner("down", code=2)


async def test_the_last_host_goes_and_nothing_is_left(runner: Runner, cluster: Kubectl) -> None:
    ids = runner.hosts()
    await runner("host", "down", "--all")
    await runner.assert_nothing_is_left(ids)
