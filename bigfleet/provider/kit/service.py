"""The CapacityProvider service: which peers may call, what the messages mean, how answers look on the wire."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.api.v1alpha1 import provider_pb2_grpc
from bigfleet.core.machines import MachineState
from bigfleet.provider.kit.domains import ShardDomains
from bigfleet.provider.kit.errors import InvalidArgument, KitError
from bigfleet.provider.kit.lifecycle import Lifecycle, Mutation
from bigfleet.provider.kit.metrics import ProviderMetrics
from bigfleet.provider.kit.state import State
from bigfleet.provider.kit.transitions import Kind
from bigfleet.rpc.fencing import FencingToken
from bigfleet.security import require

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")

READERS = ("shard", "admin", "readonly")
# A List of a large inventory lets other calls in after this many machines (about 20 ms).
_LIST_SLICE = 2000


class CapacityProvider(provider_pb2_grpc.CapacityProviderServicer):
    """The six RPCs over an inventory and its lifecycle."""

    def __init__(
        self,
        provider_id: str,
        state: State,
        lifecycle: Lifecycle,
        metrics: ProviderMetrics,
        domains: ShardDomains,
    ) -> None:
        self._provider_id = provider_id
        self._inventory = state.inventory
        self._store = state.store
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._domains = domains

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.TransitionAck:  # noqa: N802
        return await self._mutate("Create", Mutation(Kind.CREATE, request.machine_id, _token(request)), context)

    async def Configure(self, request: pb.ConfigureRequest, context: Context) -> pb.TransitionAck:  # noqa: N802
        call = Mutation(
            Kind.CONFIGURE,
            request.machine_id,
            _token(request),
            cluster=request.cluster_id,
            metadata=request.shard_metadata,
            bootstrap_blob=request.bootstrap_blob,
        )
        return await self._mutate("Configure", call, context)

    async def Drain(self, request: pb.DrainRequest, context: Context) -> pb.TransitionAck:  # noqa: N802
        call = Mutation(Kind.DRAIN, request.machine_id, _token(request), grace_seconds=request.grace_period_seconds)
        return await self._mutate("Drain", call, context)

    async def Delete(self, request: pb.DeleteRequest, context: Context) -> pb.TransitionAck:  # noqa: N802
        return await self._mutate("Delete", Mutation(Kind.DELETE, request.machine_id, _token(request)), context)

    async def Get(self, request: pb.MachineRef, context: Context) -> pb.Machine:  # noqa: N802
        async def answer() -> pb.Machine:
            await require(context, *READERS)
            if not request.id:
                raise InvalidArgument("id is empty")
            return self._inventory.get(request.id).write(pb.Machine(), self._provider_id)

        return await self._answer("Get", context, answer)

    async def List(self, request: pb.ListFilter, context: Context) -> pb.MachineList:  # noqa: N802
        async def answer() -> pb.MachineList:
            await require(context, *READERS)
            owned = self._domains.owned_by(request.shard_id)
            page = self._inventory.page(request.since_revision, _states(request.states), request.max_results, owned)
            listed = pb.MachineList(
                revision=page.revision, removed_ids=page.removed_ids, full=page.restarted, more=page.more
            )
            for index, record in enumerate(page.records, 1):
                record.write(listed.machines.add(), self._provider_id)
                if index % _LIST_SLICE == 0:
                    await asyncio.sleep(0)
            return listed

        return await self._answer("List", context, answer)

    async def _mutate(self, rpc: str, call: Mutation, context: Context) -> pb.TransitionAck:
        async def answer() -> pb.TransitionAck:
            await require(context, "shard", name=call.token.shard_id)
            try:
                operation, machine = self._lifecycle.mutate(call)
            finally:
                await self._store.flushed()  # also after a refusal: the fencing mark may have advanced
            ack = pb.TransitionAck(operation_id=operation)
            machine.write(ack.machine, self._provider_id)
            return ack

        return await self._answer(rpc, context, answer)

    async def _answer(self, rpc: str, context: Context, answer: Callable[[], Awaitable[Answer]]) -> Answer:
        """Answer and count. Our own answers count before they are sent: a caller finds its answer in the metrics."""
        started = time.perf_counter()

        def count(code: str) -> None:
            self._metrics.answered(rpc, code, time.perf_counter() - started)

        try:
            result = await answer()
        except KitError as error:
            count(error.code.name)
            await context.abort(error.code, str(error))
        except grpc.aio.AbortError:
            count(context.code().name)
            raise
        except asyncio.CancelledError:
            count("CANCELLED")
            raise
        except Exception:
            count("UNKNOWN")
            raise
        count("OK")
        return result


def _token(request: pb.CreateRequest | pb.ConfigureRequest | pb.DrainRequest | pb.DeleteRequest) -> FencingToken:
    return FencingToken(request.shard_id, request.shard_epoch, request.sequence_number)


def _states(numbers: Any) -> frozenset[MachineState]:
    try:
        return frozenset(MachineState(number) for number in numbers)
    except ValueError as error:
        raise InvalidArgument(f"states: {error}") from error
