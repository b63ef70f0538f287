"""What an idle KWOK cluster takes: one whole pod with 330 Nodes, looked at for a minute."""

import asyncio
from pathlib import Path

from bigfleet.kube import Informer, KubeClient, KubeConfig, Object
from bigfleet.kube.resources import NODES
from scaletest import toolchain
from tests.bench.cluster import kwok_cluster
from tests.bench.measuring.processes import snapshot
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run, say

NODES_WANTED = 330
MEMORY_BAR_MB = 700
CPU_BAR_PERCENT = 5
_CALM_SECONDS = 30
_WATCH_SECONDS = 60


async def measure() -> None:
    tools = await toolchain.ensure(kwok_cluster.TOOLS)
    async with kwok_cluster.directory() as folder, kwok_cluster.whole(folder, tools.bin_dir) as (pod, shard):
        # As it happens in a run: the shard names machines, the operator announces them, the node-creator boots them.
        say(f"a cluster is Ready; {NODES_WANTED} machines are announced")
        for index in range(NODES_WANTED):
            shard.tell(f"m{index}", "CONFIGURED")
        await until_ready_nodes(pod.kubeconfig, NODES_WANTED)
        say(f"all Nodes are Ready; left alone for {_CALM_SECONDS} s, then watched for {_WATCH_SECONDS} s")
        await asyncio.sleep(_CALM_SECONDS)
        before = snapshot(pod.processes())
        await asyncio.sleep(_WATCH_SECONDS)
        after = snapshot(pod.processes())
        volume = sum(file.stat().st_blocks * 512 for file in Path(pod.shared_dir).rglob("*") if file.is_file())
    emit(
        "footprint",
        nodes=NODES_WANTED,
        memory_mb=against(after.memory_bytes / 1e6, MEMORY_BAR_MB),
        cpu_percent=against(100 * after.cores_since(before, _WATCH_SECONDS), CPU_BAR_PERCENT),
        volume_mb=round(volume / 1e6, 1),
        processes={
            name: {
                "anonymous_mb": round(usage.anonymous_bytes / 1e6, 1),
                "file_mb": round(sum(usage.file_bytes.values()) / 1e6, 1),
                "cpu_percent": round(100 * (usage.cpu_seconds - before.programs[name].cpu_seconds) / _WATCH_SECONDS, 2),
            }
            for name, usage in after.programs.items()
        },
    )


async def until_ready_nodes(kubeconfig: KubeConfig, wanted: int, seconds: float = 120) -> None:
    """Watches them: listing hundreds of Nodes again and again would be the most that the apiserver does."""
    ready = asyncio.Event()

    def note(_: Object | None, new: Object | None) -> None:
        if new and new["ready"] and sum(node["ready"] for node in nodes) >= wanted:
            ready.set()

    async with KubeClient(kubeconfig) as kube, asyncio.timeout(seconds):
        nodes = Informer(kube, NODES, on_change=note, trim=_trim)
        watching = asyncio.create_task(nodes.run())
        try:
            await ready.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def _trim(node: Object) -> Object:
    conditions = node["status"].get("conditions") or []
    return {"ready": any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)}


if __name__ == "__main__":
    run(measure)
