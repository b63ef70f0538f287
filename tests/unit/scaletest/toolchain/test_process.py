"""A command and its children end with whoever asked for them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from scaletest.project import PROJECT
from scaletest.toolchain.process import output_of, run_logged
from tests.patience import eventually

# A command with a child, as `go` has compilers; both say who they are.
FAMILY = "sleep 600 & echo $! $$ > numbers.new && mv numbers.new numbers && wait"
CALLER = f"""
import asyncio, os
from pathlib import Path
from scaletest.toolchain.process import run_logged
asyncio.run(
    run_logged(["sh", "-c", {FAMILY!r}], cwd=Path.cwd(), environ=os.environ, log=Path("log"), on_beat=lambda _: None)
)
"""


def running(number: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


async def family(directory: Path) -> list[int]:
    numbers = await eventually(lambda: (directory / "numbers").exists() and (directory / "numbers").read_text())
    return [int(number) for number in str(numbers).split()]


async def test_a_killed_caller_takes_the_command_and_its_children_along(tmp_path: Path) -> None:
    caller = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CALLER), cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    numbers = await family(tmp_path)
    assert all(map(running, numbers))
    caller.kill()
    await caller.wait()
    await eventually(lambda: not any(map(running, numbers)))


async def test_a_cancelled_call_ends_only_after_the_command_and_its_children(tmp_path: Path) -> None:
    call = asyncio.create_task(
        run_logged(["sh", "-c", FAMILY], cwd=tmp_path, environ=os.environ, log=tmp_path / "log", on_beat=lambda _: None)
    )
    numbers = await family(tmp_path)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not any(map(running, numbers))


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
async def test_the_end_and_the_output_of_a_command_are_its_own(tmp_path: Path, command: str, code: int) -> None:
    log = tmp_path / "log"
    ended = await run_logged(
        ["sh", "-c", f"echo out; echo err >&2; {command}"],
        cwd=tmp_path,
        environ=os.environ,
        log=log,
        on_beat=lambda _: None,
    )
    assert ended.code == code
    assert log.read_text() == "out\nerr\n"


async def test_a_command_that_cannot_start_says_so_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    ended = await run_logged(["./absent"], cwd=tmp_path, environ={}, log=log, on_beat=lambda _: None)
    assert ended.code == 127
    assert "./absent cannot be started" in log.read_text()


@pytest.mark.parametrize("command", ["exit 1", "sleep 600"])
async def test_what_fails_or_hangs_says_nothing(command: str) -> None:
    assert await output_of(["sh", "-c", command], environ=os.environ, timeout=0.2) is None
