"""Containers start with a hosts file and a host name of their own, also for a user without any privilege."""

import asyncio
import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaletest.host.kubelet.process import launcher
from scaletest.host.kubelet.process.isolation import check_executable

NOBODY = 65534
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_DUMPABLE = 4


@pytest.fixture
def hosts() -> Iterator[Path]:
    """A hosts file that anybody may read."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    (directory / "hosts").write_text("127.9.9.9 peer.demo.svc peer\n127.9.9.8 peer.demo.svc\n")
    yield directory / "hosts"
    shutil.rmtree(directory)


def launched(*arguments: str, user: int | None = None) -> tuple[int, str]:
    """The exit code and the output of a launcher that was run as this user, with no way back to privileges."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            if user is not None and os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                # Changing users took away what an exec as that user would give back: its own /proc/self.
                ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
            os._exit(launcher.main([str(parent), *arguments]))
        finally:
            os._exit(99)
    os.close(writing)
    with os.fdopen(reading) as output:
        said = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize("user", [None, NOBODY], ids=["as we are", "as nobody"])
def test_a_command_sees_its_own_hosts_file_and_name(hosts: Path, user: int | None) -> None:
    look = "hostname; getent ahosts peer.demo.svc | awk '/STREAM/ {print $1}'; id -u; grep CapEff /proc/self/status"
    code, said = launched("", str(hosts), "pod-0", "sh", "-c", look, user=user)
    if code == launcher.CANNOT_ISOLATE:
        pytest.skip(f"this machine has no namespaces for us: {said}")
    name, first, second, uid, capabilities = said.splitlines()
    assert (code, name) == (0, "pod-0")
    assert {first, second} == {"127.9.9.9", "127.9.9.8"}
    if user is not None:
        assert int(uid) == (user if os.geteuid() == 0 else os.geteuid())
        assert int(capabilities.split()[1], 16) == 0
    assert "peer.demo.svc" not in Path("/etc/hosts").read_text()
    assert os.uname().nodename != "pod-0"


def test_a_hosts_file_may_change_under_a_running_command(hosts: Path) -> None:
    look = f"getent hosts late || true; printf '127.9.9.7 late\\n' >> {hosts}; getent hosts late"
    code, said = launched("", str(hosts), "pod-0", "sh", "-c", look)
    if code == launcher.CANNOT_ISOLATE:
        pytest.skip(f"this machine has no namespaces for us: {said}")
    assert said.split() == ["127.9.9.7", "late"]


def test_a_command_that_is_not_isolated_sees_the_machine() -> None:
    assert launched("", "", "", "hostname") == (0, f"{os.uname().nodename}\n")


def test_the_environment_and_signals_of_a_command_are_those_of_its_container() -> None:
    code, said = launched("", "", "", "sh", "-c", "yes | head -n 1; grep SigIgn /proc/self/status")
    assert code == 0
    assert int(said.split()[-1], 16) & 1 << 12 == 0  # SIGPIPE


def test_a_command_that_does_not_exist_is_named() -> None:
    code, said = launched("", "", "", "no-such-program")
    assert code == launcher.CANNOT_EXECUTE
    assert "no-such-program" in said


def test_a_launcher_whose_parent_is_gone_starts_nothing() -> None:
    async def orphaned() -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", launcher.__file__, "1", "", "", "", "true")
        )
        return await process.wait()

    assert asyncio.run(orphaned()) == 1


def test_a_missing_program_is_found_out_before_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    check_executable("tool", {"PATH": str(tmp_path)}, Path("/"))
    check_executable("./tool", {}, tmp_path)
    with pytest.raises(OSError, match=r"not found in \$PATH"):
        check_executable("tool", {"PATH": "/nowhere"}, Path("/"))
    with pytest.raises(OSError, match="no such file"):
        check_executable("./other", {}, tmp_path)
