"""However a host ends, nothing of it is left: no process, no port, no file."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from scaletest import toolchain
from scaletest.components import apiserver, etcd, scheduler
from scaletest.errors import HostError
from scaletest.host.addresses import CLAIM_PORT, KUBELET_PORT
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.markers import HOST_MARKER, marked
from scaletest.host.registry import find_orphans
from scaletest.run.fleet.leftovers import local_leftovers
from tests.integration.scaletest.host.embedded_host import HOST_TOOLS, Kubectl
from tests.patience import eventually

pytestmark = pytest.mark.integration

NOBODY = 65534
REPOSITORY = Path(__file__).parents[4]
# A container with a child that hides in a session of its own.
STRAY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stray", "namespace": "default"},
    "spec": {
        "containers": [{"name": "stray", "image": "none", "command": ["sh", "-c", "setsid sleep 600 & exec sleep 600"]}]
    },
}
# A runner: brings a host and a pod up, says so, and waits for its end.
RUNNER = """
import asyncio, json, pathlib, subprocess, sys
from scaletest.host.embedded import EmbeddedHost

async def main():
    directory, bin_dir, pod = sys.argv[1:]
    async with EmbeddedHost.start(pathlib.Path(directory), pathlib.Path(bin_dir)) as host:
        kubectl = [bin_dir + "/kubectl", "--kubeconfig", str(host.kubeconfig)]
        subprocess.run([*kubectl, "create", "-f", "-"], input=pod.encode(), stdout=subprocess.DEVNULL, check=True)
        subprocess.run([*kubectl, "wait", "pod/stray", "--for=condition=Ready"], stdout=subprocess.DEVNULL, check=True)
        print(json.dumps({"id": host.id, "address": host.address}), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def is_open(address: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((address, port)) == 0


def processes_of(host_id: str, module: str = "") -> list[int]:
    """All processes of a host, or those that run a module of ours."""
    return [pid for pid in marked(**{HOST_MARKER: host_id}) if module in _command_line(pid)]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:  # gone meanwhile
        return "\0"


async def assert_nothing_is_left(host_id: str, directory: Path, address: str) -> None:
    await eventually(lambda: not processes_of(host_id) and not directory.exists())
    ports = (apiserver.PORT, etcd.CLIENT_PORT, KUBELET_PORT, CLAIM_PORT)
    # A dying process loses its memory, and with it its markers, a moment before its sockets.
    await eventually(lambda: not any(is_open(address, port) for port in ports))


async def test_hosts_live_side_by_side_and_a_killed_one_leaves_nothing(
    host_tools: toolchain.Toolchain, tmp_path: Path
) -> None:
    async with (
        EmbeddedHost.start(tmp_path / "first", host_tools.bin_dir) as first,
        EmbeddedHost.start(tmp_path / "second", host_tools.bin_dir) as second,
    ):
        assert first.address != second.address
        kubectl = Kubectl(host_tools.path("kubectl"), first.kubeconfig)
        await kubectl.apply(STRAY)
        await kubectl("wait", "pod/stray", "--for=condition=Ready")
        [janitor] = processes_of(first.id, "scaletest.host.janitor")
        os.kill(janitor, signal.SIGKILL)
        await eventually(lambda: processes_of(first.id, "scaletest.host.janitor") not in ([], [janitor]))
        os.kill(first.pid, signal.SIGKILL)
        await assert_nothing_is_left(first.id, first.dir, first.address)
        assert "embedded" in await Kubectl(host_tools.path("kubectl"), second.kubeconfig)("get", "nodes")
        await second.stop(force=True)
        await second.stop()
        await assert_nothing_is_left(second.id, second.dir, second.address)


async def test_collecting_garbage_takes_a_dead_host_and_leaves_its_living_neighbour(
    host_tools: toolchain.Toolchain, helm_binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbour is another test run's: it stands in no state folder of ours, and only its markers are seen."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    taken_for_orphans: set[str] = set()
    over = threading.Event()

    def keep_looking() -> None:
        while not over.is_set():
            taken_for_orphans.update(host.id for host in find_orphans())

    looking = asyncio.create_task(asyncio.to_thread(keep_looking))
    try:
        async with (
            EmbeddedHost.start(tmp_path / "living", host_tools.bin_dir) as living,
            EmbeddedHost.start(tmp_path / "dead", host_tools.bin_dir) as dead,
        ):
            kubectl = Kubectl(host_tools.path("kubectl"), dead.kubeconfig)
            await kubectl.apply(STRAY)
            await kubectl("wait", "pod/stray", "--for=condition=Ready")
            assert not {living.id, dead.id} & taken_for_orphans
            [janitor] = processes_of(dead.id, "scaletest.host.janitor")
            os.kill(janitor, signal.SIGSTOP)
            os.kill(dead.pid, signal.SIGKILL)
            os.kill(janitor, signal.SIGKILL)
            await eventually(lambda: dead.id in taken_for_orphans)
            for left in local_leftovers(helm_binary):
                if left.name in (living.id, dead.id):
                    await left.remove()
            assert not processes_of(dead.id)
            assert "embedded" in await Kubectl(host_tools.path("kubectl"), living.kubeconfig)("get", "nodes")
            assert living.id not in taken_for_orphans
    finally:
        over.set()
        await looking


@dataclass(frozen=True)
class OrdinaryUser:
    """Someone without privileges: a home with the tools in it, and an interpreter that may be executed."""

    uid: int
    home: Path
    python: Path

    def start_runner(self) -> subprocess.Popen[bytes]:
        is_other = os.geteuid() != self.uid
        return subprocess.Popen(
            [self.python, "-c", RUNNER, self.home / "host", self.home / "tools", json.dumps(STRAY)],
            env={"HOME": str(self.home), "TMPDIR": str(self.home), "PATH": os.defpath, "PYTHONPATH": str(REPOSITORY)},
            stdout=subprocess.PIPE,
            user=self.uid if is_other else None,
            group=self.uid if is_other else None,
            extra_groups=[] if is_other else None,
        )


@pytest.fixture
def ordinary_user(host_tools: toolchain.Toolchain) -> Iterator[OrdinaryUser]:
    """Nobody, if the tests run as root; else whoever runs them."""
    uid = os.geteuid() or NOBODY
    home = Path(tempfile.mkdtemp(prefix="scaletest-user-"))
    (home / "tools").mkdir()
    for name in (*HOST_TOOLS, "kubectl"):
        shutil.copy(host_tools.path(name), home / "tools" / name)
    python = Path(sys.executable) if os.geteuid() == uid else environment_for(uid, home / "venv")
    os.chown(home, uid, -1)
    yield OrdinaryUser(uid, home, python)
    shutil.rmtree(home)


def environment_for(uid: int, directory: Path) -> Path:
    """A virtual environment like ours for a user who may not be allowed to execute our interpreter."""
    version = sys.version_info[:2]
    for candidate in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            is_same = f"import sys; sys.exit(sys.version_info[:2] != {version})"
            subprocess.run([candidate, "-c", is_same], user=uid, check=True)
            subprocess.run([candidate, "-m", "venv", "--without-pip", directory], check=True)
            [packages] = directory.glob("lib/python*/site-packages")
            (packages / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
            return directory / "bin" / "python"
    pytest.skip(f"user {uid} may execute no Python {version[0]}.{version[1]}")


async def test_an_unprivileged_runner_that_is_killed_leaves_nothing(ordinary_user: OrdinaryUser) -> None:
    with ordinary_user.start_runner() as runner:
        assert runner.stdout
        said = json.loads(await asyncio.to_thread(runner.stdout.readline))
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in processes_of(said["id"])}
        assert owners == {ordinary_user.uid}
        runner.kill()
    await assert_nothing_is_left(said["id"], ordinary_user.home / "host", said["address"])


async def test_components_that_die_are_started_again_and_work(host_tools: toolchain.Toolchain, tmp_path: Path) -> None:
    async with EmbeddedHost.start(tmp_path / "host", host_tools.bin_dir) as host:
        for name in (scheduler.NAME, etcd.NAME):
            running = partial(processes_of, host.id, f"/{name}\0")
            former = running()
            os.kill(former[0], signal.SIGKILL)
            await eventually(partial(is_replaced, running, former))
        kubectl = Kubectl(host_tools.path("kubectl"), host.kubeconfig)
        await eventually(partial(answers_ok, kubectl))
        await kubectl.apply(STRAY)
        await kubectl("wait", "pod/stray", "--for=condition=Ready")
    await assert_nothing_is_left(host.id, host.dir, host.address)


def is_replaced(running: Callable[[], list[int]], former: list[int]) -> bool:
    return running() not in ([], former)


async def answers_ok(kubectl: Kubectl) -> bool:
    return await kubectl("get", "--raw=/readyz", check=False) == "ok"


async def test_a_component_that_does_not_start_is_named_with_the_end_of_its_log(
    host_tools: toolchain.Toolchain, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in HOST_TOOLS:
        (tools / name).symlink_to(host_tools.path(name))
    (tools / "kube-apiserver").unlink()
    (tools / "kube-apiserver").write_text("#!/bin/sh\necho broken on purpose >&2\nexit 3\n")
    (tools / "kube-apiserver").chmod(0o755)
    with pytest.raises(HostError, match="kube-apiserver exited with code 3") as failed:
        async with EmbeddedHost.start(tmp_path / "host", tools):
            pytest.fail("the host started without an apiserver")
    assert "broken on purpose" in failed.value.message
    assert failed.value.hint
    assert not (tmp_path / "host").exists()


async def test_a_start_that_is_interrupted_leaves_nothing_but_the_logs_that_were_asked_for(
    host_tools: toolchain.Toolchain, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"

    async def start() -> None:
        async with EmbeddedHost.start(tmp_path / "host", host_tools.bin_dir, logs_dir=logs):
            pytest.fail("the host started faster than it can")

    starting = asyncio.create_task(start())
    await eventually((logs / "control-plane" / "etcd.log").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not (tmp_path / "host").exists()
    assert (logs / "hostd.log").exists()


async def test_a_directory_that_holds_something_is_refused(host_tools: toolchain.Toolchain, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(HostError, match="not empty"):
        async with EmbeddedHost.start(tmp_path, host_tools.bin_dir):
            pytest.fail("the host took a directory that is not its own")
    assert (tmp_path / "precious").exists()
