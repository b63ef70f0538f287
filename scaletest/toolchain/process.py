"""Commands in process groups of their own, ended as a whole when the caller is cancelled or killed."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bigfleet.process import childprocess

# `go build` removes its work directory on SIGINT, which takes it a moment.
_GRACE_SECONDS = 5.0
_BEAT_SECONDS = 1.0
_GUARD = Path(__file__).with_name("guard.py")


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    seconds: float


async def run_logged(
    argv: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str], log: Path, on_beat: Callable[[float], None]
) -> Ended:
    """Run to the end with all output in `log`; `on_beat` hears the seconds so far once a second."""
    with ExitStack() as stack:
        our_life, tied_end = os.pipe()
        stack.callback(os.close, tied_end)
        with os.fdopen(our_life, "rb") as standard_input, log.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", _GUARD, *argv),
                cwd=cwd,
                env=environ,
                stdin=standard_input,
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


async def output_of(argv: Sequence[str | Path], *, environ: Mapping[str, str], timeout: float = 30.0) -> str | None:
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
    await childprocess.stop_group(process, _GRACE_SECONDS, first=signal.SIGINT)
