"""A leader that assigns by itself: each domain has one owner at most at any moment, and what serves clusters stays."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bigfleet.coordinator.known import SILENT_SECONDS
from bigfleet.coordinator.ownership import Domain
from tests.unit.coordinator_world import ZONE_A, ZONE_B, ZONE_C, Leader

ZONE = ZONE_A.key


@pytest.fixture
async def leader() -> Leader:
    """Two shards that list three zones and have them."""
    leader = Leader(assign_by=ZONE)
    leader.disks = {"shard-0": set(), "shard-1": set()}
    await leader.beats(1)
    leader.listed = {ZONE_A: (10, {}), ZONE_B: (6, {}), ZONE_C: (5, {})}
    await leader.beats(2)
    return leader


async def test_free_domains_are_shared_out(leader: Leader) -> None:
    assert leader.disks == {"shard-0": {ZONE_A}, "shard-1": {ZONE_B, ZONE_C}}


async def test_coordinators_that_were_founded_a_moment_ago_wait_for_shards_of_before() -> None:
    leader = Leader(assign_by=ZONE, founded_at=1000.0)
    leader.listed = {ZONE_A: (10, {})}
    leader.disks = {"shard-0": set()}
    await leader.beats(4)
    assert leader.store.kept.owners == {}
    leader.disks["shard-9"] = {ZONE_A}
    await leader.beats(3)
    assert leader.disks == {"shard-0": set(), "shard-9": {ZONE_A}}


async def test_a_domain_that_not_all_list_yet_waits_a_while() -> None:
    leader = Leader(assign_by=ZONE)
    leader.disks = {"shard-0": set(), "shard-1": set()}
    await leader.beats(1)
    leader.unlisted = {"shard-1"}
    leader.listed = {ZONE_A: (10, {})}
    await leader.beats(2)
    assert leader.store.kept.owners == {}
    await leader.beats(3)
    assert leader.disks["shard-0"] == {ZONE_A}


async def test_a_new_shard_gets_its_share_when_the_owner_has_let_go(leader: Leader) -> None:
    leader.disks["shard-2"] = set()
    await leader.beats(1)
    assert leader.store.kept.owners[ZONE_C] == "shard-1", "it is in the record as its owner's until then"
    await leader.beats(2)
    assert leader.disks == {"shard-0": {ZONE_A}, "shard-1": {ZONE_B}, "shard-2": {ZONE_C}}


async def test_a_domain_whose_machines_serve_a_cluster_by_now_stays(leader: Leader) -> None:
    leader.disks["shard-2"] = set()
    leader.clock.now += 10
    await leader.beat("shard-2")
    leader.listed[ZONE_C] = (5, {"k-0": 1})
    await leader.beats(3)
    assert leader.disks["shard-1"] == {ZONE_B, ZONE_C}


async def test_a_leader_that_dies_in_the_middle_of_a_move_leaves_the_domain_with_its_owner(leader: Leader) -> None:
    leader.disks["shard-2"] = set()
    leader.clock.now += 10
    for shard in ("shard-2", "shard-1"):
        await leader.beat(shard)
    assert leader.disks["shard-1"] == {ZONE_B}, "it has let go, and nobody was told that"
    leader.succeed()
    await leader.beat("shard-1")
    assert leader.disks["shard-1"] == {ZONE_B, ZONE_C}
    await leader.beats(4)
    assert leader.disks["shard-2"] == {ZONE_C}


async def test_nothing_moves_twice_within_ten_minutes(leader: Leader) -> None:
    leader.disks["shard-2"] = set()
    await leader.beats(3)
    assert leader.disks["shard-2"] == {ZONE_C}
    leader.disks["shard-3"] = set()
    leader.listed[ZONE_A] = leader.listed[ZONE_B] = (6, {"k-0": 1})
    leader.succeed()
    await leader.beats(3)
    assert leader.disks["shard-3"] == set()
    assert leader.disks["shard-2"] == {ZONE_C}
    await leader.tenure.remove_shard("shard-2")
    del leader.disks["shard-2"]
    await leader.beats(int(SILENT_SECONDS / 10) + 2)
    assert leader.disks["shard-3"] == {ZONE_C}, "what a removed shard had is not moved but given away"


async def test_what_a_removed_shard_had_goes_to_the_others_in_few_writes(leader: Leader) -> None:
    racks = [Domain(ZONE, f"r{number:03}") for number in range(200)]
    leader.listed |= dict.fromkeys(racks, (1, {}))
    await leader.beats(2)
    writes = leader.store.writes
    await leader.tenure.remove_shard("shard-0")
    del leader.disks["shard-0"]
    await leader.beats(int(SILENT_SECONDS / 10) + 2)
    assert leader.store.writes - writes <= 3
    assert leader.disks["shard-1"] == {ZONE_A, ZONE_B, ZONE_C, *racks}


async def test_what_a_person_unassigned_only_a_person_assigns(leader: Leader) -> None:
    await leader.tenure.unassign(ZONE_A)
    await leader.beats(8)
    assert ZONE_A not in leader.store.kept.owners
    await leader.tenure.assign(ZONE_A, "shard-1")
    await leader.beats(2)
    assert ZONE_A in (leader.disks["shard-1"] or ())


EVENTS = some.one_of(
    some.tuples(some.just("beat"), some.integers(0, 3)),
    some.tuples(some.just("beat"), some.integers(0, 3)),
    some.tuples(some.sampled_from(["join", "remove", "restart"]), some.integers(0, 3)),
    some.tuples(some.sampled_from(["appear", "bind", "free", "unassign", "assign"]), some.integers(0, 5)),
    some.tuples(some.sampled_from(["leader dies", "time"]), some.just(0)),
)


@settings(max_examples=100, deadline=None)
@given(some.lists(EVENTS, min_size=10, max_size=60))
def test_whatever_happens_no_domain_has_two_owners_and_what_serves_a_cluster_stays(
    events: list[tuple[str, int]],
) -> None:
    asyncio.run(_play(events))


async def _play(events: list[tuple[str, int]]) -> None:
    leader = Leader(assign_by=ZONE)
    leader.disks = {"shard-0": set(), "shard-1": set()}
    await leader.beats(1)
    leader.listed = {Domain(ZONE, f"z{number}"): (number + 1, {}) for number in range(5)}
    await leader.beats(2)
    by_hand: set[Domain] = set()
    for what, number in events:
        shard, owner, domain = f"shard-{number}", f"shard-{number % 2}", Domain(ZONE, f"z{number}")
        before = _owners(leader)
        match what:
            case "beat" if shard in leader.disks:
                await leader.beat(shard)
            case "join":
                leader.disks.setdefault(shard, set())
            case "remove" if shard in leader.store.kept.shards:
                await leader.tenure.remove_shard(shard)
                by_hand |= set(before)
            case "appear":
                leader.listed.setdefault(domain, (number + 1, {}))
            case "bind" if domain in before:
                leader.listed[domain] = (number + 1, {"k-0": 1})
            case "free" if domain in leader.listed:
                leader.listed[domain] = (number + 1, {})
            case "unassign":
                by_hand.add(domain)
                await leader.tenure.unassign(domain)
            case "assign" if domain not in leader.store.kept.owners and owner in leader.store.kept.shards:
                by_hand.add(domain)
                await leader.tenure.assign(domain, owner)
            case "leader dies":
                leader.succeed()
            case "time":
                # Nobody is silent for so long that it is given up.
                await leader.beats()
        after = _owners(leader)
        for owned, its in before.items():
            if leader.listed.get(owned, (0, {}))[1] and owned not in by_hand:
                assert after.get(owned) == its
    await leader.beats(int(SILENT_SECONDS / 10) + 2)
    recorded = leader.store.kept.owners
    assert leader.listed.keys() - leader.store.kept.withdrawn <= recorded.keys(), "nothing stays without an owner"
    assert _owners(leader).items() <= recorded.items()


def _owners(leader: Leader) -> dict[Domain, str]:
    owners: dict[Domain, str] = {}
    for shard, disk in leader.disks.items():
        for domain in disk or ():
            assert domain not in owners, f"{domain} belongs to {owners[domain]} and {shard}"
            owners[domain] = shard
    return owners
