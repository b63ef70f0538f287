"""One coordinator from start to end: terms, a leadership it cannot have, and the fate it shares with its member."""

import asyncio
import dataclasses
import os
import signal
from pathlib import Path

import grpc
import msgspec
import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.etcd_client import EtcdClient, put
from bigfleet.coordinator.leadership import claim_leadership
from bigfleet.coordinator.store import LEADER_KEY, LeaderClaim
from tests.integration.players.coordinators import ZONE, Coordinator, assignment, eventually

pytestmark = pytest.mark.integration


async def recorded_claim(client: EtcdClient) -> LeaderClaim:
    recorded = await client.get(LEADER_KEY)
    assert recorded
    return msgspec.json.decode(recorded.value, type=LeaderClaim)


async def test_a_report_registers_the_shard_and_the_registration_survives_a_restart(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        first_ack = await stopped.report()
        (before,) = await stopped.shards()
    assert (before.shard_id, before.address) == ("shard-0", "shard-0:7780")
    assert before.last_heartbeat_unix_ns >= before.registered_at_unix_ns > 0
    async with stopped.running():
        await eventually(stopped.leads)
        assert await stopped.shards() == [before]
        second_ack = await stopped.report()
        assert second_ack.acknowledged
        assert second_ack.coordinator_term > first_ack.coordinator_term
        assert (await stopped.shards())[0].registered_at_unix_ns == before.registered_at_unix_ns
        assert await stopped.metric("bigfleet_coordinator_raft_term") == second_ack.coordinator_term


async def test_it_is_ready_once_a_leader_is_seen_and_its_series_are_there(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.ready)
        for outcome in ("success", "error", "fsm_error"):
            assert await stopped.metric("bigfleet_coordinator_apply_total", outcome=outcome) == 0


async def test_a_new_leader_tells_a_shard_its_domains_again(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        await stopped.report()
        await stopped.assign()
    async with stopped.running():
        await eventually(stopped.leads)
        ack = await stopped.report()
        assert [one.assign_domain.topology_value for one in ack.instructions] == [ZONE.value]
        assert ack.instructions[0].coordinator_term == ack.coordinator_term


async def test_a_deposed_leader_neither_writes_nor_leads_again_in_its_term(lone: Coordinator) -> None:
    await lone.report()
    async with lone.etcd() as client:
        claim, status = await recorded_claim(client), await client.status()
        usurper = msgspec.structs.replace(claim, member=1, term=claim.term + 1)
        await client.txn([], [put(LEADER_KEY, usurper.record())])
        not_leader = (grpc.StatusCode.FAILED_PRECONDITION, "not leader")
        assert await lone.refusal("admin", "AssignDomain", assignment()) == not_leader
        assert await recorded_claim(client) == usurper
        assert await lone.refusal("shard-0", "ReportShard", pb.ShardReport(shard_id="shard-0")) == not_leader
        assert await client.get("/bigfleet/domains/topology.kubernetes.io%2Fzone/zone-a") is None
        assert not await claim_leadership(client, status, "here:1", 1)
        later = await claim_leadership(client, dataclasses.replace(status, raft_term=claim.term + 2), "here:1", 1)
        assert later == LeaderClaim(claim.member, claim.term + 2, claim.cluster, claim.founded_unix_ns, "here:1")


async def test_a_lone_coordinator_that_cannot_lead_ends_and_leads_after_a_restart(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        async with stopped.etcd() as client:
            claim = await recorded_claim(client)
            await client.txn([], [put(LEADER_KEY, msgspec.structs.replace(claim, term=claim.term + 1).record())])
            assert not await stopped.leads()
            async with asyncio.timeout(20):
                assert await stopped.running_process.wait() == 1
    async with stopped.running():
        await eventually(stopped.leads)


async def test_another_raft_group_counts_its_terms_anew_and_is_newer(lone: Coordinator) -> None:
    async with lone.etcd() as client:
        claim, status = await recorded_claim(client), await client.status()
        elsewhere = dataclasses.replace(status, cluster_id=claim.cluster + 1, raft_term=1)
        restored = await claim_leadership(client, elsewhere, "here:1", now_unix_ns=5)
        assert restored
        assert restored.term < claim.term
        assert restored.founded_unix_ns > claim.founded_unix_ns


async def test_what_is_missing_is_one_sentence(stopped: Coordinator) -> None:
    for wrong, sentence in (
        ({"etcd_binary": "no-etcd"}, "there is no 'no-etcd' here"),
        ({"tls_dir": Path("nowhere")}, "nowhere/tls.crt: No such file"),
    ):
        started = Coordinator(dataclasses.replace(stopped.options, **wrong), stopped.identities)
        await started.start()
        assert await started.running_process.wait() == 2
        said = started.log.read_text()
        assert sentence in said
        assert "Traceback" not in said


async def test_the_death_of_the_member_ends_the_coordinator(lone: Coordinator) -> None:
    os.kill(lone.member_pid(), signal.SIGKILL)
    async with asyncio.timeout(10):
        assert await lone.running_process.wait() == 1
    assert "coordinator: the etcd member ended with status 137" in lone.log.read_text()


async def test_a_stopped_coordinator_leaves_no_process_behind(stopped: Coordinator) -> None:
    async with stopped.running():
        await eventually(stopped.leads)
        member = stopped.member_pid()
    assert stopped.running_process.returncode == 0
    assert not Path(f"/proc/{member}").exists()
