"""A cluster with its operator and its nodes, played well: it dials again for ever, and believes what it is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import (
    capacity_pb2,
    phonehome_pb2,
    phonehome_pb2_grpc,
    provider_pb2,
    shard_pb2,
    shard_pb2_grpc,
)
from bigfleet.security import channel

_AGAIN_SECONDS = 0.2
_ROLLUP_SECONDS = 1.0
_BROKEN = (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError, OSError)


class PlayedOperator:
    """One cluster. `machines` is what it believes: each machine's last word, without those that have left."""

    def __init__(
        self,
        cluster: str,
        shard_addr: str,
        provider_addr: str,
        tls_dir: Path | None,
        rollup_seconds: float = _ROLLUP_SECONDS,
    ) -> None:
        self.cluster = cluster
        self._rollup_seconds = rollup_seconds
        self._shard_addr = shard_addr
        self._provider_addr = provider_addr
        self._tls_dir = tls_dir
        self.demand: list[capacity_pb2.CapacityNeed] = []
        self.machines: dict[str, shard_pb2.NodeStateUpdate] = {}
        self.sessions = 0
        self.reclaims = 0
        self.changed = asyncio.Event()
        self._mentioned: set[str] = set()
        self._silences = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._asked_for = asyncio.Event()

    def ask_for(self, *needs: capacity_pb2.CapacityNeed) -> None:
        """The cluster's whole demand from now on."""
        self.demand = list(needs)
        self._asked_for.set()

    def states(self) -> dict[str, str]:
        return {machine_id: provider_pb2.MachineState.Name(one.state) for machine_id, one in self.machines.items()}

    @property
    def runs(self) -> bool:
        return bool(self._tasks)

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(for_ever(part)) for part in (self._converse, self._phone_home)]

    async def kill(self) -> None:
        """The operator dies and forgets nothing that its cluster keeps: the demand and the nodes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator["PlayedOperator"]:
        await self.start()
        try:
            yield self
        finally:
            await self.kill()

    # --- the session --------------------------------------------------------------------------------------------

    async def _converse(self) -> None:
        async with channel(self._shard_addr, self._tls_dir, "shard") as dialled:
            call = shard_pb2_grpc.ShardStub(dialled).Session()
            self._mentioned.clear()
            hello = shard_pb2.Hello(cluster_id=self.cluster, protocol_version="v1alpha1")
            await call.write(shard_pb2.OperatorMessage(hello=hello))
            self.sessions += 1
            speaking = asyncio.create_task(self._roll_up(call))
            try:
                async for frame in call:
                    await self._take(call, frame)
                    self.changed.set()
            finally:
                speaking.cancel()
                await asyncio.gather(speaking, return_exceptions=True)
                call.cancel()

    async def _roll_up(self, call: Any) -> None:
        while True:
            self._asked_for.clear()
            rollup = capacity_pb2.ClusterCapacityNeeds(cluster_id=self.cluster, needs=self.demand)
            await call.write(shard_pb2.OperatorMessage(rollup=rollup))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rollup_seconds):
                    await self._asked_for.wait()

    async def _take(self, call: Any, frame: shard_pb2.ShardMessage) -> None:
        match frame.WhichOneof("payload"):
            case "ack" if frame.ack.echo == "resync":
                await self._resynced(call)
            case "bootstrap_request":
                blob = shard_pb2.BootstrapBlobResponse(request_id=frame.bootstrap_request.request_id, user_data=b"#")
                await call.write(shard_pb2.OperatorMessage(bootstrap_response=blob))
            case "reclaim_instruction":
                self.reclaims += 1
                report = shard_pb2.DrainReport(instruction_id=frame.reclaim_instruction.instruction_id)
                await call.write(shard_pb2.OperatorMessage(drain_report=report))
            case "node_state_update":
                self._note(frame.node_state_update)

    async def _resynced(self, call: Any) -> None:
        """Like the real operator: one that names nobody drops nobody before the third time."""
        forgotten = self.machines.keys() - self._mentioned
        self._silences = self._silences + 1 if forgotten and not self._mentioned else 0
        if self._silences in (1, 2):
            await call.write(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=self.cluster)))
            return
        for machine_id in forgotten:
            del self.machines[machine_id]

    def _note(self, update: shard_pb2.NodeStateUpdate) -> None:
        self._mentioned.add(update.machine_id)
        if update.removed:
            self.machines.pop(update.machine_id, None)
        else:
            self.machines[update.machine_id] = update

    # --- the nodes ----------------------------------------------------------------------------------------------

    def _ready(self) -> set[str]:
        joined = (provider_pb2.CONFIGURING, provider_pb2.CONFIGURED)
        return {machine_id for machine_id, one in self.machines.items() if one.state in joined}

    async def _phone_home(self) -> None:
        await phone_home(self.cluster, self._provider_addr, self._tls_dir, self._ready, self.changed)


async def for_ever(part: Callable[[], Awaitable[None]]) -> None:
    """Again and again, whatever breaks on the way to the other end."""
    while True:
        with suppress(*_BROKEN):
            await part()
        await asyncio.sleep(_AGAIN_SECONDS)


async def phone_home(
    cluster: str, provider_addr: str, tls_dir: Path | None, ready_now: Callable[[], set[str]], changed: asyncio.Event
) -> None:
    """A cluster's nodes report while the provider listens. Level-triggered: all of them at first, then what changes."""
    async with channel(provider_addr, tls_dir, "provider") as dialled:
        call: Any = phonehome_pb2_grpc.PhoneHomeStub(dialled).Report()
        hearing = asyncio.ensure_future(_hear(call))

        async def report(**fields: Any) -> None:
            await call.write(phonehome_pb2.ReadyReport(cluster_id=cluster, **fields))

        try:
            said = ready_now()
            await report(ready=said, full=True)
            while True:
                changed.clear()
                ready = ready_now()
                if ready != said:
                    await report(ready=ready - said, not_ready=said - ready)
                    said = ready
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ROLLUP_SECONDS):
                        await changed.wait()
                if call.done():
                    return
        finally:
            call.cancel()
            await asyncio.gather(hearing, return_exceptions=True)


async def _hear(call: Any) -> None:
    """These nodes boot without the provider's word; but words that nobody reads would hold the stream's end back."""
    async for _ in call:
        pass
