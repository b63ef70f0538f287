"""A machine that is too busy makes the verdict void, and the run says what was short."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.smoke.runs import FinishedRun, LiveRun, run

# Somebody waits for each core at all times (the kernel's pressure is a mean over cores), and the runs beside this one
# still get theirs.
_LOOPS = 2 * (os.cpu_count() or 1)


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


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    output = tmp_path_factory.mktemp("overloaded") / "results"
    return asyncio.run(run(output, "--profile", "smoke", "--duration", "60s", meddle=strain))


def test_the_verdict_is_void_with_its_own_exit_code(overloaded: FinishedRun) -> None:
    assert overloaded.exit_code == 6, overloaded.screen
    assert overloaded.summary["verdict"] == "void"
    assert "VOID (exit code 6)" in overloaded.screen


def test_the_sentence_says_what_was_short(overloaded: FinishedRun) -> None:
    pressure = next(check for check in overloaded.summary["selfCheck"] if check["key"] == "cpuPressurePercent")
    if not Path("/proc/pressure/cpu").exists():
        pytest.skip("this kernel counts no pressure")
    assert pressure["verdict"] == "over"
    assert pressure["value"] > pressure["limit"] == 60
    assert pressure["reason"] in overloaded.summary["failure"]


def test_the_evidence_is_kept_and_nothing_is_left(overloaded: FinishedRun) -> None:
    assert overloaded.summary["snapshot"]["samples"] > 0
    assert overloaded.leftovers() == []
