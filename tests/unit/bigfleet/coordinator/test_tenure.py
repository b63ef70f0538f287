"""Who is given a domain, and who is told of it when: never two shards at once, whatever order they report in."""

import pytest

from bigfleet.coordinator.known import SILENT_SECONDS
from bigfleet.coordinator.ownership import Domain
from bigfleet.coordinator.store import DOMAINS_PER_TXN
from tests.unit.coordinator_world import ZONE_A, ZONE_B, ZONE_C, Leader

PLAN = {ZONE_A: "shard-0", ZONE_B: "shard-1"}


async def test_the_file_is_followed_when_all_that_it_names_have_reported() -> None:
    leader = Leader(planned=PLAN)
    assert await leader.says("shard-0") == []
    assert await leader.tenure.placing.decided(), "so that nobody owns everything meanwhile"
    assert await leader.says("shard-1") == [("assign_domain", "zone-b")]
    assert await leader.says("shard-0") == [("assign_domain", "zone-a")]
    assert leader.store.kept.owners == PLAN


async def test_a_shard_that_never_comes_is_waited_for_a_minute() -> None:
    leader = Leader(planned=PLAN)
    await leader.says("shard-0")
    leader.clock.now += SILENT_SECONDS
    assert await leader.says("shard-0") == [("assign_domain", "zone-a")]
    assert leader.store.kept.owners == {ZONE_A: "shard-0"}, "nothing is recorded for a shard that nobody knows"


async def test_nobody_is_told_while_another_shard_owns_everything() -> None:
    leader = Leader(planned=PLAN)
    await leader.says("shard-0", everything=True)
    assert await leader.says("shard-1") == []
    assert await leader.says("shard-0") == [("assign_domain", "zone-a")]
    assert await leader.says("shard-1") == [("assign_domain", "zone-b")]


async def test_a_large_file_takes_few_writes() -> None:
    domains = {Domain("rack", f"r{number:03}"): f"shard-{number % 2}" for number in range(4 * DOMAINS_PER_TXN)}
    leader = Leader(planned=domains)
    for shard in ("shard-0", "shard-1"):
        await leader.says(shard)
    assert leader.store.writes == 4
    assert leader.store.kept.owners == domains


async def test_the_record_wins_over_the_file() -> None:
    leader = Leader(planned=PLAN)
    for shard in ("shard-0", "shard-1"):
        await leader.tenure.store.register(shard, "", 0)
    await leader.tenure.assign(ZONE_A, "shard-1")
    await leader.says("shard-0")
    assert sorted(await leader.says("shard-1")) == [("assign_domain", "zone-a"), ("assign_domain", "zone-b")]
    assert leader.store.kept.owners == {ZONE_A: "shard-1", ZONE_B: "shard-1"}


async def test_what_was_unassigned_by_hand_the_file_does_not_give_back_not_even_under_another_leader() -> None:
    leader = Leader(planned=PLAN)
    for shard in ("shard-0", "shard-1") * 2:
        await leader.beat(shard)
    await leader.tenure.unassign(ZONE_A)
    for _ in range(2):
        for shard in ("shard-0", "shard-1") * 3:
            await leader.beat(shard)
        leader.succeed()
    assert leader.disks == {"shard-0": set(), "shard-1": {ZONE_B}}
    assert ZONE_A not in leader.store.kept.owners
    await leader.tenure.assign(ZONE_A, "shard-1")
    assert leader.store.kept.withdrawn == set()


async def test_the_next_owner_is_told_when_the_former_one_has_given_up() -> None:
    leader = Leader()
    for shard in ("shard-0", "shard-1"):
        await leader.says(shard)
    await leader.tenure.assign(ZONE_A, "shard-0")
    await leader.says("shard-0", ZONE_A)
    await leader.tenure.unassign(ZONE_A)
    await leader.tenure.assign(ZONE_A, "shard-1")
    assert await leader.says("shard-1") == []
    await leader.says("shard-0")
    assert await leader.says("shard-1") == [("assign_domain", "zone-a")]


