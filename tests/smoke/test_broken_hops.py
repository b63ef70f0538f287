"""One hop is broken at a time, and the run says which; Ctrl-C is said too. Two runs go on at once, undisturbed."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from itertools import combinations
from pathlib import Path

import pytest

from scaletest.toolchain import ensure
from tests.smoke.profiles import like_smoke, write_profile
from tests.smoke.runs import FinishedRun, LiveRun, command, run

Meddle = Callable[[LiveRun], Awaitable[None]]

_AT_ONCE = 2


async def stop_node_creator(live: LiveRun) -> None:
    """As soon as its pod is Ready, for which it has to answer: moments later the small demand has its Nodes."""
    await live.reached("install")
    while await _kubectl(live, "wait", "pod/kwok-cluster-0", "--for=condition=Ready", "--timeout=60s") != 0:
        await asyncio.sleep(0.2)  # the pod does not exist yet
    await _freeze(live, "node-creator")


async def stop_operator(live: LiveRun) -> None:
    await live.reached("install")
    await _freeze(live, "operator")


async def kill_shard(live: LiveRun) -> None:
    await live.reached("settle")
    assert await _kubectl(live, "scale", "statefulset", "bigfleet-shard", "--replicas=0") == 0


async def _kubectl(live: LiveRun, *arguments: str) -> int:
    kubectl = str((await ensure(["kubectl"])).path("kubectl"))
    process = await asyncio.create_subprocess_exec(
        *(kubectl, "--kubeconfig", str(live.kubeconfig()), "-n", "bigfleet-scaletest", *arguments),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


async def _freeze(live: LiveRun, command: str) -> None:
    """Stop a process of the run as soon as it exists."""
    while not (found := live.processes(command)):
        await asyncio.sleep(0.05)
    for pid in found:
        os.kill(pid, signal.SIGSTOP)


async def interrupt(live: LiveRun) -> None:
    """As soon as Prometheus has something to keep: it is Ready before its first scrape."""
    await live.reached("settle", "reclaimed 0")
    os.kill(live.pid, signal.SIGINT)


BREAKS: dict[str, tuple[list[str], Meddle | None, str]] = {
    "provider refuses Configure": (["--set", "provider.refuseConfigure=true"], None, "hop 7 (the provider accepts"),
    "node-creator stopped": ([], stop_node_creator, "hop 9 (UpcomingNodes become Nodes)"),
    "operator stopped": ([], stop_operator, "hop 4 (CapacityRequests are rolled up"),
    "shard killed": ([], kill_shard, "hop 5 (the shard knows the needs)"),
}


@pytest.fixture(scope="module")
def small_profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Smoke with one cluster, sixteen Pods and little patience."""
    directory = tmp_path_factory.mktemp("profiles")
    profile = like_smoke()
    profile |= {"scale": {"machines": 4, "density": 4}, "topology": {"kwokClusters": 1}, "rampBudget": "45s"}
    # A run of this size could be judged at all: enough is observed, and enough machines are there to lose.
    profile["shard"]["failureRatePerSec"] = 0.05
    profile["seed"]["speculativeMultiplier"] = 12
    profile["loadProfile"] |= {"churnPerMinute": 1.0, "soakSeconds": 120}
    return write_profile(directory, "broken", profile)


INTERRUPTED = "interrupted"
KEPT = "shard killed"  # with --keep, and taken down when it was looked at
RUNS = BREAKS | {INTERRUPTED: ([], interrupt, INTERRUPTED)}


@pytest.fixture(scope="module")
def looked_at() -> dict[str, str]:
    """What was seen of the kept run between its end and its removal."""
    return {}


@pytest.fixture(scope="module")
def broken_runs(
    small_profile: Path, tmp_path_factory: pytest.TempPathFactory, looked_at: dict[str, str]
) -> dict[str, FinishedRun]:
    outputs = tmp_path_factory.mktemp("broken")
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> FinishedRun:
        flags, meddle, _ = RUNS[name]
        keep = ["--keep"] if name == KEPT else []
        async with slots:
            output = outputs / name.replace(" ", "-")
            ended = await run(output, "--profile", str(small_profile), *flags, *keep, meddle=meddle)
            assert (output / "summary.json").exists(), ended.screen
            if keep:
                looked_at["status"] = await command("status")
                looked_at["gc"] = await command("gc")
                looked_at["down"] = await command("down", ended.summary["runId"])
            return ended

    async def all_of_them() -> list[FinishedRun]:
        return await asyncio.gather(*(one(name) for name in RUNS))

    return dict(zip(RUNS, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("name", BREAKS)
def test_the_run_says_which_hop_is_broken(broken_runs: dict[str, FinishedRun], name: str) -> None:
    broken = broken_runs[name]
    assert broken.exit_code == 3, broken.screen
    assert broken.summary["exitCode"] == 3
    assert not broken.summary["passed"]
    assert BREAKS[name][2] in broken.summary["failure"], broken.screen
    assert BREAKS[name][2] in broken.screen


def test_a_kept_run_stays_up_and_says_how_to_look_and_how_to_remove_it(
    broken_runs: dict[str, FinishedRun], looked_at: dict[str, str]
) -> None:
    kept = broken_runs[KEPT]
    run_id = kept.summary["runId"]
    for words in (f"scaletest-runner down {run_id}", f"scaletest-runner host kubeconfig {kept.host()['host']}"):
        assert words in kept.screen
        assert words in looked_at["status"]
    assert run_id not in looked_at["gc"]
    assert f"{run_id} is down" in looked_at["down"]


def test_runs_side_by_side_share_no_name_address_or_folder(broken_runs: dict[str, FinishedRun]) -> None:
    runs = list(broken_runs.values())
    assert len({one.summary["runId"] for one in runs}) == len(runs)
    pairs = [(one, other) for one, other in combinations(runs, 2) if went_on_together(one, other)]
    assert pairs, "at least two of them were to go on at once"
    for one, other in pairs:
        assert not {one.host()[key] for key in ("host", "address", "directory")} & set(other.host().values())


def went_on_together(one: FinishedRun, other: FinishedRun) -> bool:
    """Whether both had a host at some moment."""
    times: list[list[float]] = [[event["time"] for event in run.events()] for run in (one, other)]
    return max(min(own) for own in times) < min(max(own) for own in times)


def test_an_interrupted_run_says_so(broken_runs: dict[str, FinishedRun]) -> None:
    stopped = broken_runs[INTERRUPTED]
    assert stopped.exit_code == stopped.summary["exitCode"] == 130, stopped.screen
    assert "nothing is left behind" in stopped.screen


@pytest.mark.parametrize("name", RUNS)
def test_a_broken_run_keeps_its_evidence_and_leaves_nothing(broken_runs: dict[str, FinishedRun], name: str) -> None:
    broken = broken_runs[name]
    assert broken.leftovers() == []
    assert broken.summary["snapshot"]["samples"] > 0, broken.screen
    assert any((broken.output / "logs").iterdir())
