"""With TLS, a shard moves machines in its own name only, and a cluster speaks for itself only."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from bigfleet.core.machines import MachineState
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from tests.integration.players.provider_client import (
    CLUSTER,
    FLEET,
    IDLE,
    SPECULATIVE,
    ProviderClient,
    provider_at,
    refusal,
)

Connect = Callable[[str], ProviderClient]


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """A TLS provider; call the result with an identity to get a client of it."""
    authority = Authority.create("test")
    authority.issue(Identity("provider", "fake"), dns_names=["provider.bigfleet"]).write(tmp_path / "server")
    channels: list[grpc.aio.Channel] = []
    async with provider_at(tmp_path, FLEET, tls_dir=tmp_path / "server") as plaintext:

        def connect(uri: str) -> ProviderClient:
            directory = tmp_path / uri.replace("/", "_")
            authority.issue(Identity.parse(uri)).write(directory)
            channels.append(channel(f"127.0.0.1:{plaintext.provider.port}", directory, "provider"))
            return ProviderClient(plaintext.provider, channels[-1], shard_id="shard-0")

        yield connect
        for opened in channels:
            await opened.close()


async def test_a_shard_moves_machines_in_its_own_name_only(connect: Connect) -> None:
    own = connect("bigfleet://shard/shard-0")
    assert (await own.create(SPECULATIVE)).operation_id
    for request in ({"shard_id": "shard-1"}, {"shard_id": "", "shard_epoch": 0, "sequence_number": 0}):
        assert (await refusal(own.create(SPECULATIVE, **request)))[0] is grpc.StatusCode.PERMISSION_DENIED
    await own.until_metric(2, "bigfleet_provider_rpcs_total", rpc="Create", code="PERMISSION_DENIED")


@pytest.mark.parametrize("uri", ["bigfleet://admin", "bigfleet://readonly"])
async def test_people_may_look_but_not_touch(connect: Connect, uri: str) -> None:
    person = connect(uri)
    assert len((await person.list()).machines) == 5
    assert (await person.get(IDLE)).state == MachineState.IDLE
    for call in (person.create(SPECULATIVE), person.configure(IDLE), person.drain(IDLE), person.delete(IDLE)):
        assert (await refusal(call))[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_a_cluster_speaks_for_itself_only_and_sees_nothing(connect: Connect) -> None:
    cluster = connect(f"bigfleet://cluster/{CLUSTER}")
    assert (await refusal(cluster.list()))[0] is grpc.StatusCode.PERMISSION_DENIED
    async with cluster.phone_home("kwok-cluster-1") as report:
        assert (await refusal(report.call))[0] is grpc.StatusCode.PERMISSION_DENIED

    shard = connect("bigfleet://shard/shard-0")
    async with shard.phone_home(CLUSTER) as report:
        assert (await refusal(report.call))[0] is grpc.StatusCode.PERMISSION_DENIED
    await shard.configure(IDLE)
    async with cluster.phone_home(CLUSTER, ready=[IDLE]):
        await shard.until(IDLE, MachineState.CONFIGURED)
