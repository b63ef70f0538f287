"""A cluster belongs to the shard of its first contact, for ever, or until that shard is removed."""

from tests.unit.coordinator_world import Leader


async def test_the_first_shard_keeps_a_cluster_under_every_leader() -> None:
    leader = Leader()
    assert await leader.sent_away("shard-0", "k-0", "k-1") == {}
    assert await leader.sent_away("shard-1", "k-1", "k-2") == {"k-1": "shard-0"}
    leader.succeed()
    assert await leader.sent_away("shard-1", "k-0", "k-2") == {"k-0": "shard-0"}
    assert leader.store.kept.clusters == {"k-0": "shard-0", "k-1": "shard-0", "k-2": "shard-1"}


async def test_the_clusters_of_a_removed_shard_may_go_elsewhere() -> None:
    leader = Leader()
    await leader.sent_away("shard-0", "k-0")
    await leader.tenure.remove_shard("shard-0")
    assert await leader.sent_away("shard-1", "k-0") == {}
    assert await leader.sent_away("shard-0", "k-0") == {"k-0": "shard-1"}


async def test_names_that_no_cluster_can_have_are_not_bound() -> None:
    leader = Leader()
    await leader.sent_away("shard-0", "", "k" * 254)
    assert leader.store.kept.clusters == {}
