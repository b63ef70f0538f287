"""A busy machine explains a bar that strain can push a good BigFleet beyond, and the run says what was short."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from scaletest.project import PROFILES
from tests.smoke.runs import FinishedRun, LiveRun, run

# Somebody waits for each core at all times (the kernel's pressure is a mean over cores), and the runs beside this one
# still get theirs.
_LOOPS = 2 * (os.cpu_count() or 1)
_KEY = "shardConfigurePhaseP99Seconds"


@asynccontextmanager
async def busy_loops() -> AsyncIterator[None]:
    loops = [await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass") for _ in range(_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        await asyncio.gather(*(loop.wait() for loop in loops))


async def strain(live: LiveRun) -> None:
    """Busy loops from the beginning of the soak to its end."""
    await live.reached("soak")
    async with busy_loops():
        await live.reached("evidence")


def impatient(directory: Path) -> Path:
    """Smoke with a bar that no machine can meet: that it is missed is certain, that strain did it is not."""
    profile = yaml.safe_load((PROFILES / "smoke.yaml").read_text())
    profile["slo"][_KEY] = 0.1
    path = directory / "impatient.yaml"
    path.write_text(yaml.safe_dump(profile))
    return path


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    directory = tmp_path_factory.mktemp("overloaded")
    flags = ("--profile", str(impatient(directory)), "--duration", "60s")
    return asyncio.run(run(directory / "results", *flags, meddle=strain))


def test_the_verdict_is_void_with_its_own_exit_code(overloaded: FinishedRun) -> None:
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("this kernel counts no pressure")
    assert overloaded.exit_code == 6, overloaded.screen
    assert overloaded.summary["verdict"] == "void"
    assert "VOID (exit code 6)" in overloaded.screen


def test_the_sentence_says_what_was_missed_and_what_was_short(overloaded: FinishedRun) -> None:
    pressure = next(check for check in overloaded.summary["selfCheck"] if check["key"] == "cpuPressurePercent")
    assert pressure["verdict"] == "over"
    assert pressure["value"] > pressure["limit"] == 60
    gate = next(gate for gate in overloaded.summary["gates"] if gate["key"] == _KEY)
    assert (gate["verdict"], gate["strainable"]) == ("fail", True)
    said = [failure["reason"] for failure in overloaded.summary["failures"] if failure["exitCode"] == 6]
    assert any(reason.startswith(f"{_KEY}: ") and "the machine was strained then" in reason for reason in said)


def test_the_evidence_is_kept_and_nothing_is_left(overloaded: FinishedRun) -> None:
    assert overloaded.summary["snapshot"]["samples"] > 0
    assert overloaded.leftovers() == []
