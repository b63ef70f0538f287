"""Which shard a cluster belongs to outlives the leader, and ends with the shard."""

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from tests.integration.players.coordinators import Coordinator, Trio


async def elsewhere(leader: Coordinator, shard: str, *clusters: str) -> dict[str, str]:
    answer = await leader.report(shard, clusters=clusters)
    return {one.cluster_id: one.shard_id for one in answer.clusters_elsewhere}


async def bound(leader: Coordinator) -> dict[str, str]:
    answer = await leader.call("readonly", "ListClusters", pb.ListClustersRequest())
    return {one.cluster_id: one.shard_id for one in answer.clusters}


async def test_a_cluster_stays_with_its_first_shard_whoever_leads(stopped_trio: Trio) -> None:
    async with stopped_trio.running():
        leader = await stopped_trio.leader()
        many = [f"k-{number}" for number in range(120)]
        assert await elsewhere(leader, "shard-0", *many) == {}
        await leader.kill()
        successor = await stopped_trio.leader(stopped_trio.others(leader))
        assert await elsewhere(successor, "shard-1", "k-7", "k-new") == {"k-7": "shard-0"}
        assert await bound(successor) == dict.fromkeys(many, "shard-0") | {"k-new": "shard-1"}
        await successor.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id="shard-0"))
        assert await bound(successor) == {"k-new": "shard-1"}
        assert await elsewhere(successor, "shard-1", "k-7") == {}
