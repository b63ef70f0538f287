"""What a run stands on breaks away: it says so with the right exit code, keeps what can be kept, and leaves nothing."""

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scaletest.host.markers import POD_MARKER
from scaletest.toolchain import ensure
from tests.integration.scaletest.host.embedded_host import Kubectl
from tests.integration.scaletest.run.runner_cli import Command, Runner
from tests.patience import eventually
from tests.smoke.quick import start_quick_run

pytestmark = [pytest.mark.smoke, pytest.mark.long]

_NAMESPACE = "bigfleet-scaletest"
_CONTROL_PLANE_SECONDS = 0.1


async def soaking(runner: Runner) -> tuple[Command, list[str]]:
    run = await start_quick_run(runner)
    await runner.reached("soak")
    return run, runner.hosts()


async def ended(runner: Runner, run: Command, ids: list[str], code: int) -> str:
    """Its screen, once it has ended with this code and left nothing."""
    screen = await run.end(code)
    assert "Traceback" not in screen
    await runner.assert_nothing_is_left(ids)
    return screen


def summary_of(runner: Runner) -> dict[str, Any]:
    return dict(json.loads((runner.results / "summary.json").read_text()))


def reasons_of(summary: dict[str, Any]) -> str:
    return "\n".join(failure["reason"] for failure in summary["failures"])


async def test_a_prometheus_that_dies_and_comes_back_keeps_the_run_from_passing(runner: Runner) -> None:
    run, ids = await soaking(runner)
    [prometheus] = runner.pids_of("prometheus")
    os.kill(prometheus, signal.SIGKILL)
    await ended(runner, run, ids, 5)
    summary = summary_of(runner)
    assert "prometheus-0/prometheus ended and came back" in reasons_of(summary)
    assert summary["snapshot"]["samples"] > 0
    assert any((runner.results / "logs").iterdir())


async def test_without_prometheus_nothing_is_measured_and_the_logs_are_kept(runner: Runner) -> None:
    run, ids = await soaking(runner)
    kubectl = Kubectl((await ensure(["kubectl"])).path("kubectl"), _kubeconfig(runner))
    await kubectl("-n", _NAMESPACE, "scale", "statefulset", "prometheus", "--replicas=0")
    screen = await ended(runner, run, ids, 5)
    summary = summary_of(runner)
    assert summary["verdict"] == "unmeasured"
    assert "the Prometheus snapshot could not be kept" in reasons_of(summary)
    assert {gate["verdict"] for gate in summary["gates"]} == {"no-data"}, screen
    assert summary["snapshot"] == {}
    assert any((runner.results / "logs").iterdir())


async def test_without_the_hosts_apiserver_the_gates_and_the_snapshot_are_kept(runner: Runner) -> None:
    run, ids = await soaking(runner)
    async with no_apiserver(runner):
        screen = await ended(runner, run, ids, 5)
    summary = summary_of(runner)
    assert "the Kubernetes API does not answer" in reasons_of(summary)
    assert summary["snapshot"]["samples"] > 0, screen
    verdicts = {gate["key"]: gate["verdict"] for gate in summary["gates"]}
    assert verdicts["containerRestartsDuringSoak"] == "no-data"
    assert verdicts["shardCycleDurationP99Seconds"] == "pass", screen


async def test_an_apiserver_that_comes_back_disturbs_no_run(runner: Runner) -> None:
    run, ids = await soaking(runner)
    os.kill(_host_apiserver(runner), signal.SIGKILL)
    await ended(runner, run, ids, 0)


async def test_an_apiserver_that_comes_back_while_settling_disturbs_no_run(runner: Runner) -> None:
    run = await start_quick_run(runner)
    await runner.reached("settle")
    ids = runner.hosts()
    os.kill(_host_apiserver(runner), signal.SIGKILL)
    await ended(runner, run, ids, 0)


async def test_a_run_that_hits_its_cap_keeps_its_evidence(runner: Runner) -> None:
    """The runner sleeps through the rest of its time."""
    run = await start_quick_run(runner, "--max-duration", "4m21s")
    began = asyncio.get_running_loop().time()
    await runner.reached("soak")
    ids = runner.hosts()
    run.send(signal.SIGSTOP)
    await asyncio.sleep(began + 262 - asyncio.get_running_loop().time())
    run.send(signal.SIGCONT)
    screen = await ended(runner, run, ids, 8)
    assert "raise the flag or shorten the profile" in screen
    summary = summary_of(runner)
    assert summary["failure"] == "the run hit --max-duration 4m21s"
    assert summary["snapshot"]["samples"] > 0
    assert summary["windows"]["soakStart"] is not None


async def test_a_host_that_dies_in_the_soak_is_named(runner: Runner) -> None:
    run, ids = await soaking(runner)
    await runner.kill("scaletest.host.daemon")
    await ended(runner, run, ids, 5)
    assert "the embedded host died" in reasons_of(summary_of(runner))


async def test_a_snapshot_that_finds_no_room_is_said_in_the_summary(runner: Runner) -> None:
    run, ids = await soaking(runner)
    _limit_files(run, 30_000)  # the summary, the diary and the pages fit in, the snapshot does not
    screen = await ended(runner, run, ids, 5)
    summary = summary_of(runner)
    assert "the Prometheus snapshot could not be kept: [Errno 27] File too large" in reasons_of(summary), screen
    assert summary["gates"]
    assert not list(runner.results.glob("*.partial"))


async def test_evidence_that_cannot_be_written_at_all_is_told_on_the_screen(runner: Runner) -> None:
    run, ids = await soaking(runner)
    _limit_files(run, 8_000)  # the screen, which is a file here, fits in; neither summary nor diary does
    screen = await ended(runner, run, ids, 5)
    assert "the summary could not be written: File too large" in screen
    assert "events.jsonl could not be written: File too large" in screen
    assert "free some space" in screen
    assert "unexpected" not in screen
    assert not (runner.results / "summary.json").exists()


def _limit_files(run: Command, size: int) -> None:
    """No file of the runner grows beyond this any more; what it started before may write as it likes."""
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (size, size))


def _kubeconfig(runner: Runner) -> Path:
    return next(Path(event["kubeconfig"]) for event in runner.events() if "kubeconfig" in event)


def _host_apiserver(runner: Runner) -> int:
    """The one that carries the run, not a KWOK cluster's."""
    own = [pid for pid in runner.pids_of("kube-apiserver") if not _is_in_a_pod(pid)]
    return own[0] if own else 0


def _is_in_a_pod(pid: int) -> bool:
    try:
        return f"{POD_MARKER}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return True


@contextlib.asynccontextmanager
async def no_apiserver(runner: Runner) -> AsyncIterator[None]:
    """The host starts it again and again; it never comes to answer."""

    async def keep_killing() -> None:
        while True:
            if pid := _host_apiserver(runner):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(_CONTROL_PLANE_SECONDS)

    killing = asyncio.create_task(keep_killing())
    try:
        await eventually(lambda: not _host_apiserver(runner))
        yield
    finally:
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
