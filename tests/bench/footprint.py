"""What an idle KWOK cluster takes: one whole pod with 330 Nodes, looked at for a minute."""

import asyncio
from pathlib import Path

from bigfleet.kube import KubeClient, KubeConfig
from bigfleet.kube.resources import NODES
from scaletest import toolchain
from tests.bench import kwok_cluster
from tests.bench.processes import snapshot
from tests.bench.report import against, emit
from tests.bench.running import run, say
from tests.patience import eventually

NODES_WANTED = 330
MEMORY_BAR_MB = 700
CPU_BAR_PERCENT = 5
_CALM_SECONDS = 30
_WATCH_SECONDS = 60


async def measure() -> None:
    tools = await toolchain.ensure(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"])
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
    async with KubeClient(kubeconfig) as kube:

        async def all_ready() -> bool:
            nodes, _ = await kube.list(NODES)
            ready = (
                condition["status"] == "True"
                for node in nodes
                for condition in node["status"].get("conditions") or []
                if condition["type"] == "Ready"
            )
            return len([True for is_ready in ready if is_ready]) >= wanted

        await eventually(all_ready, seconds)


if __name__ == "__main__":
    run(measure)
