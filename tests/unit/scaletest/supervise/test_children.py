"""Supervised processes are followed line by line, missed when they die, and stopped in reverse order."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from scaletest.supervise.child import Child, logged
from scaletest.supervise.children import ChildDied, Children, NotInTime
from scaletest.supervise.command import Command
from scaletest.supervise.polling import poll
from scaletest.supervise.spawner import Spawner

STAYS = "echo up; exec sleep 60"


def shell(name: str, script: str, nice: int = 0) -> Command:
    return Command(name, ("/bin/sh", "-c", script), nice=nice)


async def until_said(lines: list[str], line: str) -> None:
    async def said() -> bool:
        return line in lines

    async with asyncio.timeout(10):
        await poll(said)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_output_comes_out_behind_the_name_of_its_process() -> None:
    lines: list[str] = []
    with contextlib.suppress(ChildDied):
        async with Children(write=lines.append) as children:
            await children.start(shell("talker", "echo one; echo two >&2; printf three"))
            await children.until_death()
    assert sorted(lines) == ["talker | one", "talker | three", "talker | two"]


async def test_the_death_of_one_ends_all_and_shows_its_last_lines() -> None:
    async with Children(write=lambda _: None) as children:
        survivor = await children.start(shell("survivor", STAYS))
        await children.start(shell("victim", "echo last words; exit 3"))
        with pytest.raises(ChildDied, match=r"victim exited with code 3; its last lines:\n  last words"):
            await children.until_death()
    assert not is_alive(survivor.pid)


async def test_a_killed_process_is_told_apart_from_one_that_exits() -> None:
    async with Children(write=lambda _: None) as children:
        child = await children.start(shell("victim", STAYS))
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ChildDied, match="victim was killed by signal 9"):
            await children.until_death()


async def test_a_death_interrupts_a_wait_for_something_else() -> None:
    async def never() -> bool:
        return False

    async with Children(write=lambda _: None) as children:
        await children.start(shell("victim", "exit 1"))
        with pytest.raises(ChildDied):
            await children.until(never, "the impossible", 30)


async def test_a_failure_that_a_death_caused_is_told_as_the_death() -> None:
    async def broken_connection() -> None:
        raise ConnectionResetError

    async with Children(write=lambda _: None) as children:
        await children.start(shell("victim", "exit 1"))
        with pytest.raises(ChildDied):
            await children.during(broken_connection())


async def test_a_failure_without_a_death_stays_what_it_is() -> None:
    async def mistake() -> None:
        raise KeyError("mine")

    async with Children(write=lambda _: None) as children:
        await children.start(shell("survivor", STAYS))
        with pytest.raises(KeyError):
            await children.during(mistake())


async def test_a_wait_ends_at_its_deadline_with_the_name_of_what_was_awaited() -> None:
    async def never() -> bool:
        return False

    async with Children(write=lambda _: None) as children:
        with pytest.raises(NotInTime, match=r"the impossible: not within 0\.05 s"):
            await children.until(never, "the impossible", 0.05)


async def test_processes_are_stopped_in_reverse_order_of_their_start() -> None:
    lines: list[str] = []
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    async with Children(write=lines.append) as children:
        for name in ("first", "second", "third"):
            await children.start(shell(name, script))
            await until_said(lines, f"{name} | up")
    assert [line for line in lines if line.endswith("bye")] == ["third | bye", "second | bye", "first | bye"]


async def test_a_process_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    lines: list[str] = []
    async with Children(write=lines.append, stop_grace_seconds=0.1) as children:
        child = await children.start(shell("stubborn", "trap '' TERM; echo up; while :; do sleep 0.02; done"))
        await until_said(lines, "stubborn | up")
    assert not is_alive(child.pid)


async def test_a_retired_process_is_missed_by_nobody() -> None:
    async with Children() as children:
        retired = await children.start(shell("retired", STAYS))
        stays = await children.start(shell("stays", STAYS))
        await children.retire(retired)
        assert not is_alive(retired.pid)
        await children.during(asyncio.sleep(0.1))
        assert list(children) == [stays]


async def test_nice_lowers_a_process() -> None:
    async with Children(write=lambda _: None) as children:
        child = await children.start(shell("meek", STAYS, nice=7))
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 7


async def test_processes_die_with_a_supervisor_that_is_killed() -> None:
    program = """
import asyncio
from scaletest.supervise.children import Children
from scaletest.supervise.command import Command
async def main():
    async with Children() as children:
        child = await children.start(Command("orphan", ("/bin/sleep", "60")))
        print(child.pid, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert supervisor.stdout
    orphan = int(await supervisor.stdout.readline())
    assert is_alive(orphan)
    supervisor.kill()
    await supervisor.wait()

    async def gone() -> bool:
        return not is_alive(orphan)

    async with asyncio.timeout(5):
        await poll(gone)


async def test_a_group_may_survive_a_death_and_is_not_asked_about_those_that_it_stops() -> None:
    asked: list[str] = []

    def survive(child: Child) -> bool:
        asked.append(child.name)
        return child.name == "expendable"

    async with Children(write=lambda _: None, survive=survive) as children:
        await children.start(shell("survivor", STAYS))
        await children.start(shell("expendable", "exit 1"))
        async with asyncio.timeout(10):
            while not asked:
                await asyncio.sleep(0.01)
        assert [child.name for child in children] == ["survivor"]
        await children.start(shell("victim", "exit 3"))
        with pytest.raises(ChildDied, match="victim exited with code 3"):
            await children.until_death()
    assert asked == ["expendable", "victim"]


async def test_a_group_watches_what_a_spawner_started_and_reads_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with contextlib.closing(Spawner()) as spawner, path.open("ab") as output:
        async with Children() as children:
            script = ["/bin/sh", "-c", "echo last words; exit 3"]
            process = spawner.spawn(script, env=os.environ, cwd=tmp_path, output=output)
            child = children.watch(logged("victim", process, path))
            with pytest.raises(ChildDied, match=r"victim exited with code 3; its last lines:\n  last words"):
                await children.until_death()
    assert child.tail == ("last words",)


async def test_a_group_that_survives_a_death_can_start_the_same_again(tmp_path: Path) -> None:
    lives: asyncio.Queue[Child] = asyncio.Queue()
    path = tmp_path / "log"

    with contextlib.closing(Spawner()) as spawner, path.open("ab") as output:

        def live() -> None:
            process = spawner.spawn(["/bin/sleep", "60"], env=os.environ, cwd=tmp_path, output=output)
            lives.put_nowait(children.watch(logged("phoenix", process, path)))

        def rise_again(dead: Child) -> bool:
            live()
            return dead.name == "phoenix"

        async with Children(survive=rise_again) as children:
            live()
            first = await lives.get()
            first.kill()
            second = await children.during(lives.get())
            assert [child.pid for child in children] == [second.pid]
            assert not is_alive(first.pid)
    assert not is_alive(second.pid)
