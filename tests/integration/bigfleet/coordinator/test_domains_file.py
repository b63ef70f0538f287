"""Shards get their domains from a file that the deployer wrote, and nobody owns anything before."""

import json
from dataclasses import replace
from pathlib import Path

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.ownership import Domain
from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.bigfleet.coordinator.test_domain_ownership import IN_ZONE_A, IN_ZONE_B, ZONE_B, asked, owned
from tests.integration.players.coordinators import ZONE, Coordinator, Trio, eventually, trio_of
from tests.integration.players.played_operator import PlayedOperator
from tests.integration.players.supply_side import FLEET, Supply

SHARDS = ("shard-0", "shard-1")
CLUSTERS = ("k-0", "k-1")
# All that the provider has: in zone-a, and in zone-b.
SUPPLIES = (("m6i.large", 4 * IN_ZONE_A), ("a3-highgpu-8g", 208 * IN_ZONE_B))


def need(instance_type: str, cpus: int) -> capacity_pb2.CapacityNeed:
    requirement = capacity_pb2.NodeSelectorRequirement(
        key=INSTANCE_TYPE_KEY, operator=capacity_pb2.NodeSelectorRequirement.IN, values=[instance_type]
    )
    return capacity_pb2.CapacityNeed(
        requirements=[requirement], aggregate_resources={"cpu": str(cpus)}, min_unit={"cpu": "1"}, priority=1000
    )


def plan(*members: Coordinator, domains: dict[Domain, str]) -> None:
    """Start the members with a file that says so."""
    for member in members:
        path = member.log.with_name("domains.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps([{"key": one.key, "value": one.value, "shard": shard} for one, shard in domains.items()])
        )
        member.options = replace(member.options, domains_file=path)


async def test_a_bad_file_stops_the_coordinator_and_names_the_entry(stopped: Coordinator) -> None:
    plan(stopped, domains={ZONE: "shard-0", ZONE_B: ""})
    await stopped.start()
    assert await stopped.running_process.wait() == 2
    said = stopped.log.read_text()
    assert "domains.json, entry 2: shard must be set" in said
    assert "write a JSON list" in said


async def test_more_domains_than_one_transaction_takes_are_recorded_at_once(stopped: Coordinator) -> None:
    domains = {Domain("example.com/rack", f"r{number}"): SHARDS[number % 2] for number in range(260)}
    plan(stopped, domains=domains)
    async with stopped.running():
        await eventually(stopped.leads)
        first = await stopped.report("shard-0", domains=owned(everything=True))
        assert (asked(first), first.domains_assigned) == ([], True)
        await stopped.report("shard-1", domains=owned())
        assert await stopped.domains() == domains
        assert len(asked(await stopped.report("shard-0", domains=owned()))) == 130


async def test_a_leader_that_dies_between_recording_and_telling_leaves_nobody_without(stopped_trio: Trio) -> None:
    plan(*stopped_trio.members, domains={ZONE: "shard-0", ZONE_B: "shard-1"})
    async with stopped_trio.running():
        leader = await stopped_trio.leader()
        await leader.report("shard-0", domains=owned())
        await leader.report("shard-1", domains=owned())
        assert await leader.domains() == {ZONE: "shard-0", ZONE_B: "shard-1"}
        await leader.kill()
        successor = await stopped_trio.leader(stopped_trio.others(leader))
        # So soon after the founding, a shard that the successor has not heard of may have what nobody recorded.
        assert asked(await successor.report("shard-0", domains=owned())) == []
        assert asked(await successor.report("shard-1", domains=owned())) == [("assign_domain", "zone-b")]
        assert asked(await successor.report("shard-0", domains=owned())) == [("assign_domain", "zone-a")]
        await successor.call(
            "admin", "UnassignDomain", pb.UnassignDomainRequest(topology_key=ZONE.key, topology_value=ZONE.value)
        )
        await successor.report("shard-0", domains=owned())
        assert await successor.domains() == {ZONE_B: "shard-1"}, "what was unassigned by hand stays so"


async def test_two_shards_of_one_provider_never_own_the_same_machine(
    authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain
) -> None:
    """Each cluster asks for more than its shard has, and the provider's ledger watches who touches what."""
    trio = trio_of(authority, tmp_path / "coordinators", etcd_tools)
    plan(*trio.members, domains={ZONE: "shard-0", ZONE_B: "shard-1"})
    coordinators = ",".join(member.options.listen for member in trio.members)
    supply = Supply(
        tmp_path / "supply",
        authority,
        zones=["", ""],
        fleet=FLEET,
        clusters=CLUSTERS,
        shard=[
            f"--coordinator-addr={coordinators}",
            "--coordinator-heartbeat-interval-seconds=0.5",
            "--unassigned-owns=nothing",
        ],
    )
    first, second = supply.shards
    operators = [
        PlayedOperator(cluster, shard.address, supply.provider.address, supply.directory / cluster)
        for cluster, shard in zip(CLUSTERS, supply.shards, strict=True)
    ]
    # The shards come first: no leader tells them anything.
    async with supply.running(), operators[0].running(), operators[1].running():
        for operator in operators:
            operator.ask_for(*(need(instance_type, cpus) for instance_type, cpus in SUPPLIES))
        for shard in supply.shards:
            await shard.until_cycles(2)
            assert await shard.metric("shard_inventory_machines") == 0
        async with trio.running():
            await supply.until_configured(CLUSTERS[0], IN_ZONE_A)
            await supply.until_configured(CLUSTERS[1], IN_ZONE_B)
            for member in trio.members:
                await member.kill()
            # A shard that has lost its disk adopts nothing, while the other goes on from its own.
            for shard in supply.shards:
                await shard.kill()
            (supply.directory / second.name / "domains.json").unlink()
            for shard in supply.shards:
                await shard.start()
                await eventually(shard.ready)
                await shard.until_cycles(2)
            assert await first.metric("shard_inventory_machines") == IN_ZONE_A
            assert await second.metric("shard_inventory_machines") == 0
            for member in trio.members:
                await member.start()
            await second.until_metric(IN_ZONE_B, "shard_inventory_machines")
        for shard, machines in zip(supply.shards, (IN_ZONE_A, IN_ZONE_B), strict=True):
            await shard.until_cycles(2)
            assert await shard.metric("shard_inventory_machines") == machines
        assert await supply.provider.metric("provider_ledger_violations_total", rule="two_owners") == 0
