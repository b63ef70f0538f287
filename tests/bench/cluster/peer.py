"""Side by side with kwokctl: a cluster, 330 Nodes, 2,500 Pods, with the same binaries, in turns in one run.

kwokctl is what people use for this, from the same Go module as kwok. It gets its defaults; only the places of the
binaries are told, so that it downloads nothing.
"""

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bigfleet.kube import Informer, KubeClient, KubeConfig, Object
from bigfleet.kube.resources import DEPLOYMENTS, NODES, PODS
from bigfleet.process.childprocess import stop_group
from scaletest import toolchain
from scaletest.host.markers import command_of
from scaletest.toolchain.tools import GO_TOOLS, GoTool, Module
from tests.bench.cluster import kwok_cluster
from tests.bench.cluster.footprint import NODES_WANTED, until_ready_nodes
from tests.bench.measuring.processes import snapshot
from tests.bench.measuring.report import beside, emit
from tests.bench.measuring.running import run, say, within

PODS_WANTED = 2_500
_DEPLOYMENTS = 10
# A neighbour's work falls on one side: each is created this often, in turns, and the median counts.
_CREATIONS = 3
_BUILD_SECONDS = 1_200
_CREATE_SECONDS = 180
_NODES_SECONDS = 180
_FILL_SECONDS = 600
_DELETE_SECONDS = 60
_SAY_SECONDS = 15
_CREATES_AT_ONCE = 32
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
class Cluster:
    """One that is up."""

    kubeconfig: KubeConfig
    processes: Callable[[], list[int]]


@dataclass(frozen=True)
class Filled:
    """Seconds of wall clock for each step, and what the whole took."""

    nodes_ready: float
    pods_running: float
    cpu_seconds: float
    memory_mb: float


Create = Callable[[Path, toolchain.Toolchain], AbstractAsyncContextManager[Cluster]]


async def measure() -> None:
    if KWOKCTL.release != _KWOK.release:
        raise RuntimeError(f"kwokctl {KWOKCTL.release} is pinned beside kwok {_KWOK.release}: pin the same version")
    async with within(_BUILD_SECONDS, "looking for the tools; kwokctl is built the first time"):
        with toolchain.ProgressDisplay(sys.stderr) as display:
            names = [*_BINARIES, "kwok", "kwokctl"]
            tools = await toolchain.ensure(names, display, go_tools={**GO_TOOLS, "kwokctl": KWOKCTL})
    sides: dict[str, Create] = {"ours": _ours, "kwokctl": _peers}
    created: dict[str, list[float]] = {name: [] for name in sides}
    filled: dict[str, Filled] = {}
    for turn in range(_CREATIONS):
        for name, create in sides.items():
            async with _measured(name, create, tools, created[name]) as cluster:
                if turn == _CREATIONS - 1:
                    filled[name] = await _fill(name, cluster)
    ours, peers = filled["ours"], filled["kwokctl"]
    emit(
        "peer",
        peer=f"kwokctl {KWOKCTL.release}",
        nodes=NODES_WANTED,
        pods=PODS_WANTED,
        create_seconds=beside(*(statistics.median(seconds) for seconds in created.values())),
        nodes_ready_seconds=beside(ours.nodes_ready, peers.nodes_ready),
        pods_running_seconds=beside(ours.pods_running, peers.pods_running),
        cpu_seconds=beside(ours.cpu_seconds, peers.cpu_seconds),
        memory_mb=beside(ours.memory_mb, peers.memory_mb),
    )


@asynccontextmanager
async def _measured(
    name: str, create: Create, tools: toolchain.Toolchain, created: list[float]
) -> AsyncIterator[Cluster]:
    """A cluster that is up; how long that took is added to `created`. Afterwards nothing of it is left."""
    async with kwok_cluster.directory() as folder, AsyncExitStack() as stack:
        began = time.monotonic()
        async with within(_CREATE_SECONDS, f"{name}: creating a cluster"):
            cluster = await stack.enter_async_context(create(folder, tools))
        created.append(time.monotonic() - began)
        say(f"{name}: it is up after {created[-1]:.1f} s")
        yield cluster


