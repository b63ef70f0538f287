"""The provider's six RPCs as the shard calls them: stamped, with deadlines, with errors that say what to do next."""

from pathlib import Path
from typing import Any, Protocol

import grpc
import structlog
from google.protobuf.message import Message

from bigfleet.api.v1alpha1 import provider_pb2, provider_pb2_grpc
from bigfleet.errors import BigFleetError
from bigfleet.security.credentials import Redialled
from bigfleet.shard.provider.epoch import Fence

log = structlog.get_logger()

_CALL_TIMEOUT_SECONDS = 30.0
_LIST_TIMEOUT_SECONDS = 120.0

# The same call would get the same answer again.
_TERMINAL = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


class ProviderError(BigFleetError):
    """A call that the provider did not accept. Unless it says otherwise, the next try may succeed."""

    def __init__(self, call: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{call}: {code.name}: {details}")
        self.code = code

    @property
    def fenced(self) -> bool:
        """A newer instance of this shard has acted on the machine (docs/reference/wire.md#fencing)."""
        return self.code is grpc.StatusCode.FAILED_PRECONDITION

    @property
    def terminal(self) -> bool:
        return self.code in _TERMINAL

    @property
    def not_found(self) -> bool:
        return self.code is grpc.StatusCode.NOT_FOUND


class MachineCalls(Protocol):
    """What changes a machine. Every call may raise ProviderError."""

    async def create(self, machine_id: str) -> provider_pb2.Machine | None: ...
    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: dict[str, str]
    ) -> provider_pb2.Machine | None: ...
    async def drain(self, machine_id: str, grace_seconds: int) -> provider_pb2.Machine | None: ...
    async def delete(self, machine_id: str) -> provider_pb2.Machine | None: ...


class Provider(MachineCalls, Protocol):
    """What the shard needs of a provider. Every call may raise ProviderError."""

    async def get(self, machine_id: str) -> provider_pb2.Machine: ...
    async def list(self, since_revision: bytes) -> provider_pb2.MachineList:
        """A page of everything when `since_revision` is empty, else of what changed after it.

        Another page follows its revision when it says `more`.
        """


class ProviderClient:
    """The provider at an address."""

    def __init__(self, address: str, tls_dir: Path | None, fence: Fence, page_size: int) -> None:
        self._redialled = Redialled(address, tls_dir, "provider")
        self._channel = self._redialled.channel()
        self._stub = provider_pb2_grpc.CapacityProviderStub(self._channel)
        self._fence = fence
        self._page_size = page_size

    async def create(self, machine_id: str) -> provider_pb2.Machine | None:
        token = self._fence.next()
        request = provider_pb2.CreateRequest(
            machine_id=machine_id, shard_id=token.shard_id, shard_epoch=token.epoch, sequence_number=token.sequence
        )
        return await self._mutate("Create", request)

    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: dict[str, str]
    ) -> provider_pb2.Machine | None:
        token = self._fence.next()
        request = provider_pb2.ConfigureRequest(
            machine_id=machine_id,
            cluster_id=cluster,
            bootstrap_blob=blob,
            shard_metadata=metadata,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return await self._mutate("Configure", request)

    async def drain(self, machine_id: str, grace_seconds: int) -> provider_pb2.Machine | None:
        token = self._fence.next()
        request = provider_pb2.DrainRequest(
            machine_id=machine_id,
            grace_period_seconds=grace_seconds,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return await self._mutate("Drain", request)

    async def delete(self, machine_id: str) -> provider_pb2.Machine | None:
        token = self._fence.next()
        request = provider_pb2.DeleteRequest(
            machine_id=machine_id, shard_id=token.shard_id, shard_epoch=token.epoch, sequence_number=token.sequence
        )
        return await self._mutate("Delete", request)

    async def get(self, machine_id: str) -> provider_pb2.Machine:
        machine: provider_pb2.Machine = await self._call(
            "Get", provider_pb2.MachineRef(id=machine_id), _CALL_TIMEOUT_SECONDS
        )
        return machine

    async def list(self, since_revision: bytes) -> provider_pb2.MachineList:
        request = provider_pb2.ListFilter(
            since_revision=since_revision, shard_id=self._fence.shard_id, max_results=self._page_size
        )
        answer: provider_pb2.MachineList = await self._call("List", request, _LIST_TIMEOUT_SECONDS)
        # A provider that does not know `more` tells by a page that is just as long as it may be.
        answer.more = answer.more or len(answer.machines) == self._page_size > 0
        if answer.more and answer.revision in (b"", since_revision):
            # It cuts, but has no revisions to go on from.
            request.max_results = 0
            answer = await self._call("List", request, _LIST_TIMEOUT_SECONDS)
            answer.more = False
        return answer

    async def close(self) -> None:
        await self._redialled.close()

    def _dialled(self) -> provider_pb2_grpc.CapacityProviderStub:
        """The provider on a connection that our certificate of now has opened."""
        dialled = self._redialled.channel()
        if dialled is not self._channel:
            log.info("dialled the provider with our renewed certificate")
            self._channel, self._stub = dialled, provider_pb2_grpc.CapacityProviderStub(dialled)
        return self._stub

    async def _mutate(self, call: str, request: Message) -> provider_pb2.Machine | None:
        """The machine of the acknowledgement, if it carries one."""
        ack: provider_pb2.TransitionAck = await self._call(call, request, _CALL_TIMEOUT_SECONDS)
        return ack.machine if ack.HasField("machine") else None

    async def _call(self, call: str, request: Message, timeout: float) -> Any:
        try:
            return await getattr(self._dialled(), call)(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise ProviderError(call, error.code(), error.details() or "") from error
