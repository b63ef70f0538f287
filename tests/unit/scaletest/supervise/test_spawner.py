"""Processes die with their parent, and are found by their markers."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from scaletest.host.janitor import clean_up
from scaletest.host.markers import HOST_MARKER, kill_marked, marked
from scaletest.project import PROJECT
from scaletest.supervise.spawner import Process, Spawner
from tests import patience

eventually = partial(patience.eventually, seconds=10)
ENV = {"PATH": os.defpath}


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    with contextlib.closing(Spawner()) as made:
        yield made


@pytest.fixture
def host_id() -> str:
    return secrets.token_hex(8)


def spawn(spawner: Spawner, script: str, **env: str) -> Process:
    return spawner.spawn(["sh", "-c", script], env=ENV | env, cwd=Path("/"))


def python(script: str, **env: str) -> subprocess.Popen[bytes]:
    root = str(PROJECT)
    return subprocess.Popen([sys.executable, "-c", script], env=ENV | env | {"PYTHONPATH": root})


async def test_exit_codes_and_signals_are_told_apart(spawner: Spawner) -> None:
    assert await spawn(spawner, "exit 3").wait() == 3
    assert await spawn(spawner, "kill -9 $$").wait() == -signal.SIGKILL


async def test_a_command_that_does_not_exist_is_an_error(spawner: Spawner) -> None:
    with pytest.raises(FileNotFoundError):
        spawner.spawn(["no-such-command"], env=ENV, cwd=Path("/"))


async def test_the_whole_group_is_signalled(spawner: Spawner, host_id: str) -> None:
    parent = spawn(spawner, "sleep 60 & sleep 60", **{HOST_MARKER: host_id})
    await eventually(lambda: len(marked(**{HOST_MARKER: host_id})) == 3)
    assert await parent.stop(grace_seconds=10) == -signal.SIGTERM
    await eventually(lambda: not marked(**{HOST_MARKER: host_id}))


async def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(spawner: Spawner, tmp_path: Path) -> None:
    deaf = spawn(spawner, f"trap '' TERM; touch {tmp_path}/deaf; while :; do sleep 1; done")
    await eventually((tmp_path / "deaf").exists)
    assert await deaf.stop(grace_seconds=0.1) == -signal.SIGKILL


async def test_a_child_in_another_session_is_found_by_its_marker(spawner: Spawner, host_id: str) -> None:
    parent = spawn(spawner, "setsid sleep 60 & exit 0", **{HOST_MARKER: host_id})
    assert await parent.wait() == 0
    await eventually(lambda: len(marked(**{HOST_MARKER: host_id})) == 1)
    assert kill_marked(**{HOST_MARKER: host_id}) == 1
    await eventually(lambda: not marked(**{HOST_MARKER: host_id}))


async def test_only_processes_with_every_marker_are_found(spawner: Spawner, host_id: str) -> None:
    process = spawn(spawner, "exec sleep 60", **{HOST_MARKER: host_id, "OTHER": "1"})
    await eventually(lambda: bool(marked(**{HOST_MARKER: host_id})))
    assert marked(**{HOST_MARKER: host_id, "OTHER": "1"}) == [process.pid]
    assert marked(**{HOST_MARKER: host_id, "OTHER": "2"}) == []
    assert marked(**{HOST_MARKER: host_id[:-1]}) == []
    await process.stop(grace_seconds=0)


async def test_children_die_when_their_parent_is_killed(host_id: str) -> None:
    script = (
        "import asyncio, os, pathlib\n"
        "from scaletest.supervise.spawner import Spawner\n"
        "async def main():\n"
        "    Spawner().spawn(['sleep', '60'], env=os.environ, cwd=pathlib.Path('/'))\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = python(script, **{HOST_MARKER: host_id})
    try:
        await eventually(lambda: len(marked(**{HOST_MARKER: host_id})) == 2)
    finally:
        parent.kill()
        parent.wait()
    await eventually(lambda: not marked(**{HOST_MARKER: host_id}))


async def test_cleaning_up_leaves_neither_process_nor_file(spawner: Spawner, host_id: str, tmp_path: Path) -> None:
    directory = tmp_path / "host"
    (directory / "deep").mkdir(parents=True)
    process = spawn(spawner, "setsid sleep 60 & sleep 60", **{HOST_MARKER: host_id})
    await eventually(lambda: len(marked(**{HOST_MARKER: host_id})) == 3)
    assert await asyncio.to_thread(clean_up, host_id, directory)
    assert await process.wait() == -signal.SIGKILL
    assert not marked(**{HOST_MARKER: host_id})
    assert not directory.exists()
