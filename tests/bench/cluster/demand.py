"""The demand side of one KWOK cluster under load: from a Pod's creation to its binding, and what each process takes.

`python -m tests.bench.cluster.demand [PODS …]`; 2,500 and 10,000 unless told otherwise. Our processes together must
take less CPU than the apiserver: a miss is said, and ends with exit code 1.
"""

import asyncio
import math
import sys
import time
from functools import partial
from typing import Any

import aiohttp

from bigfleet.api.v1alpha1.provider_pb2 import Resources
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, RACK_KEY, ZONE_KEY
from bigfleet.kube import Informer, KubeClient, Object
from bigfleet.kube.resources import PODS
from scaletest import toolchain
from scaletest.cluster.control_plane.exposition import read_samples
from scaletest.cluster.load.bind_latency import created_at
from scaletest.cluster.markers import DEMAND_MARKER
from tests.bench.cluster import kwok_cluster
from tests.bench.measuring.processes import Snapshot, snapshot
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run, say, within
from tests.integration.players.scripted_shard import ShardSide

_NODES = 330
_BIND_SECONDS = 900
# Below this, something is wrong, or the machine has other work.
_SLOWEST_PER_SECOND = 10
_OPERATOR_PORT = 8770
# Our CPU time over the apiserver's.
_CPU_BAR = 1.0
# Processes of ours, by the names that they run under; all others are Kubernetes.
OURS = frozenset({"control-plane", "workload", "node-creator", "pod-controller", "load-driver", "operator"})


async def measure(*sizes: int) -> None:
    for pods in sizes:
        await measure_one(pods)


async def measure_one(pods: int) -> None:
    tools = await toolchain.ensure(kwok_cluster.TOOLS)
    async with (
        kwok_cluster.directory() as folder,
        kwok_cluster.whole(folder, tools.bin_dir, load_profile(pods)) as (pod, shard),
    ):
        built = (pod.shared_dir / DEMAND_MARKER).stat().st_mtime
        say(f"the demand of {pods:,} Pods is built; {_NODES} machines are announced")
        announced = time.time()
        announce_machines(shard, pods)
        async with KubeClient(pod.kubeconfig) as kube:
            first_created = await until_bound(kube, pods)
        bound = time.time()
        taken = snapshot(pod.processes())
        async with aiohttp.ClientSession() as http, http.get(f"http://{pod.ip}:{_OPERATOR_PORT}/metrics") as answer:
            operator = await answer.text()
    emit(
        "demand",
        pods=pods,
        nodes=_NODES,
        demand_built_seconds=round(built - first_created, 1),
        machines_to_bound_seconds=round(bound - announced, 1),
        created_to_bound_seconds=round(bound - first_created, 1),
        created_to_bound_per_second=round(pods / (bound - first_created), 1),
        rollup_p99_at_most_seconds=p99(operator, "bigfleet_operator_rollup_duration_seconds"),
        acknowledge_p99_at_most_seconds=p99(operator, "bigfleet_operator_acknowledge_duration_seconds"),
        **cpu_shares(taken),
    )


def load_profile(pods: int) -> dict[str, Any]:
    """So many equal Pods."""
    archetype = {
        "name": "web",
        "instanceTypes": ["c6i"],
        "zones": ["zone-a"],
        "resources": {"cpu": "1", "memory": "1Gi"},
    }
    return {"target": pods, "archetypes": [archetype]}


def announce_machines(shard: ShardSide, pods: int) -> None:
    """Machines with room for all of them, and for a few more."""
    per_node = -(-pods * 105 // 100 // _NODES)
    room = {"cpu": str(per_node), "memory": f"{per_node}Gi", "pods": "1100"}
    labels = {INSTANCE_TYPE_KEY: "c6i", ZONE_KEY: "zone-a", RACK_KEY: "zone-a-rack-0"}
    for index in range(_NODES):
        shard.tell(f"m{index}", "CONFIGURED", labels=labels, resources=Resources(resources=room))


def cpu_shares(taken: Snapshot) -> dict[str, Any]:
    """CPU seconds and memory of each process; ours together beside the apiserver's."""
    ours = sum(usage.cpu_seconds for name, usage in taken.programs.items() if name in OURS)
    apiserver = taken.programs["kube-apiserver"].cpu_seconds
    return {
        "ours_cpu_seconds": round(ours, 1),
        "apiserver_cpu_seconds": round(apiserver, 1),
        "ours_to_apiserver": against(ours / apiserver, _CPU_BAR),
        "processes": {
            name: {"cpu_seconds": round(usage.cpu_seconds, 1), "memory_mb": round(usage.anonymous_bytes / 1e6, 1)}
            for name, usage in sorted(taken.programs.items())
        },
    }


def p99(exposition: str, histogram: str) -> float | None:
    """The upper edge of the bucket that the 99th percentile falls into; None beyond the last one, or of nothing."""
    buckets = sorted(
        (float(sample.labels["le"]), sample.value) for sample in read_samples(exposition, f"{histogram}_bucket")
    )
    if not buckets[-1][1]:
        return None
    edge = next(edge for edge, count in buckets if count >= 0.99 * buckets[-1][1])
    return edge if math.isfinite(edge) else None


async def until_bound(kube: KubeClient, wanted: int) -> float:
    """When the first Pod was created, in Unix seconds; Kubernetes says it in whole ones, so at most one too early."""
    enough = asyncio.Event()
    bound: set[str] = set()
    first = math.inf

    def note(_: Object | None, new: Object | None) -> None:
        nonlocal first
        first = min(first, new["created"]) if new else first
        if new and new["node"]:
            bound.add(new["name"])
            if len(bound) >= wanted:
                enough.set()

    def trim(pod: Object) -> Object:
        return {
            "name": pod["metadata"]["name"],
            "created": created_at(pod["metadata"]["creationTimestamp"]),
            "node": pod["spec"].get("nodeName", ""),
        }

    watch = asyncio.create_task(Informer(kube, PODS, namespace="default", on_change=note, trim=trim).run())
    patience = max(_BIND_SECONDS, wanted / _SLOWEST_PER_SECOND)
    try:
        async with within(patience, f"{wanted:,} Pods are bound", lambda: f"{len(bound):,} are"):
            await enough.wait()
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    return first


if __name__ == "__main__":
    run(partial(measure, *map(int, sys.argv[1:] or ("2500", "10000"))))
