"""Commands in process groups of their own, ended as a whole when the caller is cancelled."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# `go build` removes its work directory on SIGINT, which takes it a moment.
_GRACE_SECONDS = 5.0
_BEAT_SECONDS = 1.0
_GROUP_POLL_SECONDS = 0.02


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    seconds: float


async def run_logged(
    argv: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str], log: Path, on_beat: Callable[[float], None]
) -> Ended:
    """Run to the end with all output in `log`; `on_beat` hears the seconds so far once a second."""
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        while True:
            try:
                async with asyncio.timeout(_BEAT_SECONDS):
                    return Ended(await process.wait(), clock() - started)
            except TimeoutError:
                on_beat(clock() - started)
    finally:
        await _end_group(process)


async def output_of(argv: Sequence[str | Path], *, environ: Mapping[str, str], timeout: float = 10.0) -> str | None:
    """What a command prints, or None if it can't start, fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        async with asyncio.timeout(timeout):
            printed, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        await _end_group(process)
    return printed.decode(errors="replace") if process.returncode == 0 else None


async def _end_group(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await _group_gone(process.pid)


async def _group_gone(group: int) -> None:
    """Wait for the killed children of our child, which only their own parent can await: until then they may write."""
    with suppress(TimeoutError, ProcessLookupError):
        async with asyncio.timeout(_GRACE_SECONDS):
            while True:
                os.killpg(group, 0)
                await asyncio.sleep(_GROUP_POLL_SECONDS)
