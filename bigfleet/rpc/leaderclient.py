"""Calls the coordinator that leads: tries each, follows their word on which leads, re-dials for a new certificate.

CoordinatorError
├── NoLeader    no coordinator that answered leads, or none answered: nothing was done
└── Unclear     the leader went away in mid-call: the change may have been made or not
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import coordinator_pb2, coordinator_pb2_grpc
from bigfleet.errors import BigFleetError
from bigfleet.rpc.reach import is_a_stranger, trouble_with
from bigfleet.security.credentials import Redialled
from bigfleet.security.files import IdentityPaths

NOT_LEADER = "not leader"
LEADER_HEADER = "bigfleet-leader"

_DOES_NOT_LEAD = "does not lead"
_STRANGER = "does not answer as a coordinator"
_CONNECT_SECONDS = 2.0
_WHY_SECONDS = 0.2
_TRANSIENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class CoordinatorError(BigFleetError):
    """No answer of a leader; `tried` says what each address did instead."""

    def __init__(self, message: str, tried: dict[str, str]) -> None:
        super().__init__(message)
        self.tried = tried


class NoLeader(CoordinatorError):
    @property
    def may_pass(self) -> bool:
        """A coordinator answered that it does not lead: an election ends, so asking again soon is worth it."""
        return any(what.startswith(_DOES_NOT_LEAD) for what in self.tried.values())

    @property
    def only_strangers(self) -> bool:
        """At every address, the server that answers is no coordinator."""
        return all(what.startswith(_STRANGER) for what in self.tried.values())


class Unclear(CoordinatorError):
    pass


class LeaderClient:
    """One call at a time. Answers of the leader, errors included, reach the caller as they are."""

    def __init__(
        self, addresses: Sequence[str], tls: Path | IdentityPaths | None, *, follow_strangers: bool = False
    ) -> None:
        """`follow_strangers`: also dial a leader that is not among `addresses`; a shard must not, it has its peers from
        its pod's spec alone."""
        self._addresses = list(addresses)
        self._tls = tls
        self._follow_strangers = follow_strangers
        self._channels: dict[str, Redialled] = {}
        self.leader = self._addresses[0]

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._channels.values()))

    async def find(self, timeout: float) -> grpc.aio.Channel:
        """A channel to the leader, for a call of your own."""
        await self.call("ListQuotas", coordinator_pb2.ListQuotasRequest(), timeout)
        return self._dialled(self.leader)

    async def call(self, method: str, request: Any, timeout: float, *, again: bool = True) -> Any:
        """The leader's answer. `again`: asking twice does no harm, so an unclear end is no reason to stop."""
        waiting = [self.leader, *(address for address in self._addresses if address != self.leader)]
        tried: dict[str, str] = {}
        while waiting:
            address = waiting.pop(0)
            if address in tried:
                continue
            dialled = self._dialled(address)
            if not await _connected(dialled, min(timeout, _CONNECT_SECONDS)):
                trouble = await trouble_with(dialled, _WHY_SECONDS)
                how = _STRANGER if is_a_stranger(trouble) else "does not answer"
                tried[address] = f"{how}: {trouble}" if trouble else "answers too late"
                continue
            try:
                answer = await getattr(coordinator_pb2_grpc.CoordinatorStub(dialled), method)(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                details = error.details() or ""
                if error.code() == grpc.StatusCode.FAILED_PRECONDITION and details == NOT_LEADER:
                    hint = _hint(error)
                    tried[address] = f"{_DOES_NOT_LEAD}; {hint or 'none of them'} does"
                    if hint and (self._follow_strangers or hint in self._addresses):
                        waiting.insert(0, hint)
                elif error.code() == grpc.StatusCode.UNIMPLEMENTED:
                    tried[address] = f"{_STRANGER}: {details}"
                elif error.code() in _TRANSIENT:
                    tried[address] = f"{error.code().name}: {details}"
                    if not again:
                        raise Unclear(f"{address} went away in mid-call", tried) from error
                else:
                    self.leader = address
                    raise
            else:
                self.leader = address
                return answer
        raise NoLeader("no coordinator leads", tried)

    def _dialled(self, address: str) -> grpc.aio.Channel:
        if address not in self._channels:
            self._channels[address] = Redialled(address, self._tls, "coordinator")
        return self._channels[address].channel()


async def _connected(dialled: grpc.aio.Channel, seconds: float) -> bool:
    """Whether there is a connection to send on. A call is only unclear once it could be sent."""
    try:
        async with asyncio.timeout(seconds):
            state = dialled.get_state(try_to_connect=True)
            while state != grpc.ChannelConnectivity.READY:
                if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
                    return False
                await dialled.wait_for_state_change(state)
                state = dialled.get_state(try_to_connect=True)
    except TimeoutError:
        return False
    return True


def _hint(error: grpc.aio.AioRpcError) -> str:
    said = error.trailing_metadata()
    return str(said.get(LEADER_HEADER) or "") if said else ""
