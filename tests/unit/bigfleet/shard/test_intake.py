"""Roll-ups on their way in: what is new, what is the same again, what is held and what is refused."""

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.shard import message_limits as limits
from bigfleet.shard.message_limits import Vocabulary
from bigfleet.shard.metrics import ShardMetrics
from bigfleet.shard.sessions.frames import Rollup
from bigfleet.shard.sessions.intake import Intake
from bigfleet.shard.sessions.needs import NeedsTable


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def intake(registry: CollectorRegistry) -> Intake:
    return Intake(NeedsTable(guard=True), ShardMetrics(registry), lambda: 0.0)


def rollup(rows: int, cpu: str = "1") -> capacity_pb2.ClusterCapacityNeeds:
    needs = [
        capacity_pb2.CapacityNeed(priority=row, aggregate_resources={"cpu": cpu}, min_unit={"cpu": "1"})
        for row in range(rows)
    ]
    return capacity_pb2.ClusterCapacityNeeds(cluster_id="c", timestamp_unix_nanos=rows, needs=needs)


async def outcomes(intake: Intake, *rollups: capacity_pb2.ClusterCapacityNeeds) -> list[str]:
    verdicts = [await intake.take("c", Rollup.of(one)) for one in rollups]
    return [verdict.outcome if verdict else "rejected" for verdict in verdicts]


@pytest.mark.parametrize("rows", [12, 200], ids=["small", "large"])
async def test_the_same_again_is_no_news_whenever_it_was_built(intake: Intake, rows: int) -> None:
    again = rollup(rows)
    again.timestamp_unix_nanos = 99
    assert await outcomes(intake, rollup(rows), again, rollup(rows, "2"), rollup(rows)) == [
        "changed",
        "unchanged",
        "changed",
        "changed",
    ]


async def test_demand_that_stands_again_ends_the_doubt(intake: Intake) -> None:
    empty, full = rollup(0), rollup(12)
    assert await outcomes(intake, full, empty, empty, full, empty, empty, empty) == [
        "changed",
        "held",
        "held",
        "unchanged",
        "held",
        "held",
        "changed",
    ]


async def test_a_doubt_that_ended_is_no_longer_shown(intake: Intake, registry: CollectorRegistry) -> None:
    def held() -> float | None:
        return registry.get_sample_value("bigfleet_shard_rollup_quarantined", {"cluster": "c"})

    await outcomes(intake, rollup(12), rollup(0))
    assert held() == 1
    assert not intake.repeats("c", Rollup.of(rollup(0)))
    assert intake.repeats("c", Rollup.of(rollup(12)))
    assert held() == 0


async def test_a_cluster_s_accepted_roll_ups_are_counted_changed_or_not(
    intake: Intake, registry: CollectorRegistry
) -> None:
    def accepted() -> float | None:
        return registry.get_sample_value("bigfleet_shard_cluster_rollups_total", {"cluster": "c"})

    await outcomes(intake, rollup(12), rollup(12), rollup(12, "2"))
    assert accepted() == 3
    await outcomes(intake, rollup(0), rollup(12, "NaN"))
    assert accepted() == 3, "one was held, one rejected"
    assert intake.repeats("c", Rollup.of(rollup(12, "2")))
    assert accepted() == 4


async def test_what_was_rejected_is_not_what_the_demand_is_from(intake: Intake, registry: CollectorRegistry) -> None:
    bad = rollup(2, "NaN")
    assert await outcomes(intake, rollup(2), bad, bad, rollup(2)) == ["changed", "rejected", "rejected", "unchanged"]
    assert registry.get_sample_value("bigfleet_shard_rollups_total", {"outcome": "rejected"}) == 2
    assert registry.get_sample_value("bigfleet_shard_rollups_rejected_total", {"cluster": "c"}) == 2


def test_a_cluster_may_use_so_many_resource_names_in_its_life() -> None:
    vocabulary = Vocabulary()
    names = {str(number) for number in range(limits.MAX_RESOURCES_EVER)}
    vocabulary.check("c", names)
    vocabulary.check("c", names)
    vocabulary.check("another", {"one more"})
    with pytest.raises(ValueError, match="resource names"):
        vocabulary.check("c", {"one more"})
    vocabulary.check("c", names)


@pytest.mark.parametrize("cluster", ["", "c" * 254, "a\nb", "a\0b"])
def test_a_cluster_needs_a_name_that_can_be_read(cluster: str) -> None:
    assert limits.cluster_id_problem(cluster)
    assert not limits.cluster_id_problem("kwok-cluster-0")
