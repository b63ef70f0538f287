"""Side by side with kwokctl: a cluster, 330 Nodes, 2,500 Pods, with the same binaries, one after the other in one run.

kwokctl is what people use for this, from the same Go module as kwok. It gets its defaults; only the places of the
binaries are told, so that it downloads nothing.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bigfleet.kube import Informer, KubeClient, KubeConfig, Object
from bigfleet.kube.resources import DEPLOYMENTS, NODES, PODS
from scaletest import toolchain
from scaletest.toolchain.tools import GO_TOOLS, GoTool, Module
from tests.bench import kwok_cluster
from tests.bench.footprint import NODES_WANTED, until_ready_nodes
from tests.bench.processes import snapshot
from tests.bench.report import beside, emit

PODS_WANTED = 2_500
_DEPLOYMENTS = 10
_FILL_SECONDS = 600
_CREATES_AT_ONCE = 32
_IP = "127.83.0.2"
_CLUSTER = "scaletest-bench"
_ROOM = {"cpu": "8", "memory": "64Gi", "pods": "110"}
_REQUESTS = {"cpu": "1", "memory": "8Gi"}

_KWOK = GO_TOOLS["kwok"].module
KWOKCTL = GoTool(
    "kwokctl",
    Module(Path(__file__).with_name("kwokctl"), pinned_by=_KWOK.pinned_by, stamps=_KWOK.stamps),
    "sigs.k8s.io/kwok/cmd/kwokctl",
)
_BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Times:
    """Seconds of wall clock for each step, and what the whole took."""

    create: float
    nodes_ready: float
    pods_running: float
    cpu_seconds: float
    memory_mb: float


async def measure() -> None:
    if KWOKCTL.release != _KWOK.release:
        raise RuntimeError(f"kwokctl {KWOKCTL.release} is pinned beside kwok {_KWOK.release}: pin the same version")
    tools = await toolchain.ensure([*_BINARIES, "kwok", "kwokctl"], go_tools={**GO_TOOLS, "kwokctl": KWOKCTL})
    async with kwok_cluster.directory() as folder:
        ours = await _ours(folder, tools)
    async with kwok_cluster.directory() as folder:
        peers = await _peers(folder, tools)
    emit(
        "peer",
        peer=f"kwokctl {KWOKCTL.release}",
        nodes=NODES_WANTED,
        pods=PODS_WANTED,
        create_seconds=beside(ours.create, peers.create),
        nodes_ready_seconds=beside(ours.nodes_ready, peers.nodes_ready),
        pods_running_seconds=beside(ours.pods_running, peers.pods_running),
        cpu_seconds=beside(ours.cpu_seconds, peers.cpu_seconds),
        memory_mb=beside(ours.memory_mb, peers.memory_mb),
    )


async def _ours(folder: Path, tools: toolchain.Toolchain) -> Times:
    began = time.monotonic()
    async with kwok_cluster.control_plane(_IP, folder, tools.bin_dir) as pod:
        created = time.monotonic() - began
        return await _fill(pod.kubeconfig, created, pod.processes)


async def _peers(folder: Path, tools: toolchain.Toolchain) -> Times:
    began = time.monotonic()
    async with _kwokctl_cluster(folder, tools) as kubeconfig:
        created = time.monotonic() - began
        pids = folder / "clusters" / _CLUSTER / "pids"
        return await _fill(kubeconfig, created, lambda: [int(file.read_text()) for file in pids.iterdir()])


@asynccontextmanager
async def _kwokctl_cluster(folder: Path, tools: toolchain.Toolchain) -> AsyncIterator[KubeConfig]:
    kubeconfig = folder / "kubeconfig"
    # Its own home: nothing of the user's is read or written.
    environ = os.environ | {"HOME": str(folder), "KWOK_WORKDIR": str(folder), "KWOK_BIND_ADDRESS": "127.0.0.1"}
    name = ["--name", _CLUSTER]
    binaries = {binary: tools.path(binary) for binary in _BINARIES} | {"kwok-controller": tools.path("kwok")}

    async def kwokctl(*arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            tools.path("kwokctl"),
            *arguments,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"kwokctl {arguments[0]} failed:\n{output.decode()}")

    try:
        await kwokctl(
            *("create", "cluster", *name, "--runtime", "binary", "--wait", "120s", "--kubeconfig", str(kubeconfig)),
            *(f"--{binary}-binary={path}" for binary, path in binaries.items()),
        )
        yield KubeConfig.from_file(kubeconfig)
    finally:
        await kwokctl("delete", "cluster", *name, "--kubeconfig", str(kubeconfig))


async def _fill(kubeconfig: KubeConfig, created: float, processes: Callable[[], list[int]]) -> Times:
    async with KubeClient(kubeconfig, qps=1_000, burst=1_000) as kube:
        began = time.monotonic()
        await _in_parallel([kube.create(NODES, _node(index)) for index in range(NODES_WANTED)])
        await until_ready_nodes(kubeconfig, NODES_WANTED)
        nodes_ready = time.monotonic() - began

        running = asyncio.Event()
        names: set[str] = set()

        def note(_: Object | None, new: Object | None) -> None:
            if new and new["running"]:
                names.add(new["name"])
                if len(names) >= PODS_WANTED:
                    running.set()

        watch = asyncio.create_task(Informer(kube, PODS, namespace="default", on_change=note, trim=_trim).run())
        try:
            began = time.monotonic()
            replicas = PODS_WANTED // _DEPLOYMENTS
            await _in_parallel(
                [kube.create(DEPLOYMENTS, _deployment(index, replicas), "default") for index in range(_DEPLOYMENTS)]
            )
            async with asyncio.timeout(_FILL_SECONDS):
                await running.wait()
            pods_running = time.monotonic() - began
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        taken = snapshot(processes())
        return Times(created, nodes_ready, pods_running, taken.cpu_seconds, taken.memory_bytes / 1e6)


async def _in_parallel(requests: list[Awaitable[Object]]) -> None:
    turns = asyncio.Semaphore(_CREATES_AT_ONCE)

    async def take_turn(request: Awaitable[Object]) -> None:
        async with turns:
            await request

    await asyncio.gather(*map(take_turn, requests))


def _trim(pod: Object) -> Object:
    return {"name": pod["metadata"]["name"], "running": pod["status"].get("phase") == "Running"}


def _node(index: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        # kwokctl's kwok plays the nodes that carry this annotation; ours plays all.
        "metadata": {
            "name": f"node-{index}",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": f"node-{index}"},
        },
        "status": {"capacity": _ROOM, "allocatable": _ROOM},
    }


def _deployment(index: int, replicas: int) -> Object:
    labels = {"app": f"web-{index}"}
    container = {"name": "main", "image": "pause", "resources": {"requests": _REQUESTS}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{index}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


if __name__ == "__main__":
    asyncio.run(measure())
