"""From the command to every pod Ready: `scaletest-runner up` with two KWOK clusters, tools cached."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml

from scaletest import toolchain
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run

CLUSTERS = 2
READY_BAR_SECONDS = 30
_UP_SECONDS = 300


async def measure() -> None:
    await toolchain.ensure()  # a build is not what is measured
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        output = Path(folder) / "results"
        began = time.monotonic()
        try:
            await _runner(
                "up",
                "--profile",
                "smoke",
                "--clusters",
                str(CLUSTERS),
                "--pods",
                "0",
                "--results",
                str(output),
                "--yes",
            )
            ready = time.monotonic() - began
        finally:
            ending = time.monotonic()
            await _runner("down", _run_id(output))
            down = time.monotonic() - ending
    emit("start", clusters=CLUSTERS, ready_seconds=against(ready, READY_BAR_SECONDS), down_seconds=round(down, 3))


def _run_id(results: Path) -> str:
    """Others may have something up too; this is ours."""
    return str(yaml.safe_load((results / "rendered-values.yaml").read_text())["runId"])


async def _runner(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scaletest.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_UP_SECONDS):
            said, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGINT)
        said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"scaletest-runner {arguments[0]} ended with {process.returncode}:\n{said.decode()[-3000:]}")


if __name__ == "__main__":
    run(measure)
