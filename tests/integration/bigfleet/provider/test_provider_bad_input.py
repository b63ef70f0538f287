"""Broken and hostile requests to a provider's process: each gets an error and a count, and nothing is moved by them."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message import Message

from bigfleet.api.v1alpha1 import faults_pb2, faults_pb2_grpc, phonehome_pb2, phonehome_pb2_grpc, provider_pb2_grpc
from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.security.authority import Authority
from tests.integration.players.broken_requests import OVERSIZE, boundless, broken
from tests.integration.players.provider_client import CLUSTER, FLEET, IDLE, SPECULATIVE
from tests.integration.players.supply_side import Process, Supply, eventually

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

REQUESTS = 10_000
AT_ONCE = 50


class Fencing(TypedDict):
    """The fields of a request that carry its token."""

    shard_id: str
    shard_epoch: int
    sequence_number: int


NAN = float("nan")
NOBODY = "nobody"
_TOKEN: Fencing = {"shard_id": "mallory", "shard_epoch": 2**62, "sequence_number": 2**62}
# Whole, each of these is refused or only reads: the machine is unknown or in no position for it, a value is absurd.
# What is left when one of them is cut off moves nothing either.
SEEDS: dict[str, list[Message]] = {
    "CapacityProvider/Create": [pb.CreateRequest(machine_id=NOBODY, **_TOKEN), pb.CreateRequest(machine_id=NOBODY)],
    "CapacityProvider/Configure": [
        pb.ConfigureRequest(machine_id=NOBODY, cluster_id=CLUSTER, shard_metadata={"k": "v"}, **_TOKEN),
        pb.ConfigureRequest(machine_id=SPECULATIVE, cluster_id="mallory", bootstrap_blob=b"x"),
    ],
    "CapacityProvider/Drain": [
        pb.DrainRequest(machine_id=NOBODY, grace_period_seconds=1, **_TOKEN),
        pb.DrainRequest(machine_id=SPECULATIVE, grace_period_seconds=-1),
    ],
    "CapacityProvider/Delete": [pb.DeleteRequest(machine_id=NOBODY, **_TOKEN), pb.DeleteRequest(machine_id=NOBODY)],
    "CapacityProvider/Get": [pb.MachineRef(id=NOBODY)],
    "CapacityProvider/List": [
        pb.ListFilter(
            states=[99],  # type: ignore[list-item]  # a number that the enum does not have
            max_results=-1,
            since_revision=b"\xff",
            shard_id="mallory",
        )
    ],
    "PhoneHome/Report": [
        phonehome_pb2.ReadyReport(ready=[IDLE], full=True),
        phonehome_pb2.ReadyReport(cluster_id="mallory", ready=[IDLE], not_ready=[IDLE]),
    ],
    "FaultInjection/GetFaults": [faults_pb2.FaultSettings(refuse_configure=True, slow_factor=NAN)],
    "FaultInjection/SetFaults": [
        faults_pb2.FaultSettings(
            create_failure_ratio=NAN,
            configure_failure_ratio=-1,
            drain_failure_ratio=2,
            stock_out_zones=["*"],
            slow_factor=-NAN,
            vanish_rate_per_sec=-1,
        )
    ],
    "FaultInjection/Strike": [
        faults_pb2.StrikeRequest(kind=faults_pb2.STRIKE_LOSE, machine_ids=[NOBODY]),
        faults_pb2.StrikeRequest(
            kind=faults_pb2.STRIKE_LOSE,
            machine_ids=[NOBODY],
            states=[77],  # type: ignore[list-item]  # a number that the enum does not have
        ),
    ],
}
EXPECTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INTERNAL,  # no position for it
    grpc.StatusCode.FAILED_PRECONDITION,  # fenced: the token was seen before
}


@dataclass
class World:
    """A provider's process with one honest cluster that has a machine, and a channel to it."""

    provider: Process
    dialled: grpc.aio.Channel

    @property
    def rpc(self) -> Any:
        return provider_pb2_grpc.CapacityProviderStub(self.dialled)

    async def standing(self) -> dict[str, Any]:
        """All that there is to know of machines, faults and the honest cluster's nodes."""
        listed = await self.rpc.List(pb.ListFilter())
        faults: Any = faults_pb2_grpc.FaultInjectionStub(self.dialled)
        return {
            "revision": listed.revision,
            "machines": {machine.id: machine for machine in listed.machines},
            "faults": await faults.GetFaults(faults_pb2.GetFaultsRequest()),
            "transitions": await self.provider.metric("provider_transitions_total"),
            "ready": await self.provider.metric("provider_ready_nodes", cluster=CLUSTER),
            "departures": await self.provider.metric("provider_ready_departures_total"),
        }

    async def send(self, method: str, content: bytes) -> tuple[grpc.StatusCode, str]:
        call: Any
        if method == "PhoneHome/Report":
            call = self.dialled.stream_stream(f"/bigfleet.v1alpha1.{method}", bytes, bytes)(timeout=30)
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # it may be over before we have sent all
                await call.write(content)
                await call.done_writing()
                async for _ in call:
                    pass
        else:
            call = self.dialled.unary_unary(f"/bigfleet.v1alpha1.{method}", bytes, bytes)(content, timeout=30)
        return await call.code(), await call.details() or ""

    async def refusals(self) -> Counter[str]:
        """How often each method was INVALID_ARGUMENT, as the provider counts it."""
        code = grpc.StatusCode.INVALID_ARGUMENT
        return Counter({method: int(await self.counted(method, code)) for method in SEEDS})

    async def counted(self, method: str, code: grpc.StatusCode) -> float:
        return await self.provider.metric("provider_rpcs_total", rpc=method.partition("/")[2], code=code.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    supply = Supply(tmp_path_factory.mktemp("hostile"), authority, fleet=FLEET, plaintext=True)
    async with supply.provider.running() as provider, grpc.aio.insecure_channel(provider.address) as dialled:
        world = World(provider, dialled)
        phone: Any = phonehome_pb2_grpc.PhoneHomeStub(dialled).Report()
        await phone.write(phonehome_pb2.ReadyReport(cluster_id=CLUSTER, ready=[IDLE], full=True))
        await world.rpc.Configure(pb.ConfigureRequest(machine_id=IDLE, cluster_id=CLUSTER))

        async def configured() -> bool:
            machine = await world.rpc.Get(pb.MachineRef(id=IDLE))
            return bool(machine.state == pb.CONFIGURED)

        await eventually(configured)
        yield world
        # It was heard through all of it, and works as ever.
        assert not phone.done()
        await world.rpc.Drain(pb.DrainRequest(machine_id=IDLE))
        phone.cancel()


async def test_ten_thousand_broken_requests_change_nothing(world: World) -> None:
    source = random.Random(20261118)  # noise can be a lawful SetFaults, too; with this seed none is
    before, refused = await world.standing(), await world.refusals()
    codes: Counter[tuple[str, grpc.StatusCode]] = Counter()
    unreadable: Counter[str] = Counter()

    async def send(method: str, content: bytes) -> None:
        code, words = await world.send(method, content)
        codes[method, code] += 1
        unreadable[method] += "the request cannot be read" in words

    for _ in range(REQUESTS // AT_ONCE):
        methods = source.choices(list(SEEDS), k=AT_ONCE)
        requests = [(method, broken(source.choice(SEEDS[method]).SerializeToString(), source)) for method in methods]
        await asyncio.gather(*(send(*request) for request in requests))
    assert codes.total() == REQUESTS
    assert {code for _, code in codes} == EXPECTED
    assert await world.standing() == before
    counted = await world.refusals() - refused
    for method in SEEDS:
        assert REQUESTS / len(SEEDS) / 10 < unreadable[method] <= counted[method]
        assert counted[method] <= codes[method, grpc.StatusCode.INVALID_ARGUMENT]


@pytest.mark.parametrize(("size", "reason", "counted"), OVERSIZE.values(), ids=OVERSIZE)
@pytest.mark.parametrize("method", ["CapacityProvider/Configure", "PhoneHome/Report"])
async def test_a_request_that_is_too_large_is_refused_with_a_reason(
    world: World, method: str, size: int, reason: str, counted: bool
) -> None:
    before = await world.standing()
    refused = await world.counted(method, grpc.StatusCode.RESOURCE_EXHAUSTED)
    async with boundless(world.provider.address, None, "provider") as dialled:
        code, words = await World(world.provider, dialled).send(method, bytes(size))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reason in words
    assert await world.counted(method, grpc.StatusCode.RESOURCE_EXHAUSTED) == refused + counted
    assert await world.standing() == before
