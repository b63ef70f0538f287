"""A shard on real sockets, beside the fake provider, and the cluster that talks to it: operator and nodes in one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.api.v1alpha1 import capacity_pb2, provider_pb2, shard_pb2, shard_pb2_grpc
from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.security import channel
from bigfleet.shard import ShardOptions
from bigfleet.shard.process import RunningShard, running
from tests.integration.players.provider_client import CLUSTER, ProviderClient

PATIENCE_SECONDS = 10.0
IN = capacity_pb2.NodeSelectorRequirement.IN


def small_need(machines: int, cpu_each: int = 4, priority: int = 1000) -> capacity_pb2.CapacityNeed:
    """Demand that fills so many machines of the fleet's kind `small`."""
    requirement = capacity_pb2.NodeSelectorRequirement(key=INSTANCE_TYPE_KEY, operator=IN, values=["m6i.large"])
    return capacity_pb2.CapacityNeed(
        requirements=[requirement],
        aggregate_resources={"cpu": str(machines * cpu_each)},
        min_unit={"cpu": "1"},
        priority=priority,
    )


async def eventually(condition: Callable[[], Any], changed: asyncio.Event) -> None:
    """Wait until `condition` holds, looking again whenever `changed` is set."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            changed.clear()
            await changed.wait()


class Shard:
    """A running shard, seen from outside."""

    def __init__(self, ports: RunningShard) -> None:
        self.ports = ports
        self.address = f"127.0.0.1:{ports.port}"

    async def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.ports.metrics_port}{path}"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            return answer.status, await answer.text()

    async def metric(self, name: str, **labels: str) -> float | None:
        """The sum of the series with these labels, None if there is none."""
        _, text = await self.get("/metrics")
        values = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"bigfleet_shard_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(values) if values else None

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        await self._until(lambda seen: seen == value, f"= {value}", name, labels)

    async def until_at_least(self, value: float, name: str, **labels: str) -> None:
        await self._until(lambda seen: seen >= value, f"≥ {value}", name, labels)

    async def _until(self, good: Callable[[float], bool], wanted: str, name: str, labels: dict[str, str]) -> None:
        """Metrics have no push, so this asks again and again."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE_SECONDS
        while True:
            seen = await self.metric(name, **labels)
            if seen is not None and good(seen):
                return
            assert loop.time() < give_up, f"{name} {labels} is {seen}, not {wanted}"
            await asyncio.sleep(0.05)

    async def outcomes(self, kind: str) -> dict[str, float]:
        """Outcomes of a kind of action that are not 0."""
        _, text = await self.get("/metrics")
        return {
            sample.labels["outcome"]: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "bigfleet_shard_action_execute_outcomes_total"
            and sample.labels["kind"] == kind
            and sample.value
        }


class Cluster:
    """An operator's session, and nodes that join as soon as their machine is Configuring."""

    def __init__(self, call: Any, phone_home: Any) -> None:
        self._call = call
        self._phone_home = phone_home
        self.machines: dict[str, shard_pb2.NodeStateUpdate] = {}
        self.frames: list[shard_pb2.ShardMessage] = []
        self.reclaims: list[shard_pb2.ReclaimInstruction] = []
        self.changed = asyncio.Event()
        self.blob = b"#cloud-config"
        self.blob_error = ""
        self.answers_blobs = True
        self.requests: list[shard_pb2.BootstrapRequest] = []

    @property
    def acks(self) -> list[str]:
        return [frame.ack.echo for frame in self.frames if frame.WhichOneof("payload") == "ack"]

    def in_state(self, state: int) -> set[str]:
        return {machine_id for machine_id, frame in self.machines.items() if frame.state == state}

    async def send(self, **payload: Any) -> None:
        await self._call.write(shard_pb2.OperatorMessage(**payload))

    async def roll_up(self, *needs: capacity_pb2.CapacityNeed, cluster_id: str = CLUSTER) -> None:
        await self.send(rollup=capacity_pb2.ClusterCapacityNeeds(cluster_id=cluster_id, needs=needs))

    async def until(self, condition: Callable[[], Any]) -> None:
        await eventually(condition, self.changed)

    async def until_configured(self, count: int) -> set[str]:
        await self.until(lambda: len(self.in_state(provider_pb2.CONFIGURED)) == count)
        return self.in_state(provider_pb2.CONFIGURED)

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """How the shard ends the session."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._call.code(), await self._call.details()

    async def listen(self) -> None:
        async for frame in self._call:
            self.frames.append(frame)
            await self._answer(frame)
            self.changed.set()

    async def _answer(self, frame: shard_pb2.ShardMessage) -> None:
        match frame.WhichOneof("payload"):
            case "bootstrap_request":
                self.requests.append(frame.bootstrap_request)
                if self.answers_blobs:
                    await self.answer_blob(frame.bootstrap_request.request_id)
            case "reclaim_instruction":
                self.reclaims.append(frame.reclaim_instruction)
            case "node_state_update":
                await self._note(frame.node_state_update)

    async def answer_blob(self, request_id: str) -> None:
        response = shard_pb2.BootstrapBlobResponse(request_id=request_id, user_data=self.blob, error=self.blob_error)
        await self.send(bootstrap_response=response)

    async def _note(self, update: shard_pb2.NodeStateUpdate) -> None:
        if update.removed:
            self.machines.pop(update.machine_id, None)
            return
        self.machines[update.machine_id] = update
        if update.state == provider_pb2.CONFIGURING:
            await self._phone_home(ready=[update.machine_id])


@asynccontextmanager
async def shard_at(directory: Path, provider: ProviderClient, **options: Any) -> AsyncIterator[Shard]:
    """A shard over the provider, plaintext unless told otherwise."""
    settings: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "metrics_addr": "127.0.0.1:0",
        "id": "shard-0",
        "data_dir": directory / "shard",
        "provider_addr": f"127.0.0.1:{provider.provider.port}",
        "node_name_prefix": "fake-",
        "execute_concurrency": 16,
        "plaintext": "tls_dir" not in options,
    }
    async with running(ShardOptions(**(settings | options))) as ports:
        yield Shard(ports)


async def refusal_at(shard: Shard, cluster: str = CLUSTER) -> tuple[grpc.StatusCode, str]:
    """How the shard ends a session that it does not even begin."""
    async with channel(shard.address, None, "shard") as connection:
        call = shard_pb2_grpc.ShardStub(connection).Session()
        await call.write(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await call.code(), await call.details()


@asynccontextmanager
async def cluster_at(
    shard: Shard,
    provider: ProviderClient,
    cluster: str = CLUSTER,
    tls_dir: Path | None = None,
    answers_blobs: bool = True,
) -> AsyncIterator[Cluster]:
    """A cluster with an open session."""
    async with provider.phone_home(cluster) as phone_home, channel(shard.address, tls_dir, "shard") as connection:
        call = shard_pb2_grpc.ShardStub(connection).Session()
        there = Cluster(call, phone_home)
        there.answers_blobs = answers_blobs
        await there.send(hello=shard_pb2.Hello(cluster_id=cluster, protocol_version="v1alpha1"))
        listener = asyncio.create_task(there.listen())
        try:
            await there.until(lambda: "resync" in there.acks)
            yield there
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
            call.cancel()
