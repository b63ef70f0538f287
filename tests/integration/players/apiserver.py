"""A real etcd and kube-apiserver on loopback, with our CRDs (fixtures `apiserver` and `kube`)."""

import asyncio
import os
import random
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

import bigfleet.api
from bigfleet.kube import KubeClient, KubeConfig, KubeError
from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    NODES,
    PODS,
    UPCOMING_NODES,
    Resource,
)
from bigfleet.process.files import write_file
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security.certificates import service_account_key_pem
from scaletest import toolchain

T = TypeVar("T")

NAMESPACE = "default"
GUEST = "guest"
DISRUPTION_BUDGETS = Resource("poddisruptionbudgets", "policy")
_START_SECONDS = 60
_STOP_SECONDS = 20
_CRD_FILES = Path(bigfleet.api.__path__[0]) / "crds"


class ApiServer:
    """The processes, their directory, and a kubeconfig that may do everything."""

    def __init__(self, directory: Path, tools: toolchain.Toolchain) -> None:
        self._directory = directory
        self._tools = tools
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._etcd_port, self._etcd_peer_port = free_ports(3)
        self._url = f"https://127.0.0.1:{self._port}"
        self._token, self._guest_token = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.kubeconfig = directory / "kubeconfig"
        self._certificate = directory / "serving" / "apiserver.crt"  # the apiserver signs one for itself

    @property
    def config(self) -> KubeConfig:
        return KubeConfig.from_file(self.kubeconfig)

    @property
    def guest_config(self) -> KubeConfig:
        """Of a user whom flow control does not exempt."""
        return replace(self.config, token=self._guest_token)

    def start(self) -> None:
        self._write_credentials()
        self._launch(
            "etcd",
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self._etcd_peer_port}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        self.launch_apiserver()
        self.await_ready()
        KubeConfig(self._url, ca_pem=self._certificate.read_bytes(), token=self._token).write(self.kubeconfig)
        asyncio.run(self._install_crds())

    def launch_apiserver(self) -> None:
        """Call from the main thread: what is launched dies with the thread that did it."""
        self._launch(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self._certificate.parent}",
            f"--token-auth-file={self._directory / 'tokens.csv'}",
            "--authorization-mode=AlwaysAllow",
            "--anonymous-auth=false",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount,Priority,TaintNodesByCondition",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._directory / 'sa.key'}",
            f"--service-account-signing-key-file={self._directory / 'sa.key'}",
        )

    def stop_apiserver(self) -> None:
        """Kill it: watches break in the middle, as in a crash."""
        process = self._running.pop("kube-apiserver")
        process.kill()
        process.wait()

    @contextmanager
    def holding_its_breath(self) -> Iterator[None]:
        """It takes connections and answers nobody, as under a load that it cannot carry."""
        process = self._running["kube-apiserver"]
        process.send_signal(signal.SIGSTOP)
        # On a busy machine some of its threads still answer while others have stopped.
        while not _stopped(process.pid):
            time.sleep(0.001)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for process in reversed(self._running.values()):
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def _launch(self, name: str, *arguments: str) -> None:
        with (self._directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                dying_with_us([str(self._tools.path(name)), *arguments]),
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )

    def _write_credentials(self) -> None:
        write_file(self._directory / "sa.key", service_account_key_pem(), mode=0o600)
        tokens = f'{self._token},tester,tester,"system:masters"\n{self._guest_token},{GUEST},{GUEST}\n'
        write_file(self._directory / "tokens.csv", tokens.encode(), mode=0o600)

    def await_ready(self) -> None:
        request = urllib.request.Request(f"{self._url}/readyz", headers={"Authorization": f"Bearer {self._token}"})
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            for name, process in self._running.items():
                if process.poll() is not None:
                    pytest.fail(f"{name} ended:\n{(self._directory / f'{name}.log').read_text()[-2000:]}")
            try:
                context = ssl.create_default_context(cafile=str(self._certificate))
                with urllib.request.urlopen(request, timeout=5, context=context):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        pytest.fail(f"kube-apiserver is not ready after {_START_SECONDS} s")

    async def _install_crds(self) -> None:
        async with KubeClient(self.config) as client:
            for file in sorted(_CRD_FILES.glob("*.yaml")):
                await client.create(CRDS, yaml.safe_load(file.read_text()))
            for resource in (CAPACITY_REQUESTS, UPCOMING_NODES, AVAILABLE_CAPACITIES):
                await eventually(partial(client.list, resource))


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    tools = asyncio.run(toolchain.ensure(["etcd", "kube-apiserver"]))
    server = ApiServer(tmp_path_factory.mktemp("apiserver"), tools)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def kube(apiserver: ApiServer) -> AsyncIterator[KubeClient]:
    """A client of the apiserver, emptied of what earlier tests left."""
    async with KubeClient(apiserver.config) as client:
        for resource in (PODS, CAPACITY_REQUESTS, EVENTS, DISRUPTION_BUDGETS):
            await client.raw("DELETE", resource.path(NAMESPACE), params={"gracePeriodSeconds": "0"})
        for resource in (NODES, UPCOMING_NODES, AVAILABLE_CAPACITIES):
            await client.raw("DELETE", resource.path())
        await client.raw("DELETE", CONFIG_MAPS.path(NAMESPACE), params={"labelSelector": "test"})
        yield client


async def eventually(attempt: Callable[[], Awaitable[T | None]], seconds: float = 15) -> T:
    """The first answer of `attempt` that is neither None nor False; errors and failed assertions mean "not yet"."""
    async with asyncio.timeout(seconds):
        while True:
            with suppress(KubeError, AssertionError):
                answer = await attempt()
                if answer is not None and answer is not False:
                    return answer
            await asyncio.sleep(0.05)


# The ports that were given last, of which some may not be in use yet.
_given: deque[int] = deque(maxlen=500)


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens, from below those that the kernel hands out: no client can take one meanwhile.

    A test may use them much later: no other worker of this run is given one of them, and no other test of this worker
    for a long time.
    """
    worker, workers = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), os.environ.get("PYTEST_XDIST_WORKER_COUNT")
    own = set(range(15_000 + worker, 32_000, int(workers or 1))).difference(_given)
    ports = list(islice(filter(_is_free, random.SystemRandom().sample(sorted(own), min(len(own), 1_000))), count))
    _given.extend(ports)
    return ports


def _stopped(pid: int) -> bool:
    """Whether every thread of a process has stopped."""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread ended meanwhile
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
