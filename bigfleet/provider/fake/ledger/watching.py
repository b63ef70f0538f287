"""Sees every call of CapacityProvider from outside: what was asked, what was answered, and what a shard was told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import grpc
import structlog

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.provider.fake.ledger.calls import MUTATING, Call
from bigfleet.security import peer_identity

_SERVICE = "/bigfleet.v1alpha1.CapacityProvider/"
# The id and state of every machine of an answer are looked at: a shard may be told of any machine in any List. That is
# half a microsecond each; so many of them at a time leave the loop free, as in the kit's own List.
_SLICE = 2000
# Comparing a machine with its shape costs ten times as much: of larger answers only so many, others each time.
_SHAPES_PER_ANSWER = 200

log = structlog.get_logger(__name__)

Handler = Callable[[Any, Any], Awaitable[Any]]


class Watcher(Protocol):
    """Receives what `WatchCalls` sees of the calls."""

    def asked(self, kind: str, request: Any) -> Call: ...
    def refused(self, call: Call, code: str) -> None: ...
    def accepted(self, call: Call, request: Any, answer: pb.TransitionAck) -> None: ...
    def now(self) -> float: ...
    def answered_list(self, seconds: float) -> None: ...
    def told(self, machine: pb.Machine, asked_at: float) -> None: ...
    def told_removed(self, machine_id: str) -> None: ...
    def listed(self, request: pb.ListFilter, answer: pb.MachineList, asked_at: float) -> None: ...
    def described(self, machine: pb.Machine, asked_at: float) -> None: ...


class WatchCalls(grpc.aio.ServerInterceptor):
    """Wraps the six handlers; what they answer is not changed."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._turn = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        service, _, method = str(handler_call_details.method).rpartition("/")
        if handler is None or f"{service}/" != _SERVICE:
            return handler
        watch = self._mutating if method in MUTATING else self._read
        return grpc.unary_unary_rpc_method_handler(
            watch(method, handler.unary_unary),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _mutating(self, kind: str, handle: Handler) -> Handler:
        async def watched(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            call = self._watcher.asked(kind, request)
            try:
                answer = await handle(request, context)
            except grpc.aio.AbortError:
                self._watcher.refused(call, _name(context.code()))
                raise
            except asyncio.CancelledError:
                self._watcher.refused(call, "CANCELLED")
                raise
            except Exception:
                self._watcher.refused(call, "UNKNOWN")
                raise
            with _unharmed():
                self._watcher.accepted(call, request, answer)
                self._watcher.told(answer.machine, call.arrived)
                self._watcher.described(answer.machine, call.arrived)
            return answer

        return watched

    def _read(self, method: str, handle: Handler) -> Handler:
        async def watched(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            asked_at = self._watcher.now()
            try:
                answer = await handle(request, context)
            finally:
                # Also if the caller has given up: it waited for so long.
                if method == "List":
                    self._watcher.answered_list(self._watcher.now() - asked_at)
            with _unharmed():
                listed = isinstance(answer, pb.MachineList)
                machines: Sequence[pb.Machine] = answer.machines if listed else (answer,)
                if _is_shard(context):
                    await self._look(machines, asked_at)
                    for machine_id in answer.removed_ids if listed else ():
                        self._watcher.told_removed(machine_id)
                    if listed:
                        self._watcher.listed(request, answer, asked_at)
                for machine in self._sample(machines):
                    self._watcher.described(machine, asked_at)
            return answer

        return watched

    async def _look(self, machines: Sequence[pb.Machine], asked_at: float) -> None:
        for index, machine in enumerate(machines, 1):
            self._watcher.told(machine, asked_at)
            if index % _SLICE == 0:
                await asyncio.sleep(0)

    def _sample(self, machines: Sequence[pb.Machine]) -> Sequence[pb.Machine]:
        """Evenly spread, beginning elsewhere each time: the same List repeated shows all of its machines in the end."""
        stride = -(-len(machines) // _SHAPES_PER_ANSWER)
        if stride <= 1:
            return machines
        self._turn += 1
        return [machines[index] for index in range(self._turn % stride, len(machines), stride)]


@contextmanager
def _unharmed() -> Iterator[None]:
    """A mistake of the ledger's must not become the answer of the provider that it watches."""
    try:
        yield
    except Exception:
        log.exception("the ledger missed a call")


def _is_shard(context: grpc.aio.ServicerContext[Any, Any]) -> bool:
    """Whether the caller is a shard, not a tool that only reads. Without TLS all count as shards."""
    identity = peer_identity(context)
    return identity is None or identity.kind == "shard"


def _name(code: Any) -> str:
    return str(getattr(code, "name", code))
