"""Before the load starts: this cluster's certificate must do for nothing but what is the cluster's own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog
from prometheus_client import CollectorRegistry, Gauge

from bigfleet.api.v1alpha1.coordinator_pb2 import (
    AssignDomainRequest,
    ListShardsRequest,
    RemoveProviderRequest,
    RemoveShardRequest,
    SetQuotaRequest,
    ShardReport,
    UnassignDomainRequest,
)
from bigfleet.api.v1alpha1.coordinator_pb2_grpc import CoordinatorStub
from bigfleet.api.v1alpha1.phonehome_pb2 import ReadyReport
from bigfleet.api.v1alpha1.phonehome_pb2_grpc import PhoneHomeStub
from bigfleet.api.v1alpha1.provider_pb2 import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    MachineRef,
)
from bigfleet.api.v1alpha1.provider_pb2_grpc import CapacityProviderStub
from bigfleet.api.v1alpha1.shard_pb2 import Hello, OperatorMessage
from bigfleet.api.v1alpha1.shard_pb2_grpc import ShardStub
from bigfleet.api.v1alpha1.shardread_pb2 import InspectNeedsRequest
from bigfleet.api.v1alpha1.shardread_pb2_grpc import ShardReadStub
from bigfleet.security import channel
from bigfleet.security.credentials import Role
from bigfleet.security.identity import InvalidIdentity

_TRIES = 3
_TRY_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_WORTH_ANOTHER_TRY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_REFUSED = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
# Answers of a server that has looked into the request: it has let its caller through.
_LET_THROUGH = (
    grpc.StatusCode.OK,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
)
_PROTOCOL_VERSION = "v1alpha1"
# What a coordinator says that does not lead, as the wire has it: it may not have looked at who asks.
_NOT_LEADER = "not leader"

log = structlog.get_logger(__name__)

# Makes a call that is not this cluster's to make on its channel; the code that the server ends it with, or OK if it
# accepts it. An accepted call does no harm: it is about a cluster or a machine that does not exist.
Attempt = Callable[[grpc.aio.Channel, str], Awaitable[grpc.StatusCode]]


@dataclass(frozen=True)
class ProbeTargets:
    """Addresses of the servers that must refuse a wrong identity; empty: that server is not probed."""

    shard: str = ""
    provider: str = ""
    # All of them, as `host:port,host:port,…`: only the one that leads can tell. Where a network policy keeps clusters
    # from them, there is no figure.
    coordinators: str = ""


class IdentityProbe:
    """Probes all servers at the same time. A probe that could not be made has no figure."""

    def __init__(
        self, cluster_id: str, targets: ProbeTargets, tls_dir: Path | None, registry: CollectorRegistry
    ) -> None:
        self._cluster_id = cluster_id
        self._targets = targets
        self._tls_dir = tls_dir
        self._refused = Gauge(
            "scaletest_witness_identity_refused",
            "1: a certificate of this cluster was refused for what is not its own; 0: it was accepted, a breach.",
            ["target", "attempt"],
            registry=registry,
        )

    async def run(self) -> None:
        if self._tls_dir is None:
            log.info("identities are not probed: there is no certificate")
            return
        attempts: list[tuple[Role, str, Attempt]] = [
            ("shard", self._targets.shard, _greet),
            ("shard", self._targets.shard, _inspect_needs),
            ("provider", self._targets.provider, _phone_home),
            ("provider", self._targets.provider, _ask_as_a_shard),
            ("provider", self._targets.provider, _move("Create", CreateRequest)),
            ("provider", self._targets.provider, _move("Configure", ConfigureRequest)),
            ("provider", self._targets.provider, _move("Drain", DrainRequest)),
            ("provider", self._targets.provider, _move("Delete", DeleteRequest)),
        ]
        for address in self._targets.coordinators.split(","):
            attempts += [("coordinator", address, attempt) for attempt in _commands(self._cluster_id)]
        await asyncio.gather(*(self._probe(*one, self._tls_dir) for one in attempts if one[1]))

    async def _probe(self, role: Role, address: str, attempt: Attempt, tls_dir: Path) -> None:
        name = attempt.__name__.strip("_")
        try:
            code = await self._insist(role, address, attempt, tls_dir)
        except (OSError, InvalidIdentity) as error:
            log.warning("identity could not be probed", target=role, attempt=name, reason=str(error))
            return
        if code in _REFUSED:
            self._refused.labels(role, name).set(1)
            log.info("a wrong identity was refused", target=role, attempt=name)
        elif code in _LET_THROUGH:
            self._refused.labels(role, name).set(0)
            log.error("a wrong identity was accepted", target=role, attempt=name, answer=code.name)
        else:
            log.warning("identity could not be probed", target=role, attempt=name, address=address, reason=code.name)

    async def _insist(self, role: Role, address: str, attempt: Attempt, tls_dir: Path) -> grpc.StatusCode:
        code = grpc.StatusCode.UNAVAILABLE
        for number in range(_TRIES):
            if number:
                await asyncio.sleep(_PAUSE_SECONDS)
            try:
                # Closing the channel ends a session that should never have been.
                async with asyncio.timeout(_TRY_SECONDS), channel(address, tls_dir, role) as connection:
                    code = await attempt(connection, self._cluster_id)
            except TimeoutError:
                code = grpc.StatusCode.DEADLINE_EXCEEDED
            if code not in _WORTH_ANOTHER_TRY:
                break
        return code


def impostor_of(cluster: str) -> str:
    """A name that no cluster and no machine has."""
    return f"impostor-of-{cluster}"


async def _greet(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:
    hello = OperatorMessage(hello=Hello(cluster_id=impostor_of(cluster), protocol_version=_PROTOCOL_VERSION))
    return await _verdict(ShardStub(connection).Session(wait_for_ready=True), hello)


async def _inspect_needs(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:
    """What other clusters lack is for administrators."""
    request = InspectNeedsRequest(cluster_id=impostor_of(cluster), limit=1)
    return await _first_word(ShardReadStub(connection).InspectNeeds(request, wait_for_ready=True))


async def _phone_home(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:
    report = ReadyReport(cluster_id=impostor_of(cluster), full=True)
    return await _verdict(PhoneHomeStub(connection).Report(wait_for_ready=True), report)


async def _ask_as_a_shard(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:
    """Only shards may ask for machines."""
    return await _code(CapacityProviderStub(connection).Get(MachineRef(id=impostor_of(cluster)), wait_for_ready=True))


def _move(method: str, request: Callable[..., Any]) -> Attempt:
    """Only shards may move machines.

    The token carries the certificate's own name: a provider that compares names and not roles is noticed too.
    """

    async def attempt(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:
        asked = request(machine_id=impostor_of(cluster), shard_id=cluster, shard_epoch=1, sequence_number=1)
        return await _code(getattr(CapacityProviderStub(connection), method)(asked, wait_for_ready=True))

    attempt.__name__ = method.lower()
    return attempt


def _commands(cluster: str) -> list[Attempt]:
    """Only shards may report to a coordinator, and only people may change or read what it keeps."""
    nobody, nowhere = impostor_of(cluster), {"topology_key": "impostor", "topology_value": impostor_of(cluster)}
    return [
        # Under the certificate's own name: a coordinator that compares names and not roles is noticed too.
        _command("ReportShard", ShardReport(shard_id=cluster)),
        _command("AssignDomain", AssignDomainRequest(shard_id=nobody, **nowhere)),
        _command("UnassignDomain", UnassignDomainRequest(**nowhere)),
        _command("RemoveShard", RemoveShardRequest(shard_id=nobody)),
        _command("SetQuota", SetQuotaRequest(provider=nobody, region=nobody, shard_id=nobody)),
        _command("RemoveProvider", RemoveProviderRequest(name=nobody)),
        _command("ListShards", ListShardsRequest()),
    ]


def _command(method: str, request: Any) -> Attempt:
    async def attempt(connection: grpc.aio.Channel, cluster: str) -> grpc.StatusCode:  # noqa: ARG001
        call = getattr(CoordinatorStub(connection), method)(request, wait_for_ready=True)
        code = await _code(call)
        does_not_lead = code is grpc.StatusCode.FAILED_PRECONDITION and await call.details() == _NOT_LEADER
        return grpc.StatusCode.UNAVAILABLE if does_not_lead else code

    attempt.__name__ = method.lower()
    return attempt


async def _code(call: Any) -> grpc.StatusCode:
    code: grpc.StatusCode = await call.code()
    return code


async def _verdict(call: Any, frame: Any) -> grpc.StatusCode:
    """Say something and wait for the server's first word."""
    try:
        await call.write(frame)
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return await _code(call)  # the call is over; its code says how
    return await _first_word(call)


async def _first_word(call: Any) -> grpc.StatusCode:
    """OK as soon as the server says anything but no. A call that only writes is answered when it has ended."""
    try:
        if hasattr(call, "read") and await call.read() is not grpc.aio.EOF:
            return grpc.StatusCode.OK
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass  # the call is over; its code says how
    return await _code(call)
