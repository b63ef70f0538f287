"""A running operator between a real kube-apiserver and a scripted shard (fixtures `world` and `side`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from bigfleet.kube import KubeClient, NotFound, Object
from bigfleet.kube.resources import UPCOMING_NODES
from bigfleet.operator import OperatorOptions, serve
from tests.integration.players.apiserver import ApiServer, eventually, free_ports
from tests.integration.players.scripted_shard import ScriptedShard, ShardSide, serving

CLUSTER = "kwok-cluster-7"


@dataclass(frozen=True)
class World:
    """A running operator and both its neighbours."""

    kube: KubeClient
    shard: ScriptedShard
    shard_addr: str
    metrics_addr: str

    async def metric(self, series: str) -> float:
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.metrics_addr}/metrics") as response:
            lines = (await response.text()).splitlines()
        return next(float(line.split()[-1]) for line in lines if line.rsplit(" ", 1)[0] == series)


@asynccontextmanager
async def operator(
    apiserver: ApiServer, kube: KubeClient, shard_addr: str = "", **options: Any
) -> AsyncIterator[World]:
    """Run an operator for the length of the context; it must live until the end."""
    shard_port, metrics_port = free_ports(2)
    shard_addr = shard_addr or f"127.0.0.1:{shard_port}"
    settings = OperatorOptions(
        cluster_id=CLUSTER,
        shard_addr=shard_addr,
        kubeconfig=apiserver.kubeconfig,
        metrics_addr=f"127.0.0.1:{metrics_port}",
        plaintext="tls_dir" not in options,
        **options,
    )
    task = asyncio.create_task(serve(settings))
    try:
        yield World(kube, ScriptedShard(), shard_addr, settings.metrics_addr)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def world(apiserver: ApiServer, kube: KubeClient) -> AsyncIterator[World]:
    async with operator(apiserver, kube) as world, serving(world.shard, world.shard_addr):
        yield world


@pytest.fixture
async def side(world: World) -> ShardSide:
    return await world.shard.session()


async def until_phase(kube: KubeClient, machine: str, phase: str) -> Object:
    async def attempt() -> Object:
        record: Object = await kube.get(UPCOMING_NODES, f"un-{machine}")
        assert record.get("status", {}).get("phase") == phase
        return record

    return await eventually(attempt)


async def until_gone(kube: KubeClient, machine: str) -> None:
    async def attempt() -> bool:
        try:
            await kube.get(UPCOMING_NODES, f"un-{machine}")
        except NotFound:
            return True
        return False

    await eventually(attempt)
