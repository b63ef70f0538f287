"""No machine has two owners for long: what shards hold on their disks is brought to what the coordinators recorded."""

import asyncio
import json
from pathlib import Path

import pytest

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.ownership import Domain
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.players.coordinators import ZONE, Coordinator, Trio, eventually, trio_of, unassignment
from tests.integration.players.supply_side import Supply

pytestmark = pytest.mark.integration
ZONE_B = Domain(ZONE.key, "zone-b")
# Of supply_side.FLEET.
IN_ZONE_A, IN_ZONE_B = 24, 12


def owned(*domains: Domain, everything: bool = False) -> pb.OwnedDomains:
    return pb.OwnedDomains(
        everything=everything,
        domains=[pb.TopologyDomain(topology_key=one.key, topology_value=one.value) for one in domains],
    )


def asked(ack: pb.ReportAck) -> list[tuple[str, str]]:
    """(what, topology value) of each instruction."""
    found = []
    for instruction in ack.instructions:
        payload = instruction.WhichOneof("payload")
        assert payload
        found.append((payload, getattr(instruction, payload).topology_value))
    return found


async def test_a_leader_tells_a_shard_what_its_disk_lacks_and_has_too_much(lone: Coordinator) -> None:
    for shard in ("shard-0", "shard-1"):
        assert not (await lone.report(shard, domains=owned(everything=True))).domains_assigned
    await lone.assign(ZONE, "shard-0")
    await lone.assign(ZONE_B, "shard-1")
    assert asked(await lone.report("shard-1", domains=owned())) == [], "shard-0 still owns everything"
    ack = await lone.report("shard-0", domains=owned(ZONE_B))
    assert asked(ack) == [("assign_domain", "zone-a"), ("unassign_domain", "zone-b")]
    assert ack.domains_assigned
    accepted = [
        pb.InstructAck(instruction_id=one.instruction_id, outcome=pb.InstructAck.ACCEPTED) for one in ack.instructions
    ]
    assert asked(await lone.report("shard-0", domains=owned(ZONE), instruction_acks=accepted)) == []
    assert asked(await lone.report("shard-1", domains=owned())) == [("assign_domain", "zone-b")]


async def test_a_domain_that_no_coordinator_knows_of_stays_where_it_is_and_is_recorded(lone: Coordinator) -> None:
    """As after the coordinators have lost everything."""
    ack = await lone.report("shard-0", domains=owned(ZONE))
    assert (asked(ack), ack.domains_assigned) == ([], True)
    assert await lone.domains() == {ZONE: "shard-0"}


async def test_a_removed_shard_that_comes_back_gives_its_domains_up(lone: Coordinator) -> None:
    await lone.report("shard-0", domains=owned(everything=True))
    await lone.assign(ZONE)
    await lone.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id="shard-0"))
    assert asked(await lone.report("shard-0", domains=owned(ZONE))) == [("unassign_domain", "zone-a")]


async def test_an_unassignment_reaches_a_shard_that_was_down_while_the_leader_died(
    authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    trio = trio_of(authority, tmp_path / "coordinators", etcd_tools)
    async with trio.running():
        supply = _supply(tmp_path, authority, trio)
        (shard,) = supply.shards
        async with supply.running():
            leader = await trio.leader()
            await eventually(leader.shards)
            await leader.assign(ZONE)
            await shard.until_metric(IN_ZONE_A, "shard_inventory_machines")
            await shard.kill()

            await leader.call("admin", "UnassignDomain", unassignment())
            await leader.kill()
            successor = await trio.leader(trio.others(leader))
            await shard.start()
            await _until_on_disk(supply, [])
            await shard.until_metric(0, "shard_inventory_machines")
            assert await successor.domains() == {}


async def test_a_new_shard_owns_nothing_while_others_have_domains(
    authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    trio = trio_of(authority, tmp_path / "coordinators", etcd_tools)
    async with trio.running():
        leader = await trio.leader()
        await leader.report("shard-1")
        await leader.assign(ZONE, "shard-1")
        supply = _supply(tmp_path, authority, trio)
        (shard,) = supply.shards
        async with supply.running():
            await shard.until_cycles(2)
            assert await shard.metric("shard_inventory_machines") == 0
            await leader.assign(ZONE_B, "shard-0")
            await shard.until_metric(IN_ZONE_B, "shard_inventory_machines")
            # Without any coordinator it goes on with what is on its disk.
            await asyncio.gather(*(member.kill() for member in trio.members))
            await shard.kill()
            await shard.start()
            await eventually(shard.ready)
            await shard.until_metric(IN_ZONE_B, "shard_inventory_machines")


def _supply(directory: Path, authority: Authority, trio: Trio) -> Supply:
    coordinators = ",".join(member.options.listen for member in trio.members)
    flags = [f"--coordinator-addr={coordinators}", "--coordinator-heartbeat-interval-seconds=0.5"]
    return Supply(directory / "supply", authority, shard=flags)


async def _until_on_disk(supply: Supply, domains: list[list[str]]) -> None:
    async def reached() -> bool:
        stored: list[list[str]] = json.loads((supply.directory / "shard-0" / "domains.json").read_text())
        return stored == domains

    await eventually(reached)
