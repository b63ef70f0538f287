"""Hosts are found again by what is written down, and judged by who still lives."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scaletest.errors import HostError, UsageError
from scaletest.host.ending import end_host
from scaletest.host.markers import HOST_MARKER
from scaletest.host.owners import Owner
from scaletest.host.records import state_dir
from scaletest.host.registry import DAEMON, HostRecord, RegisteredHost, choose, find_hosts, find_orphans, new_host
from scaletest.run.target.contexts import ContextRecord, find_context_runs, new_context_dir
from tests.patience import eventually


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def dead() -> Owner:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(child.pid, _started(child.pid))
    assert owner.alive
    child.kill()
    child.communicate()
    return owner


def _started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def record(host_id: str, owner: Owner | None, address: str = "127.64.0.1", run_id: str = "") -> HostRecord:
    return HostRecord(id=host_id, since=time.time(), owner=owner, address=address, run_id=run_id)


def start(processes: list[subprocess.Popen[bytes]], host_id: str, word: str) -> None:
    """A process of a host, with `word` on its command line."""
    argv = [sys.executable, "-c", "print(flush=True); input()", word]
    process = subprocess.Popen(argv, env={HOST_MARKER: host_id}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    processes.append(process)
    assert process.stdout
    process.stdout.readline()


def the(host_id: str) -> RegisteredHost:
    [found] = [host for host in find_hosts() if host.id == host_id]
    return found


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    assert Owner.me().alive
    assert not replace(Owner.me(), started=Owner.me().started + 1).alive


def test_one_that_only_waits_to_be_reaped_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    owner = Owner(child.pid, _started(child.pid))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not owner.alive
    child.wait()


def test_an_owner_on_another_machine_is_nobody_here() -> None:
    assert Owner.parse(Owner.me().text) == Owner.me()
    assert Owner.parse("elsewhere/1/2") is None
    assert Owner.parse("") is None


def test_state_is_where_the_user_says() -> None:
    assert state_dir({"XDG_STATE_HOME": "/x", "HOME": "/h"}) == Path("/x/bigfleet-scaletest")
    assert state_dir({"HOME": "/h"}) == Path("/h/.local/state/bigfleet-scaletest")


def test_a_state_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nope")
    with pytest.raises(HostError) as refused:
        new_host()
    assert "XDG_STATE_HOME" in refused.value.hint


def test_a_new_host_is_private_and_too_young_to_be_left() -> None:
    host_id, directory = new_host()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert not the(host_id).is_left
    assert not the(host_id).is_up


def test_a_directory_that_stays_without_a_record_is_left() -> None:
    host_id, directory = new_host()
    os.utime(directory, (0, 0))
    assert the(host_id).is_left


def test_a_host_whose_runner_lives_is_not_left(processes: list[subprocess.Popen[bytes]]) -> None:
    host_id, directory = new_host()
    record(host_id, Owner.me()).write(directory)
    assert not the(host_id).is_left
    start(processes, host_id, DAEMON)
    assert the(host_id).is_up


def test_one_that_was_left_up_on_purpose_is_up_until_it_dies(processes: list[subprocess.Popen[bytes]]) -> None:
    host_id, directory = new_host()
    record(host_id, None).write(directory)
    start(processes, host_id, DAEMON)
    assert the(host_id).is_up
    processes[0].kill()
    processes[0].wait()
    assert the(host_id).is_left


def test_one_whose_runner_died_is_left(processes: list[subprocess.Popen[bytes]], dead: Owner) -> None:
    host_id, directory = new_host()
    record(host_id, dead).write(directory)
    start(processes, host_id, DAEMON)
    assert the(host_id).is_left
    assert not the(host_id).is_up


def test_one_whose_janitor_is_at_work_is_left_alone(processes: list[subprocess.Popen[bytes]], dead: Owner) -> None:
    host_id, directory = new_host()
    record(host_id, dead).write(directory)
    start(processes, host_id, "scaletest.host.janitor")
    assert not the(host_id).is_left


async def test_processes_without_hostd_and_janitor_are_orphans(processes: list[subprocess.Popen[bytes]]) -> None:
    host_id = secrets.token_hex(4)
    start(processes, host_id, "etcd")
    await eventually(lambda: host_id in [host.id for host in find_orphans()])
    start(processes, host_id, DAEMON)
    assert host_id not in [host.id for host in find_orphans()]


async def test_a_number_that_another_host_has_now_is_not_signalled(
    processes: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start(processes, secrets.token_hex(4), DAEMON)
    gone = RegisteredHost(secrets.token_hex(4), tmp_path / "gone", None, daemon=processes[0].pid)
    await end_host(gone)
    await end_host(gone, force=True)
    with pytest.raises(subprocess.TimeoutExpired):
        processes[0].wait(0.2)


def test_a_record_that_cannot_be_read_is_no_record() -> None:
    host_id, directory = new_host()
    (directory / "record.json").write_text('{"id": 3, "unknown": 1}')
    assert the(host_id).record is None


def test_hosts_are_called_by_their_beginning_or_by_their_run(tmp_path: Path) -> None:
    hosts = [
        RegisteredHost("ab12", tmp_path, record("ab12", None, run_id="2026-smoke"), 1),
        RegisteredHost("ab34", tmp_path, record("ab34", None), 1),
    ]
    assert choose(hosts, "ab1").id == "ab12"
    assert choose(hosts, "2026").id == "ab12"
    assert choose(hosts[:1], "").id == "ab12"
    with pytest.raises(UsageError, match="several are up: 2026-smoke, ab34"):
        choose(hosts, "")
    with pytest.raises(UsageError, match="there is no host 'x'"):
        choose(hosts, "x")
    with pytest.raises(UsageError, match="no host is up"):
        choose([], "")


def test_notes_about_runs_elsewhere_are_found_again(dead: Owner) -> None:
    directory = new_context_dir("2026-dev")
    written = ContextRecord(context="kind", since=1.0, owner=dead, run_id="2026-dev", namespace="n")
    written.write(directory)
    [found] = find_context_runs()
    assert found.record == written
    assert found.record.is_left
