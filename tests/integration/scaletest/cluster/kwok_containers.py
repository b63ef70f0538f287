"""The containers of a kwok-cluster pod as processes of this machine, and a client of the cluster in them.

The fixtures want another one, `cluster`, of the test's own module.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from bigfleet.kube import KubeClient, KubeConfig
from bigfleet.kube.resources import CAPACITY_REQUESTS, DEPLOYMENTS, NODES, PODS, STATEFUL_SETS, UPCOMING_NODES
from scaletest import toolchain
from scaletest.supervise.polling import poll
from tests.loopback import own_addresses
from tests.patience import eventually

PROCESSES = ("etcd", "kube-apiserver", "kwok", "kube-controller-manager", "kube-scheduler")
READY_SECONDS = 60


@dataclass(frozen=True)
class Container:
    """A supervisor that runs as it would in its container."""

    process: "subprocess.Popen[bytes]"
    pod_ip: str
    shared_dir: Path
    log: Path

    @property
    def config(self) -> KubeConfig:
        return KubeConfig.from_file(self.shared_dir / "admin.kubeconfig")

    @property
    def marker(self) -> Path:
        return self.shared_dir / "apiserver-ready"

    @property
    def metrics_url(self) -> str:
        return f"http://{self.pod_ip}:8776"

    def children(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    async def until_ready(self) -> None:
        async def ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            return self.marker.exists()

        async with asyncio.timeout(READY_SECONDS):
            await poll(ready)

    async def exit_code(self, seconds: float = 20) -> int:
        return await asyncio.to_thread(self.process.wait, seconds)


def launch(command: str, shared_dir: Path, pod_ip: str, log: Path, **flags: object) -> Container:
    """Start a process of `scaletest-cluster`; its output goes to `log`."""
    flags |= {"pod_ip": pod_ip, "shared_dir": shared_dir}
    rendered = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in flags.items()]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "scaletest.cluster.cli", command, *rendered], stdout=output, stderr=output
        )
    return Container(process, pod_ip, shared_dir, log)


def start(shared_dir: Path, pod_ip: str, **flags: object) -> Container:
    log = shared_dir.with_suffix(".log")
    return launch("control-plane", shared_dir, pod_ip, log, metrics_addr=f"{pod_ip}:8776", **flags)


def start_workload(shared_dir: Path, pod_ip: str, directory: Path, pods: int) -> Container:
    """Container `workload` with this much demand, and neither a shard nor a provider."""
    archetype = {
        "name": "batch",
        "instanceTypes": ["c6i"],
        "zones": ["zone-b"],
        "sizes": [{"resources": {"cpu": "1", "memory": "1500Mi"}}],
        "interruptionPenalty": 0.5,
        "spread": {"whenUnsatisfiable": "DoNotSchedule"},
    }
    profile = directory / "profile.yaml"
    profile.write_text(yaml.safe_dump({"target": pods, "archetypes": [archetype]}))
    return launch(
        "workload",
        shared_dir,
        pod_ip,
        directory / "workload.log",
        cluster_id="kwok-cluster-1",
        shard_addrs=f"{pod_ip}:7780",  # nobody there: an operator keeps dialling
        provider_addr=f"{pod_ip}:7800",
        plaintext=True,
        load_profile=profile,
    )


def stop(container: Container) -> None:
    container.process.terminate()
    try:
        container.process.wait(20)
    finally:
        container.process.kill()


@asynccontextmanager
async def running(work: Awaitable[None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    """The real binaries, where the supervisors look for them."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SCALETEST_TOOLS", str(asyncio.run(toolchain.ensure(PROCESSES)).bin_dir))
        yield


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    with own_addresses() as both:
        yield both


@pytest.fixture
async def client(cluster: Container) -> AsyncIterator[KubeClient]:
    """A client of the cluster; what its test made is gone afterwards."""
    async with KubeClient(cluster.config) as kube:
        yield kube

        async def is_empty() -> bool:
            # By force: the Pods of a lost Node wait a minute for their garbage collector.
            await kube.raw("DELETE", PODS.path("default"), params={"gracePeriodSeconds": "0"})
            return not (await kube.list(PODS))[0]

        for resource in (DEPLOYMENTS, STATEFUL_SETS, CAPACITY_REQUESTS):
            await kube.raw("DELETE", resource.path("default"))
        await eventually(is_empty)
        for resource in (UPCOMING_NODES, NODES):
            await kube.raw("DELETE", resource.path())
