"""Three coordinators: who leads, who takes over, how one that was lost comes back, and what clients see of it."""

import asyncio
import os
import shutil
import signal

import grpc
import msgspec
import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.etcd_client import put
from bigfleet.coordinator.store import LEADER_KEY, LeaderClaim
from bigfleet.rpc.leaderclient import LeaderClient, NoLeader
from tests.integration.players.coordinators import ZONE, Coordinator, Trio, eventually, free_addresses

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


async def exited(coordinator: Coordinator) -> int:
    async with asyncio.timeout(30):
        return await coordinator.running_process.wait()


async def test_one_leads_and_the_others_say_who(trio: Trio) -> None:
    leader = await trio.leader()
    assert await leader.metric("bigfleet_coordinator_is_leader") == 1
    for follower in trio.others(leader):
        assert not await follower.leads()
        assert await follower.metric("bigfleet_coordinator_is_leader") == 0

        async def knows_the_leader(follower: Coordinator = follower) -> bool:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await follower.call("readonly", "ListShards", pb.ListShardsRequest())
            assert (refused.value.code(), refused.value.details()) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "not leader",
            )
            said = refused.value.trailing_metadata()
            return said is not None and said.get("bigfleet-leader") == leader.options.listen

        await eventually(knows_the_leader)
        # One address is enough for a client that follows.
        client = LeaderClient([follower.options.listen], leader.identities / "readonly", follow_strangers=True)
        await client.call("ListShards", pb.ListShardsRequest(), timeout=5)
        assert client.leader == leader.options.listen
        await client.close()


async def test_a_client_that_must_not_follow_strangers_tries_its_own_list(trio: Trio) -> None:
    leader = await trio.leader()
    follower = trio.others(leader)[0]
    (nobody,) = free_addresses(1)
    known = LeaderClient([nobody, follower.options.listen, leader.options.listen], leader.identities / "shard-0")
    report = pb.ShardReport(shard_id="shard-0", shard_address="here:1")
    assert (await known.call("ReportShard", report, timeout=5)).acknowledged
    await known.close()
    alone = LeaderClient([nobody, follower.options.listen], leader.identities / "shard-0")
    with pytest.raises(NoLeader) as nobody_leads:
        await alone.call("ReportShard", report, timeout=5)
    assert nobody_leads.value.tried.keys() == {nobody, follower.options.listen}
    await alone.close()


async def test_what_was_acknowledged_survives_the_leader_and_a_clean_stop_hands_over(trio: Trio) -> None:
    first = await trio.leader()
    term = (await first.report()).coordinator_term
    await first.assign()
    (registered,) = await first.shards()
    await first.kill()
    second = await trio.leader(trio.others(first))
    assert (await second.report()).coordinator_term > term
    assert (await second.shards())[0].registered_at_unix_ns == registered.registered_at_unix_ns
    assert await second.domains() == {ZONE: "shard-0"}
    await first.start()
    await eventually(first.ready)
    await second.stop()
    assert second.running_process.returncode == 0
    third = await trio.leader(trio.others(second))
    assert await third.domains() == {ZONE: "shard-0"}


async def test_a_hung_coordinator_loses_the_lead_and_its_life(trio: Trio) -> None:
    hung = await trio.leader()
    member = hung.member_pid()
    hung.running_process.send_signal(signal.SIGSTOP)
    survivor = await trio.leader(trio.others(hung))
    await survivor.report()
    assert await exited(hung) == -signal.SIGKILL
    assert not _alive(member)
    await hung.start()
    await eventually(hung.ready)


async def test_a_hung_member_ends_its_coordinator(trio: Trio) -> None:
    hung = await trio.leader()
    os.kill(hung.member_pid(), signal.SIGSTOP)
    survivor = await trio.leader(trio.others(hung))
    await survivor.report()
    assert await exited(hung) == 1
    assert "our member has not answered for 10 s" in hung.log.read_text()


async def test_a_dead_coordinator_takes_its_member_along(trio: Trio) -> None:
    first = await trio.leader()
    member = first.member_pid()
    os.kill(first.running_process.pid, signal.SIGKILL)
    await exited(first)
    await eventually(lambda: not _alive(member), seconds=5)
    await (await trio.leader(trio.others(first))).report()


async def test_a_member_that_lost_its_disk_is_removed_and_let_in_again(trio: Trio) -> None:
    lost = await trio.leader()
    await lost.report()
    await lost.assign()
    async with lost.etcd() as client:
        before = {member.name: member.id for member in await client.members()}
    await lost.kill()
    shutil.rmtree(lost.options.data_dir)
    survivor = await trio.leader(trio.others(lost))
    await lost.start()
    await eventually(lost.ready)
    async with survivor.etcd() as client:
        after = {member.name: member.id for member in await client.members()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {lost.options.id}
    # It counts again: with another one gone there is still a quorum.
    (third,) = [one for one in trio.members if one not in (lost, survivor)]
    await third.kill()
    leader = await trio.leader([lost, survivor])
    assert await leader.domains() == {ZONE: "shard-0"}
    await leader.report("shard-1")


async def test_a_leader_that_cannot_record_itself_hands_over(trio: Trio) -> None:
    stuck = await trio.leader()
    async with stuck.etcd() as client:
        recorded = await client.get(LEADER_KEY)
        assert recorded
        claim = msgspec.json.decode(recorded.value, type=LeaderClaim)
        later = msgspec.structs.replace(claim, member=1, term=claim.term + 1)
        await client.txn([], [put(LEADER_KEY, later.record())])
        assert not await stuck.leads()
        successor = await trio.leader(trio.others(stuck))
        await successor.report()
        assert stuck.running_process.returncode is None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