@pytest.mark.parametrize("removed", [False, True])
async def test_a_new_leader_waits_for_a_former_owner_that_it_has_not_heard_of(removed: bool) -> None:
    leader = Leader()
    for shard in ("shard-0", "shard-1"):
        await leader.says(shard)
    await leader.tenure.assign(ZONE_A, "shard-0")
    await leader.says("shard-0", ZONE_A)
    if removed:
        await leader.tenure.remove_shard("shard-0")
    else:
        await leader.tenure.unassign(ZONE_A)
    leader.succeed()
    await leader.tenure.assign(ZONE_A, "shard-1")
    assert await leader.says("shard-1") == []
    assert await leader.says("shard-0", ZONE_A) == [("unassign_domain", "zone-a")]
    await leader.says("shard-0")
    assert await leader.says("shard-1") == [("assign_domain", "zone-a")]


async def test_after_a_restored_snapshot_nobody_is_told_before_all_have_reported() -> None:
    leader = Leader(founded_at=1000.0)
    for shard in ("shard-0", "shard-1"):
        await leader.tenure.store.register(shard, "", 0)
    await leader.tenure.assign(ZONE_A, "shard-0")
    assert await leader.says("shard-0") == []
    await leader.says("shard-1")
    assert await leader.says("shard-0") == [("assign_domain", "zone-a")]


async def test_a_former_owner_that_is_silent_is_waited_for_a_minute() -> None:
    leader = Leader()
    for shard in ("shard-0", "shard-1"):
        await leader.says(shard)
    await leader.tenure.assign(ZONE_A, "shard-0")
    await leader.says("shard-0", ZONE_A)
    await leader.tenure.unassign(ZONE_A)
    await leader.tenure.assign(ZONE_A, "shard-1")
    leader.clock.now += SILENT_SECONDS
    assert await leader.says("shard-1") == [("assign_domain", "zone-a")]


async def test_coordinators_that_come_back_empty_record_what_shards_have_and_then_follow_the_file() -> None:
    leader = Leader(planned=PLAN | {ZONE_C: "shard-0"})
    assert await leader.says("shard-1", ZONE_A) == []
    assert await leader.says("shard-0") == [("assign_domain", "zone-c")]
    assert leader.store.kept.owners == {ZONE_A: "shard-1", ZONE_B: "shard-1", ZONE_C: "shard-0"}


async def test_of_two_shards_that_have_the_same_unrecorded_domain_the_second_gives_it_up() -> None:
    leader = Leader()
    assert await leader.says("shard-0", ZONE_A) == []
    assert await leader.says("shard-1", ZONE_A) == [("unassign_domain", "zone-a")]


async def test_a_late_report_does_not_bring_back_what_was_given_up() -> None:
    leader = Leader()
    await leader.says("shard-0", cycle=1)
    await leader.tenure.assign(ZONE_A, "shard-0")
    await leader.says("shard-0", ZONE_A, cycle=2)
    await leader.tenure.remove_shard("shard-0")
    await leader.says("shard-0", ZONE_A, cycle=3)
    await leader.says("shard-0", cycle=5)
    assert leader.store.kept.released["shard-0"] == set()
    await leader.says("shard-0", ZONE_A, cycle=4)
    assert leader.store.kept.owners == {}


async def test_what_a_removed_shard_had_is_given_away_when_it_has_been_silent_for_a_minute() -> None:
    leader = Leader(planned={ZONE_A: "shard-1"})
    for shard in ("shard-0", "shard-1"):
        await leader.tenure.store.register(shard, "", 0)
    await leader.tenure.assign(ZONE_A, "shard-0")
    await leader.says("shard-0", ZONE_A)
    await leader.tenure.remove_shard("shard-0")
    assert await leader.says("shard-1") == []
    leader.clock.now += SILENT_SECONDS
    assert await leader.says("shard-1") == [("assign_domain", "zone-a")]
    assert await leader.says("shard-0", ZONE_A) == [("unassign_domain", "zone-a")]


async def test_names_that_no_label_can_have_are_not_recorded() -> None:
    leader = Leader()
    await leader.says("shard-0", Domain("a key", "zone-a"), Domain("zone", ""))
    assert leader.store.kept.owners == {}
