"""How a check makes a machine's node Ready: over PhoneHome, if the provider has it; any other one must see to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import phonehome_pb2 as pb
from bigfleet.api.v1alpha1 import phonehome_pb2_grpc


class Joining:
    """The nodes of one cluster."""

    def __init__(self, call: Any = None) -> None:
        self._call = call
        self.problem = ""

    @property
    def ours(self) -> bool:
        """Whether it is for us to say which nodes are Ready."""
        return self._call is not None

    async def announce(self, cluster: str, machine_id: str) -> None:
        """The machine's node is Ready."""
        if self._call is None:
            return
        try:
            await self._call.write(pb.ReadyReport(cluster_id=cluster, ready=[machine_id]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self.problem = await _problem(self._call)


@asynccontextmanager
async def joining(channel: grpc.aio.Channel, cluster: str, timeout: float) -> AsyncIterator[Joining]:
    """Speak for the cluster inside the block, if the provider listens."""
    stub = phonehome_pb2_grpc.PhoneHomeStub(channel)
    if not await _listens(stub, timeout):
        yield Joining()
        return
    call = stub.Report()
    nodes = Joining(call)
    hearing = asyncio.ensure_future(_hear(call))
    try:
        await call.write(pb.ReadyReport(cluster_id=cluster, full=True))
    except grpc.aio.AioRpcError:
        nodes.problem = await _problem(call)
    try:
        yield nodes
    finally:
        call.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _listens(stub: phonehome_pb2_grpc.PhoneHomeStub, timeout: float) -> bool:
    """Whether the provider serves PhoneHome: then it refuses or ends a stream that names no cluster."""
    call = stub.Report(iter([pb.ReadyReport()]), timeout=timeout)
    refusals = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)
    return await call.code() in (grpc.StatusCode.OK, *refusals)


async def _hear(call: Any) -> None:
    """Take what the provider says in return and make nothing of it: unread words would hold the call's end back."""
    async for _ in call:
        pass


async def _problem(call: Any) -> str:
    said = f"{(await call.code()).name}: {await call.details()}"
    return f"the provider waits for nodes over PhoneHome and does not take our word ({said}); see --phone-home-tls-dir"
