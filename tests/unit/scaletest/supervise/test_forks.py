"""Forked processes wait for their turn, speak through their supervisor, and share one fate with it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from scaletest.supervise.polling import poll


def run(program: str, *, seconds: float = 20) -> "subprocess.CompletedProcess[str]":
    """A supervisor of its own: pytest has threads, and nobody should fork those."""
    source = textwrap.dedent(program)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=seconds, check=False)


SUPERVISE = """
import asyncio, os, signal, sys
from bigfleet.process import daemon
from scaletest.supervise.children import Children
from scaletest.supervise.forks import fork_all

async def talk():
    print("my name is", open("/proc/self/comm").read().strip())
    await asyncio.Event().wait()

async def fail():
    raise ValueError("a mistake of ours")
"""


def test_a_fork_does_nothing_before_it_is_told_to_and_speaks_behind_its_name() -> None:
    ended = run(
        SUPERVISE
        + """
forks = fork_all({"talker": talk, "patient": talk})

async def serve():
    async with Children() as children:
        for fork in forks.values():
            await children.adopt(fork)
        print("both wait", flush=True)
        forks["talker"].go()
        while not next(iter(children)).tail:
            await asyncio.sleep(0.01)
        assert not list(children)[1].tail

daemon.run("supervisor", serve)
"""
    )
    assert ended.stdout.splitlines() == ["both wait", "talker | my name is talker"]
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_death_of_a_fork_is_told_with_its_traceback() -> None:
    ended = run(
        SUPERVISE
        + """
forks = fork_all({"clumsy": fail})

async def serve():
    async with Children() as children:
        await children.adopt(forks["clumsy"])
        forks["clumsy"].go()
        await children.until_death()

daemon.run("supervisor", serve)
"""
    )
    assert ended.returncode == 1
    assert "supervisor: clumsy exited with code 1; its last lines:" in ended.stderr
    assert "ValueError: a mistake of ours" in ended.stderr


def test_a_fork_that_is_killed_while_it_waits_is_missed() -> None:
    ended = run(
        SUPERVISE
        + """
forks = fork_all({"victim": talk})

async def serve():
    async with Children() as children:
        await children.adopt(forks["victim"])
        os.kill(forks["victim"].pid, signal.SIGKILL)
        await children.until_death()

daemon.run("supervisor", serve)
"""
    )
    assert "victim was killed by signal 9" in ended.stderr


def test_spares_wait_beside_the_one_whose_place_they_may_take() -> None:
    ended = run(
        SUPERVISE
        + """
forks = fork_all({"talker": talk, "other": talk}, {"talker": 2})
assert not forks["other"].spares

async def serve():
    async with Children(survive=lambda child: True) as children:
        for fork in (forks["talker"], *forks["talker"].spares, forks["other"]):
            await children.adopt(fork)
        first, second, third, other = children
        while open(f"/proc/{second.pid}/comm").read().strip() != "spare-talker":
            await asyncio.sleep(0.01)
        for fork, child in ((forks["talker"], first), (forks["talker"].spares[1], third)):
            fork.go()
            while not child.tail:
                await asyncio.sleep(0.01)
            os.kill(fork.pid, signal.SIGKILL)
            await child.ended
        assert not second.tail and not other.tail

daemon.run("supervisor", serve)
"""
    )
    assert ended.stdout.splitlines() == ["talker | my name is talker"] * 2
    assert (ended.returncode, ended.stderr) == (0, "")


async def test_waiting_forks_die_with_a_supervisor_that_is_killed() -> None:
    program = SUPERVISE + 'forks = fork_all({"orphan": talk})\nprint(forks["orphan"].pid, flush=True)\nsignal.pause()'
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert supervisor.stdout
    orphan = int(await supervisor.stdout.readline())
    supervisor.kill()
    await supervisor.wait()

    async def gone() -> bool:
        return not Path(f"/proc/{orphan}").exists() or "Z" in Path(f"/proc/{orphan}/stat").read_text().split()[2]

    try:
        async with asyncio.timeout(5):
            await poll(gone)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


def test_a_process_with_threads_is_not_forked() -> None:
    ended = run(
        SUPERVISE
        + """
import threading
threading.Thread(target=signal.pause, daemon=True).start()
fork_all({"risky": talk})
"""
    )
    assert "RuntimeError: 2 threads run" in ended.stderr


def test_nothing_that_the_workload_container_imports_starts_a_thread() -> None:
    ended = run(
        """
        import os
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        import scaletest.cluster.workload
        print(len(os.listdir("/proc/self/task")))
        """
    )
    assert ended.stdout == "1\n"


def test_work_in_a_copy_leaves_its_imports_there_and_its_failure_here(tmp_path: Path) -> None:
    ended = run(
        f"""
        import sys
        from pathlib import Path
        from scaletest.supervise.forks import in_a_copy

        def work():
            import sqlite3
            Path({str(tmp_path / "done")!r}).touch()

        in_a_copy(work)
        assert "sqlite3" not in sys.modules
        in_a_copy(lambda: 1 / 0)
        """
    )
    assert (tmp_path / "done").exists()
    assert "ZeroDivisionError" in ended.stderr
    assert "RuntimeError: a copy of this process ended with 1" in ended.stderr
