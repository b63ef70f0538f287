"""The six RPCs as checks call them: never an exception for an answer, one for none, and a record of what was said."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.api.v1alpha1 import provider_pb2_grpc
from bigfleet.provider.conformance.verdicts import Broken, Silent
from bigfleet.rpc.fencing import FencingToken
from bigfleet.rpc.reach import trouble_with, words_of

_REMEMBERED = 6
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Answer:
    """What came back for a call."""

    call: str
    code: grpc.StatusCode
    details: str
    # Messages are Any: each RPC has its own, and the stubs' enums are not numbers.
    message: Any = None

    @property
    def ok(self) -> bool:
        return self.code is grpc.StatusCode.OK

    @property
    def unimplemented(self) -> bool:
        return self.code is grpc.StatusCode.UNIMPLEMENTED

    def accepted(self) -> Any:
        """The message of an answer that must be OK."""
        if not self.ok:
            raise Broken(f"{self.call} must be accepted, the answer was {self.words}")
        return self.message

    def operation(self) -> str:
        """The operation id of an ack; it must be there."""
        operation: str = self.accepted().operation_id
        if not operation:
            raise Broken(f"{self.call} was acknowledged without an operation_id")
        return operation

    def refused_with(self, *codes: grpc.StatusCode) -> None:
        if self.code not in codes:
            wanted = " or ".join(code.name for code in codes)
            raise Broken(f"{self.call} must be answered {wanted}, the answer was {self.words}")

    def fenced(self) -> None:
        self.refused_with(grpc.StatusCode.FAILED_PRECONDITION)

    def refused_but_not_fenced(self) -> None:
        """A refusal with any code but the one that is reserved for fencing."""
        if self.ok:
            raise Broken(f"{self.call} must be refused, it was accepted")
        if self.code is grpc.StatusCode.FAILED_PRECONDITION:
            raise Broken(f"{self.call} was refused with FAILED_PRECONDITION, which means fencing and nothing else")

    @property
    def words(self) -> str:
        return f"{self.code.name} ({self.details})" if self.details else self.code.name


class Client:
    """One provider. `token` is what calls carry that are given none."""

    def __init__(self, channel: grpc.aio.Channel, call_seconds: float) -> None:
        self._channel = channel
        self._stub = provider_pb2_grpc.CapacityProviderStub(channel)
        self._call_seconds = call_seconds
        # What was said, and how often in a row.
        self._said: deque[tuple[str, int]] = deque(maxlen=_REMEMBERED)

    def recall(self) -> list[str]:
        """The last calls and answers; forgets them."""
        said = [f"{line} ({times} times)" if times > 1 else line for line, times in self._said]
        self._said.clear()
        return said

    async def create(self, machine_id: str, token: FencingToken) -> Answer:
        return await self._call("Create", pb.CreateRequest(machine_id=machine_id, **_stamp(token)))

    async def configure(
        self,
        machine_id: str,
        token: FencingToken,
        cluster: str,
        metadata: Mapping[str, str] | None = None,
        blob: bytes = b"",
    ) -> Answer:
        request = pb.ConfigureRequest(
            machine_id=machine_id,
            cluster_id=cluster,
            bootstrap_blob=blob,
            shard_metadata=metadata or {},
            **_stamp(token),
        )
        return await self._call("Configure", request)

    async def drain(self, machine_id: str, token: FencingToken, grace_seconds: int = 0) -> Answer:
        request = pb.DrainRequest(machine_id=machine_id, grace_period_seconds=grace_seconds, **_stamp(token))
        return await self._call("Drain", request)

    async def delete(self, machine_id: str, token: FencingToken) -> Answer:
        return await self._call("Delete", pb.DeleteRequest(machine_id=machine_id, **_stamp(token)))

    async def get(self, machine_id: str) -> Answer:
        return await self._call("Get", pb.MachineRef(id=machine_id))

    async def list(self, **fields: Any) -> Answer:
        return await self._call("List", pb.ListFilter(**fields))

    async def _call(self, rpc: str, request: Message) -> Answer:
        call = f"{rpc}({_shown(request)})"
        try:
            message = await getattr(self._stub, rpc)(request, timeout=self._call_seconds)
        except grpc.aio.AioRpcError as error:
            if lost := await self._lost(error):
                raise Silent(f"the provider went away during {call}: {lost}") from error
            answer = Answer(call, error.code(), (error.details() or "")[:300])
        else:
            answer = Answer(call, grpc.StatusCode.OK, "", message)
        line, times = f"{call} → {_content(answer)}", 1
        if self._said and self._said[-1][0] == line:
            times += self._said.pop()[1]
        self._said.append((line, times))
        return answer

    async def _lost(self, error: grpc.aio.AioRpcError) -> str:
        """Why this is no answer of the provider's; nothing if it is one, however late."""
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return ""
        if self._channel.get_state() is not grpc.ChannelConnectivity.READY:
            return words_of(error)
        # Connected, and too late or UNAVAILABLE in the provider's own words: unless nothing at all is answered.
        return await trouble_with(self._channel, self._call_seconds)


def _stamp(token: FencingToken) -> dict[str, Any]:
    return {"shard_id": token.shard_id, "shard_epoch": token.epoch, "sequence_number": token.sequence}


def _shown(request: Message) -> str:
    """The fields of a request that are set, shortened."""
    parts = []
    for field, value in request.ListFields():
        text = f"{len(value)} entries" if field.name == "shard_metadata" else str(value)
        text = f"{len(value)} bytes" if field.name == "bootstrap_blob" else text
        parts.append(f"{field.name}={text[:_LONGEST_VALUE]}")
    return ", ".join(parts)


def _content(answer: Answer) -> str:
    message = answer.message
    if isinstance(message, pb.TransitionAck):
        state = f" {_state(message.machine)}" if message.HasField("machine") else ""
        return f"OK {message.operation_id!r}{state}"
    if isinstance(message, pb.Machine):
        return f"OK {_state(message)}"
    if isinstance(message, pb.MachineList):
        return f"OK {len(message.machines)} machines, revision {message.revision!r}"
    return answer.words


def _state(machine: pb.Machine) -> str:
    name = pb.MachineState.Name(machine.state) if machine.state in pb.MachineState.values() else str(machine.state)
    return f"{name} {machine.last_error!r}" if machine.last_error else name
