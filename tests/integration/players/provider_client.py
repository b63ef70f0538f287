"""A fake provider on a real socket, and the two clients it has: a shard and the clusters' phone-home streams."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.api.v1alpha1 import phonehome_pb2, phonehome_pb2_grpc, provider_pb2_grpc
from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import CapacityType, Machine, MachineState, invariant_violation
from bigfleet.provider.fake.latency import Latencies, Latency
from bigfleet.provider.fake.server import ProviderOptions, RunningProvider, running
from tests import patience

INSTANT = Latencies(*[Latency(0, 0)] * 4)
CLUSTER = "kwok-cluster-0"
# Neither the six RPCs nor metrics push, so tests ask again and again.
eventually = partial(patience.eventually, seconds=5)

FLEET: dict[str, Any] = {
    "kinds": {
        "small": {
            "instanceType": "m6i.large",
            "zone": "zone-a",
            "capacityType": "OnDemand",
            "pricePerHour": 1.0,
            "interruptionProbability": 0.05,
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "labels": {"topology.bigfleet/rack": "zone-a-rack-1"},
        },
        "metal": {
            "instanceType": "a3-highgpu-8g",
            "zone": "zone-b",
            "capacityType": "BareMetal",
            "pricePerHour": 0.0,
            "allocatable": {"cpu": "208"},
        },
    },
    "machines": [
        {"idPrefix": "spec", "kind": "small", "count": 3, "state": "Speculative"},
        {"idPrefix": "idle", "kind": "metal", "count": 2, "state": "Idle"},
    ],
}
SPECULATIVE = "spec-small-0"
IDLE = "idle-metal-0"


def fleet_of(*batches: dict[str, Any]) -> dict[str, Any]:
    """FLEET's kinds with other machines."""
    return {"kinds": FLEET["kinds"], "machines": list(batches)}


class ProviderClient:
    """What a shard and its clusters do with a provider. Messages are Any: the stubs' enums are not core's."""

    def __init__(self, provider: RunningProvider, channel: grpc.aio.Channel, shard_id: str) -> None:
        self.provider = provider
        self.rpc = provider_pb2_grpc.CapacityProviderStub(channel)
        self._phone = phonehome_pb2_grpc.PhoneHomeStub(channel)
        self._shard_id = shard_id
        self._sequence = itertools.count(1)
        # Every frame of the provider's words, by cluster.
        self.words: dict[str, list[phonehome_pb2.MachineWords]] = {}

    def token(self, epoch: int = 1) -> dict[str, Any]:
        """A fresh fencing token."""
        return {"shard_id": self._shard_id, "shard_epoch": epoch, "sequence_number": next(self._sequence)}

    async def create(self, machine_id: str, **fields: Any) -> Any:
        return await self.rpc.Create(pb.CreateRequest(machine_id=machine_id, **(self.token() | fields)))

    async def configure(self, machine_id: str, cluster_id: str = CLUSTER, **fields: Any) -> Any:
        request = pb.ConfigureRequest(machine_id=machine_id, cluster_id=cluster_id, **(self.token() | fields))
        return await self.rpc.Configure(request)

    async def drain(self, machine_id: str, **fields: Any) -> Any:
        return await self.rpc.Drain(pb.DrainRequest(machine_id=machine_id, **(self.token() | fields)))

    async def delete(self, machine_id: str, **fields: Any) -> Any:
        return await self.rpc.Delete(pb.DeleteRequest(machine_id=machine_id, **(self.token() | fields)))

    async def get(self, machine_id: str) -> Any:
        machine = await self.rpc.Get(pb.MachineRef(id=machine_id))
        assert invariant_violation(_in_core_terms(machine)) is None
        return machine

    async def list(self, **fields: Any) -> Any:
        return await self.rpc.List(pb.ListFilter(**fields))

    async def until(self, machine_id: str, state: MachineState) -> Any:
        """The machine once it is in `state`."""

        async def reached() -> Any:
            machine = await self.get(machine_id)
            return machine if machine.state == state else None

        return await eventually(reached)

    async def configured(self, machine_id: str = IDLE) -> Any:
        """An Idle machine, bound to CLUSTER and joined."""
        await self.configure(machine_id)
        async with self.phone_home() as report:
            await report(ready=[machine_id])
            return await self.until(machine_id, MachineState.CONFIGURED)

    @asynccontextmanager
    async def phone_home(self, cluster: str = CLUSTER, ready: Iterable[str] = ()) -> AsyncIterator["PhoneHome"]:
        """An open stream that has sent the whole set."""
        call = self._phone.Report()
        # Words that nobody reads would hold the stream's end back.
        hearing = asyncio.ensure_future(_hear(call, self.words.setdefault(cluster, [])))

        report = PhoneHome(call, cluster)
        await report(ready=ready, full=True)
        try:
            yield report
        finally:
            call.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def metric(self, name: str, **labels: str) -> float | None:
        """The value of one series, None if it does not exist."""
        url = f"http://127.0.0.1:{self.provider.metrics_port}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            text = await answer.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        """Return once the series has this value."""

        async def reached() -> bool:
            return await self.metric(name, **labels) == value

        await eventually(reached)


class PhoneHome:
    """A cluster's stream; calling it sends one more frame."""

    def __init__(self, call: Any, cluster: str) -> None:
        self.call = call
        self._cluster = cluster

    async def __call__(self, *, cluster_id: str | None = None, **fields: Any) -> None:
        cluster = self._cluster if cluster_id is None else cluster_id
        await self.call.write(phonehome_pb2.ReadyReport(cluster_id=cluster, **fields))


@asynccontextmanager
async def provider_at(
    directory: Path, fleet: dict[str, Any] = FLEET, shard_id: str = "shard-0", **options: Any
) -> AsyncIterator[ProviderClient]:
    """A provider with these machines and instant transitions, unless told otherwise, and a plaintext client."""
    file = directory / "fleet.json"
    file.write_bytes(msgspec.json.encode(fleet))
    settings: dict[str, Any] = {"listen": "127.0.0.1:0", "metrics_addr": "127.0.0.1:0", "latencies": INSTANT}
    settings["plaintext"] = "tls_dir" not in options
    async with (
        running(ProviderOptions(fleet=file, **(settings | options))) as provider,
        grpc.aio.insecure_channel(f"127.0.0.1:{provider.port}") as channel,
    ):
        yield ProviderClient(provider, channel, shard_id)


async def _hear(call: Any, words: list[phonehome_pb2.MachineWords]) -> None:
    async for frame in call:
        words += [frame]


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Code and words of a call that must fail."""
    if isinstance(call, grpc.aio.StreamStreamCall):
        code = await call.code()
        assert code is not grpc.StatusCode.OK, "the stream ended well"
        return code, await call.details() or ""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    raise AssertionError("the call was accepted")


def _in_core_terms(machine: pb.Machine) -> Machine:
    return Machine(
        id=machine.id,
        state=MachineState(machine.state),
        capacity_type=CapacityType(machine.capacity_type),
        price_per_hour=machine.price_per_hour,
        interruption_probability=machine.interruption_probability,
        host=machine.host.ref,
        cluster=machine.cluster,
        last_error=machine.last_error,
    )