@asynccontextmanager
async def _ours(folder: Path, tools: toolchain.Toolchain) -> AsyncIterator[Cluster]:
    async with kwok_cluster.control_plane(folder, tools.bin_dir) as pod:
        yield Cluster(pod.kubeconfig, pod.processes)


@asynccontextmanager
async def _peers(folder: Path, tools: toolchain.Toolchain) -> AsyncIterator[Cluster]:
    kubeconfig = folder / "kubeconfig"
    # Its own home: nothing of the user's is read or written.
    environ = os.environ | {"HOME": str(folder), "KWOK_WORKDIR": str(folder), "KWOK_BIND_ADDRESS": "127.0.0.1"}
    kwokctl = partial(_kwokctl, tools.path("kwokctl"), environ)
    name = ["--name", _CLUSTER]
    binaries = {binary: tools.path(binary) for binary in _BINARIES} | {"kwok-controller": tools.path("kwok")}
    try:
        await kwokctl(
            *("create", "cluster", *name, "--runtime", "binary", "--wait", "120s", "--kubeconfig", str(kubeconfig)),
            *(f"--{binary}-binary={path}" for binary, path in binaries.items()),
        )
        yield Cluster(KubeConfig.from_file(kubeconfig), lambda: _started_from(folder))
    finally:
        try:
            async with within(_DELETE_SECONDS, "kwokctl: deleting its cluster"):
                await kwokctl("delete", "cluster", *name, "--kubeconfig", str(kubeconfig))
        finally:
            for pid in _started_from(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _kwokctl(binary: Path, environ: Mapping[str, str], *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        binary,
        *arguments,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    finally:
        await stop_group(process, grace_seconds=5)
    if process.returncode:
        raise RuntimeError(f"kwokctl {arguments[0]} failed:\n{output.decode()}")


def _started_from(folder: Path) -> list[int]:
    """What kwokctl left running: it copies the binaries into its folder, and runs them apart from itself."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if command_of(pid)[:1] and command_of(pid)[0].startswith(f"{folder}/")]


async def _fill(name: str, cluster: Cluster) -> Filled:
    async with KubeClient(cluster.kubeconfig, qps=1_000, burst=1_000) as kube:
        began = time.monotonic()
        async with within(_NODES_SECONDS, f"{name}: {NODES_WANTED} Nodes Ready"):
            await _in_parallel([kube.create(NODES, _node(index)) for index in range(NODES_WANTED)])
            await until_ready_nodes(cluster.kubeconfig, NODES_WANTED, _NODES_SECONDS)
        nodes_ready = time.monotonic() - began
        began = time.monotonic()
        names: set[str] = set()

        def state() -> str:
            return f"{len(names)} of {PODS_WANTED} run"

        async with within(_FILL_SECONDS, f"{name}: {PODS_WANTED} Pods Running", state):
            await _fill_with_pods(kube, names, lambda: say(f"{name}: {state()}"))
        pods_running = time.monotonic() - began
        taken = snapshot(cluster.processes())
        return Filled(nodes_ready, pods_running, taken.cpu_seconds, taken.memory_bytes / 1e6)


async def _fill_with_pods(kube: KubeClient, names: set[str], report: Callable[[], None]) -> None:
    """Ask for the Pods and return when all run; `names` are those that do."""
    running = asyncio.Event()

    def note(_: Object | None, new: Object | None) -> None:
        if new and new["running"]:
            names.add(new["name"])
            if len(names) >= PODS_WANTED:
                running.set()

    async def keep_reporting() -> None:
        while True:
            await asyncio.sleep(_SAY_SECONDS)
            report()

    pods = Informer(kube, PODS, namespace="default", on_change=note, trim=_trim)
    helpers = [asyncio.create_task(pods.run()), asyncio.create_task(keep_reporting())]
    try:
        replicas = PODS_WANTED // _DEPLOYMENTS
        await _in_parallel(
            [kube.create(DEPLOYMENTS, _deployment(index, replicas), "default") for index in range(_DEPLOYMENTS)]
        )
        await running.wait()
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)


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
    run(measure)
