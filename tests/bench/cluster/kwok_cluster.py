"""A kwok-cluster pod without a host: both its containers as processes, between a shard and a provider that say nothing.

What Kubernetes and Prometheus ask of a real one is asked of it too: probes every second, scrapes every 5 and 30 s.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import yaml

from bigfleet.api.v1alpha1.phonehome_pb2_grpc import add_PhoneHomeServicer_to_server
from bigfleet.api.v1alpha1.shard_pb2 import NodeStateUpdate
from bigfleet.kube import KubeConfig
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security import GRPC_OPTIONS, Identity, listen
from bigfleet.security.authority import Authority
from scaletest.model.footprint import apiserver_memory_mib
from tests.bench.measuring.processes import tree
from tests.integration.players.scripted_shard import ScriptedShard, ShardSide, serving
from tests.loopback import own_addresses
from tests.patience import eventually
from tests.phones import Listener

TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
CLUSTER = "kwok-cluster-0"
READY_SECONDS = 1200  # a large demand is built before the operator starts
_CONTROL_PLANE_PORT = 8776
_PROBED = (_CONTROL_PLANE_PORT, 8777)
_WORKERS = (8770, 8771, 8773, 8775)
# No demand at all: the operator starts at once.
_PROFILE = {
    "target": 0,
    "archetypes": [
        {"name": "none", "instanceTypes": ["c6i"], "zones": ["zone-a"], "sizes": [{"resources": {"cpu": "1"}}]}
    ],
}


@dataclass(frozen=True)
class Pod:
    """A pod that runs."""

    ip: str
    shared_dir: Path
    containers: tuple["subprocess.Popen[bytes]", ...]
    log: Path

    @property
    def kubeconfig(self) -> KubeConfig:
        return KubeConfig.from_file(self.shared_dir / "admin.kubeconfig")

    def processes(self) -> list[int]:
        return [pid for container in self.containers for pid in tree(container.pid)]

    async def ready(self, http: aiohttp.ClientSession, port: int) -> bool:
        for container in self.containers:
            if container.poll() is not None:
                raise RuntimeError(f"a container ended:\n{self.log.read_text()[-3000:]}")
        try:
            async with http.get(f"http://{self.ip}:{port}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def directory() -> AsyncIterator[Path]:
    """A place in memory, as the chart gives it to the pod; gone afterwards."""
    made = Path(tempfile.mkdtemp(prefix="scaletest-bench-", dir="/dev/shm"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@asynccontextmanager
async def control_plane(folder: Path, tools: Path) -> AsyncIterator[Pod]:
    """Container `apiserver` alone; Ready when this yields."""
    shared = folder / "shared"
    log = folder / "pod.log"
    with own_addresses() as (ip, _):
        command = _start(log, tools, "control-plane", pod_ip=ip, shared_dir=shared, metrics_addr=f"{ip}:8776")
        pod = Pod(ip, shared, (command,), log)
        async with _ending(pod), aiohttp.ClientSession() as http:
            await eventually(partial(pod.ready, http, _CONTROL_PLANE_PORT), READY_SECONDS)
            yield pod


@asynccontextmanager
async def whole(
    folder: Path, tools: Path, load_profile: Mapping[str, Any] = _PROFILE
) -> AsyncIterator[tuple[Pod, ShardSide]]:
    """Both containers, in session with a shard; every process is ready and the demand built when this yields."""
    with own_addresses() as (ip, _):
        async with _whole(ip, folder, tools, load_profile) as running:
            yield running


@asynccontextmanager
async def _whole(
    ip: str, folder: Path, tools: Path, load_profile: Mapping[str, Any]
) -> AsyncIterator[tuple[Pod, ShardSide]]:
    authority = Authority.create("bench")
    identities = {kind: folder / "tls" / kind for kind in ("cluster", "shard", "provider")}
    for kind, place in identities.items():
        name = CLUSTER if kind == "cluster" else kind
        authority.issue(Identity(kind, name), dns_names=[f"{kind}.bigfleet"], ip_addresses=[ip]).write(place)
    profile = folder / "profile.yaml"
    profile.write_text(yaml.safe_dump(dict(load_profile)))
    shard, provider = ScriptedShard(), Listener()
    shared, log = folder / "shared", folder / "pod.log"
    async with (
        serving(shard, f"{ip}:7780", identities["shard"]),
        _provider(provider, f"{ip}:7800", identities["provider"]),
    ):
        containers = (
            _start(
                log,
                tools,
                "control-plane",
                pod_ip=ip,
                shared_dir=shared,
                metrics_addr=f"{ip}:8776",
                apiserver_memory_mib=apiserver_memory_mib(load_profile["target"]),
            ),
            _start(
                log,
                tools,
                "workload",
                pod_ip=ip,
                shared_dir=shared,
                cluster_id=CLUSTER,
                shard_addrs=f"{ip}:7780",
                provider_addr=f"{ip}:7800",
                load_profile=profile,
                tls_dir=identities["cluster"],
            ),
        )
        pod = Pod(ip, shared, containers, log)
        async with _ending(pod), aiohttp.ClientSession() as http:
            for port in (_CONTROL_PLANE_PORT, *_WORKERS):
                await eventually(partial(pod.ready, http, port), READY_SECONDS)
            side = await shard.session()
            side.on_tell = partial(_give, provider)
            async with _asked(pod, http):
                yield pod, side


def _start(log: Path, tools: Path, command: str, **flags: object) -> "subprocess.Popen[bytes]":
    rendered = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    with log.open("ab") as output:
        return subprocess.Popen(
            dying_with_us([sys.executable, "-m", "scaletest.cluster.cli", command, *rendered]),
            stdout=output,
            stderr=output,
            env={**os.environ, "SCALETEST_TOOLS": str(tools)},
        )


@asynccontextmanager
async def _ending(pod: Pod) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for container in reversed(pod.containers):
            container.terminate()
        for container in pod.containers:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(container.wait, 20)
            container.kill()


def _give(provider: Listener, told: NodeStateUpdate) -> None:
    """What the shard says of a machine is true: the provider has given it to the cluster."""
    provider.give(told.machine_id, allocatable=dict(told.resources.resources), labels=dict(told.labels))


@asynccontextmanager
async def _provider(provider: Listener, address: str, tls_dir: Path) -> AsyncIterator[None]:
    server = grpc.aio.server(options=GRPC_OPTIONS)
    add_PhoneHomeServicer_to_server(provider, server)
    listen(server, address, tls_dir)
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


@asynccontextmanager
async def _asked(pod: Pod, http: aiohttp.ClientSession) -> AsyncIterator[None]:
    """Probe and scrape the pod as its surroundings would."""

    async def ask(port: int, path: str, seconds: float) -> None:
        while True:
            async with http.get(f"http://{pod.ip}:{port}/{path}") as answer:
                await answer.read()
            await asyncio.sleep(seconds)

    asking = [
        *(asyncio.create_task(ask(port, "readyz", 1)) for port in _PROBED),
        *(asyncio.create_task(ask(port, "metrics", 5)) for port in _WORKERS),
        asyncio.create_task(ask(_CONTROL_PLANE_PORT, "metrics", 30)),
    ]
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
