"""Before the load starts, a certificate must not do for another cluster: the probe tells a refusal from a breach."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2, phonehome_pb2, provider_pb2, shard_pb2, shardread_pb2
from bigfleet.security import Identity, channel, peer_identity
from bigfleet.security.authority import Authority
from bigfleet.security.credentials import listen
from scaletest.cluster.load import identity_probe
from scaletest.cluster.load.identity_probe import IdentityProbe, ProbeTargets
from tests.integration.players.provider_client import CLUSTER, provider_at
from tests.integration.players.shard_client import shard_at

Frames = AsyncIterator[bytes]


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    """Certificates of a shard, a provider, a coordinator and a cluster."""
    authority = Authority.create("test")
    for role, name in (("shard", "shard-0"), ("provider", "fake"), ("coordinator", "coordinator-0")):
        authority.issue(Identity(role, name), dns_names=[f"{role}.bigfleet"]).write(tmp_path / "tls" / role)
    authority.issue(Identity("cluster", CLUSTER)).write(tmp_path / "tls" / "cluster")
    return tmp_path / "tls"


SHARD, NEEDS = ("shard", "greet"), ("shard", "inspect_needs")
PROVIDER, AS_SHARD = ("provider", "phone_home"), ("provider", "ask_as_a_shard")
MOVES = {method: ("provider", method.lower()) for method in ("Create", "Configure", "Drain", "Delete")}


async def probed(targets: ProbeTargets, tls_dir: Path | None) -> dict[tuple[str, str], float]:
    """Target and attempt → refused."""
    registry = CollectorRegistry()
    await IdentityProbe(CLUSTER, targets, tls_dir, registry).run()
    [family] = registry.collect()
    return {(sample.labels["target"], sample.labels["attempt"]): sample.value for sample in family.samples}


async def test_shard_and_provider_refuse_and_nothing_is_left_of_it(tmp_path: Path, tls: Path) -> None:
    async with (
        provider_at(tmp_path, tls_dir=tls / "provider") as provider,
        shard_at(tmp_path, provider, tls_dir=tls / "shard") as shard,
    ):
        loop = asyncio.get_running_loop()
        began = loop.time()
        targets = ProbeTargets(shard.address, f"127.0.0.1:{provider.provider.port}")
        tried = [SHARD, NEEDS, PROVIDER, AS_SHARD, *MOVES.values()]
        assert await probed(targets, tls / "cluster") == dict.fromkeys(tried, 1)
        assert loop.time() - began < 5, "the load waits for it"
        assert await shard.metric("session_identity_rejected_total") == 1
        assert await shard.metric("session_lifecycle_total", event="installed") in (0, None)
        assert await shard.metric("active_sessions") == 0


@asynccontextmanager
async def gullible(tls: Path, role: str, name: str, handler: Any) -> AsyncIterator[str]:
    """A server that believes everybody; its address."""
    server = grpc.aio.server()
    service, _, method = name.rpartition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = listen(server, "127.0.0.1:0", tls / role)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def test_a_shard_that_lets_the_impostor_in_is_a_breach_and_its_session_ends(tls: Path) -> None:
    over = asyncio.Event()
    said: list[str] = []

    async def converse(frames: Frames, context: Any) -> AsyncIterator[shard_pb2.ShardMessage]:
        said.append(shard_pb2.OperatorMessage.FromString(await anext(aiter(frames))).hello.cluster_id)
        yield shard_pb2.ShardMessage(ack=shard_pb2.Acknowledgement(echo="hello"))
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    handler: grpc.RpcMethodHandler[bytes, shard_pb2.ShardMessage] = grpc.stream_stream_rpc_method_handler(
        converse, response_serializer=shard_pb2.ShardMessage.SerializeToString
    )
    async with gullible(tls, "shard", "bigfleet.v1alpha1.Shard/Session", handler) as address:
        assert await probed(ProbeTargets(shard=address), tls / "cluster") == {SHARD: 0}
        async with asyncio.timeout(5):
            await over.wait()
    assert said == [f"impostor-of-{CLUSTER}"]


async def test_a_provider_that_lets_the_impostor_in_is_a_breach(tls: Path) -> None:
    async def report(frames: Frames, context: Any) -> AsyncIterator[phonehome_pb2.MachineWords]:
        yield phonehome_pb2.MachineWords(full=True)
        async for _ in frames:
            pass

    handler: grpc.RpcMethodHandler[bytes, phonehome_pb2.MachineWords] = grpc.stream_stream_rpc_method_handler(
        report, response_serializer=phonehome_pb2.MachineWords.SerializeToString
    )
    async with gullible(tls, "provider", "bigfleet.v1alpha1.PhoneHome/Report", handler) as address:
        assert await probed(ProbeTargets(provider=address), tls / "cluster") == {PROVIDER: 0}


@pytest.mark.parametrize("knows_the_machine", [True, False])
async def test_a_provider_that_answers_a_cluster_about_machines_is_a_breach(tls: Path, knows_the_machine: bool) -> None:
    async def get(request: bytes, context: Any) -> provider_pb2.Machine:
        if not knows_the_machine:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such machine")
        return provider_pb2.Machine()

    handler: grpc.RpcMethodHandler[bytes, provider_pb2.Machine] = grpc.unary_unary_rpc_method_handler(
        get, response_serializer=provider_pb2.Machine.SerializeToString
    )
    async with gullible(tls, "provider", "bigfleet.v1alpha1.CapacityProvider/Get", handler) as address:
        assert await probed(ProbeTargets(provider=address), tls / "cluster") == {AS_SHARD: 0}


@pytest.mark.parametrize("method", MOVES)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(grpc.StatusCode.OK, id="it is done"),
        pytest.param(grpc.StatusCode.NOT_FOUND, id="there is no such machine"),
        pytest.param(grpc.StatusCode.INVALID_ARGUMENT, id="the request lacks something"),
        pytest.param(grpc.StatusCode.FAILED_PRECONDITION, id="the token is too old"),
    ],
)
async def test_a_provider_that_looks_into_what_a_cluster_asks_of_machines_is_a_breach(
    tls: Path, method: str, code: grpc.StatusCode
) -> None:
    async def move(request: bytes, context: Any) -> provider_pb2.TransitionAck:
        asked = provider_pb2.DeleteRequest.FromString(request)
        assert asked.machine_id == f"impostor-of-{CLUSTER}", "no machine that exists"
        if code is not grpc.StatusCode.OK:
            await context.abort(code, "not like this")
        return provider_pb2.TransitionAck()

    handler: grpc.RpcMethodHandler[bytes, provider_pb2.TransitionAck] = grpc.unary_unary_rpc_method_handler(
        move, response_serializer=provider_pb2.TransitionAck.SerializeToString
    )
    async with gullible(tls, "provider", f"bigfleet.v1alpha1.CapacityProvider/{method}", handler) as address:
        assert await probed(ProbeTargets(provider=address), tls / "cluster") == {MOVES[method]: 0}


@pytest.mark.parametrize(
    ("code", "details", "found"),
    [
        pytest.param(grpc.StatusCode.PERMISSION_DENIED, "it takes admin", 1, id="it refuses"),
        pytest.param(grpc.StatusCode.NOT_FOUND, "no such shard", 0, id="it looks for the shard"),
        pytest.param(grpc.StatusCode.FAILED_PRECONDITION, "not leader", None, id="it does not lead"),
    ],
)
async def test_the_coordinator_that_leads_refuses_to_obey_a_cluster(
    tls: Path, monkeypatch: pytest.MonkeyPatch, code: grpc.StatusCode, details: str, found: float | None
) -> None:
    monkeypatch.setattr(identity_probe, "_PAUSE_SECONDS", 0.01)

    async def remove(request: bytes, context: Any) -> bytes:
        assert coordinator_pb2.RemoveShardRequest.FromString(request).shard_id == f"impostor-of-{CLUSTER}"
        await context.abort(code, details)
        return b""

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        remove, response_serializer=lambda answer: answer
    )
    async with gullible(tls, "coordinator", "bigfleet.v1alpha1.Coordinator/RemoveShard", handler) as address:
        # What this server does not know at all says nothing.
        expected = {} if found is None else {("coordinator", "removeshard"): found}
        assert await probed(ProbeTargets(coordinators=address), tls / "cluster") == expected


async def test_a_provider_that_compares_names_and_not_roles_is_a_breach(
    tmp_path: Path, tls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def require_name(context: Any, *kinds: str, name: str | None = None) -> None:
        identity = peer_identity(context)
        if name is not None and identity is not None and identity.name != name:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "that is not your name")

    monkeypatch.setattr("bigfleet.provider.kit.service.require", require_name)
    async with provider_at(tmp_path, tls_dir=tls / "provider") as provider:
        found = await probed(ProbeTargets(provider=f"127.0.0.1:{provider.provider.port}"), tls / "cluster")
    assert found == {PROVIDER: 1, AS_SHARD: 0, **dict.fromkeys(MOVES.values(), 0)}


async def test_a_shard_that_shows_a_cluster_what_others_lack_is_a_breach(tls: Path) -> None:
    async def inspect(request: bytes, context: Any) -> AsyncIterator[shardread_pb2.InspectNeedsResponse]:
        yield shardread_pb2.InspectNeedsResponse(header=shardread_pb2.InspectNeedsHeader(cycle=1))

    handler: grpc.RpcMethodHandler[bytes, shardread_pb2.InspectNeedsResponse] = grpc.unary_stream_rpc_method_handler(
        inspect, response_serializer=shardread_pb2.InspectNeedsResponse.SerializeToString
    )
    async with gullible(tls, "shard", "bigfleet.v1alpha1.ShardRead/InspectNeeds", handler) as address:
        assert await probed(ProbeTargets(shard=address), tls / "cluster") == {NEEDS: 0}


def _bidirectional(answer: Callable[[Frames, Any], Any]) -> Any:
    return grpc.stream_stream_rpc_method_handler(answer, response_serializer=lambda frame: frame)


async def test_a_phone_that_answers_is_understood_too(tls: Path) -> None:
    """PhoneHome may answer with frames of its own, and may have none for a cluster that it does not know."""

    async def refuse(frames: Frames, context: Any) -> AsyncIterator[bytes]:
        await anext(aiter(frames))
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")
        yield b""

    async def say_something(frames: Frames, context: Any) -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async def say_nothing(frames: Frames, context: Any) -> AsyncIterator[bytes]:
        async for _ in frames:
            pass
        return
        yield b""

    name = "bigfleet.v1alpha1.PhoneHome/Report"
    for answer, code in (
        (refuse, grpc.StatusCode.PERMISSION_DENIED),
        (say_something, grpc.StatusCode.OK),
        (say_nothing, grpc.StatusCode.OK),
    ):
        async with gullible(tls, "provider", name, _bidirectional(answer)) as address:
            connection = channel(address, tls / "cluster", "provider")
            async with connection, asyncio.timeout(5):
                method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = connection.stream_stream(f"/{name}")
                assert await identity_probe._verdict(method(wait_for_ready=True), b"frame") is code


async def test_what_could_not_be_tried_has_no_figure(tls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_probe, "_TRY_SECONDS", 0.2)
    monkeypatch.setattr(identity_probe, "_PAUSE_SECONDS", 0.01)
    nothing: dict[tuple[str, str], float] = {}
    assert await probed(ProbeTargets("127.0.0.1:1", "127.0.0.1:1"), tls / "cluster") == nothing, "nobody is there"
    assert await probed(ProbeTargets("127.0.0.1:1", "127.0.0.1:1"), None) == nothing, "plaintext knows no identities"
    assert await probed(ProbeTargets("127.0.0.1:1", "127.0.0.1:1"), tls / "nowhere") == nothing
