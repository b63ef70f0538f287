"""SIGKILL of the runner, of hostd, of Helm, at every step: nothing survives, or `gc` removes it."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from scaletest import toolchain
from scaletest.host.registry import DAEMON
from tests.integration.scaletest.run.runner_cli import Command, Runner, ids_alive
from tests.patience import eventually

pytestmark = pytest.mark.integration

Step = Callable[[Runner], Awaitable[Command]]
SLOWLY = ("--set", "delay=30")


@pytest.fixture
async def runner(tmp_path: Path, host_tools: toolchain.Toolchain) -> AsyncIterator[Runner]:
    made = Runner(tmp_path)
    yield made
    await made.close()


async def starting(runner: Runner) -> Command:
    """An `up` whose host is coming up."""
    up = await runner.start_up()
    await eventually(lambda: runner.processes("--data-dir") or len(runner.processes()) > 2, 60)
    return up


async def installing(runner: Runner) -> Command:
    """An `up` whose pod runs, and is not Ready for long."""
    up = await runner.start_up(*SLOWLY)
    await runner.reached("install", "waiting for tiny")
    await eventually(lambda: runner.processes("600"), 60)
    return up


@pytest.mark.parametrize("step", [starting, installing])
async def test_a_killed_runner_leaves_nothing(runner: Runner, step: Step) -> None:
    up = await step(runner)
    ids = runner.hosts()
    assert ids
    helm = await runner.helm_of(up, "upgrade") if step is installing else 0
    os.kill(up.pid, signal.SIGKILL)
    await up.end(-signal.SIGKILL)
    await eventually(lambda: not (helm and Path(f"/proc/{helm}").exists()))
    await runner.assert_nothing_is_left(ids)
    assert "nothing is left behind" in await runner("gc")


@pytest.mark.parametrize("step", [starting, installing])
async def test_a_runner_whose_host_is_killed_says_so_and_leaves_nothing(runner: Runner, step: Step) -> None:
    up = await step(runner)
    ids = runner.hosts()
    await runner.kill(DAEMON)
    screen = await up.end(4)
    assert "the embedded host" in screen
    await runner.assert_nothing_is_left(ids)


async def test_a_helm_that_is_killed_is_started_again_and_a_host_that_is_killed_leaves_nothing(runner: Runner) -> None:
    up = await runner.start_up("--set", "delay=8")
    await runner.reached("install", "waiting for tiny")
    os.kill(await runner.helm_of(up, "upgrade"), signal.SIGKILL)
    await up.end()
    ids = runner.hosts()
    assert "1/1" in await runner("status")
    await runner.kill(DAEMON)
    await runner.assert_nothing_is_left(ids)
    assert "nothing is up" in await runner("status")


@pytest.mark.parametrize("victim", ["runner", "hostd"])
async def test_a_kill_while_removing_leaves_nothing(runner: Runner, victim: str) -> None:
    await (await runner.start_up("--set", "deaf=true")).end()
    ids = runner.hosts()
    assert runner.runs("kube-scheduler")
    down = await runner.start("down")
    await eventually(lambda: not runner.runs("kube-scheduler"), 60)
    assert runner.processes(DAEMON), "the deaf pod should have held it up"
    if victim == "runner":
        os.kill(down.pid, signal.SIGKILL)
        await down.end(None)
    else:
        for pid in runner.processes(DAEMON):
            os.kill(pid, signal.SIGKILL)
        await down.end()
    await runner.assert_nothing_is_left(ids)


async def test_a_helm_that_is_killed_while_removing_is_started_again(runner: Runner) -> None:
    up = await installing(runner)
    ids = runner.hosts()
    up.send(signal.SIGINT)
    os.kill(await runner.helm_of(up, "uninstall"), signal.SIGKILL)
    screen = await up.end(130)
    assert "nothing is left behind" in screen
    await runner.assert_nothing_is_left(ids)


async def test_a_second_ctrl_c_waits_for_nobody(runner: Runner) -> None:
    up = await runner.start_up(*SLOWLY, "--set", "deaf=true")
    await runner.reached("install", "waiting for tiny")
    ids = runner.hosts()
    up.send(signal.SIGINT)
    await runner.helm_of(up, "uninstall")
    await asyncio.sleep(0.6)  # closer together they would be one Ctrl-C
    up.send(signal.SIGINT)
    screen = await up.end(130)
    assert "forced: tearing down at once" in screen
    assert "interrupted twice" in screen
    await runner.assert_nothing_is_left(ids)


async def test_when_all_who_would_clean_up_are_killed_gc_finds_what_is_left_and_removes_it(runner: Runner) -> None:
    up = await installing(runner)
    ids = runner.hosts()
    [run_id] = {event["run_id"] for event in _records(runner)}
    assert "is under way" in await runner("gc", "--run", run_id, code=2)
    assert "nothing is left behind" in await runner("gc")
    up.send(signal.SIGSTOP)  # it would see what happens next, and clean up
    await runner.kill_with_janitor()
    os.kill(up.pid, signal.SIGKILL)
    await up.end(-signal.SIGKILL)
    await eventually(lambda: not runner.processes(DAEMON))
    assert ids_alive(ids), "the child in a session of its own should have survived"
    listed = await runner("gc")
    assert run_id in listed
    assert ids_alive(ids), "listing removes nothing"
    assert "removed" in await runner("gc", "--all")
    await runner.assert_nothing_is_left(ids)


def _records(runner: Runner) -> list[dict[str, str]]:
    return [json.loads(path.read_text()) for path in runner.state.glob("hosts/*/record.json")]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30))
async def test_a_kill_at_any_moment_leaves_nothing_that_gc_does_not_remove(runner: Runner, seed: int) -> None:
    rng = random.Random(seed)
    up = await runner.start_up("--set", "delay=2")
    await eventually(runner.hosts, 60)
    ids = runner.hosts()
    wait = rng.uniform(0, 14)
    victim = rng.choice(["runner", "hostd", "helm", "hostd and runner"])
    await asyncio.sleep(wait)
    if victim == "helm":
        for pid in Path("/proc").iterdir():
            if pid.name.isdecimal() and _is_child(int(pid.name), up.pid):
                os.kill(int(pid.name), signal.SIGKILL)
    if "hostd" in victim:
        for process in runner.processes(DAEMON):
            os.kill(process, signal.SIGKILL)
    if "runner" in victim:
        up.send(signal.SIGKILL)
    await up.end(None)
    if runner.hosts() and "0/1" not in await runner("status") and "1/1" in await runner("status"):
        await runner("down")
    await runner("gc", "--all")
    await runner.assert_nothing_is_left(ids)


def _is_child(pid: int, parent: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return "helm" in fields and int(fields.rpartition(")")[2].split()[1]) == parent
