"""What a leader keeps of the shards' reports is in its metrics, as it keeps it."""

from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.known import KnownShard, LastReport
from bigfleet.coordinator.reported import KeptReports
from bigfleet.process.naming import MOST_NAMES

SECOND = 1_000_000_000
KEPT = "bigfleet_coordinator_report"


def heard(at_seconds: int, free: int, **zones: int) -> LastReport:
    total = sum(zones.values())
    summary = pb.ShardSummary(
        total_machines=total, free_machines=free, per_zone_counts=zones, per_instance_type_counts={"small": total}
    )
    return LastReport(at_seconds * SECOND, 1, summary, [])


def shown(shards: dict[str, KnownShard], now_seconds: int = 0) -> CollectorRegistry:
    registry = CollectorRegistry()
    KeptReports(registry, lambda: shards, lambda: now_seconds * SECOND)
    return registry


def test_the_metrics_say_what_is_kept_and_since_when() -> None:
    shards = {"shard-0": KnownShard("", heard(10, free=3, a=4, b=5))}
    registry = shown(shards, now_seconds=17)
    assert registry.get_sample_value(f"{KEPT}ed_machines", {"shard": "shard-0", "zone": "a"}) == 4
    assert registry.get_sample_value(f"{KEPT}ed_machines", {"shard": "shard-0", "zone": "b"}) == 5
    assert registry.get_sample_value(f"{KEPT}ed_free_machines", {"shard": "shard-0"}) == 3
    of_type = {"shard": "shard-0", "instance_type": "small"}
    assert registry.get_sample_value(f"{KEPT}ed_machines_of_type", of_type) == 9
    assert registry.get_sample_value(f"{KEPT}_age_seconds", {"shard": "shard-0"}) == 7
    shards["shard-0"].report = heard(16, free=2, a=4)
    assert registry.get_sample_value(f"{KEPT}ed_machines", {"shard": "shard-0", "zone": "b"}) is None
    assert registry.get_sample_value(f"{KEPT}ed_free_machines", {"shard": "shard-0"}) == 2
    assert registry.get_sample_value(f"{KEPT}_age_seconds", {"shard": "shard-0"}) == 1


def test_a_coordinator_that_does_not_lead_keeps_nothing() -> None:
    assert [family.samples for family in shown({}).collect()] == [[], [], [], []]


def test_a_shard_that_reports_very_many_zones_does_not_get_as_many_series() -> None:
    zones = {f"zone-{number:03}": 1 for number in range(MOST_NAMES + 9)}
    registry = shown({"shard-0": KnownShard("", heard(0, 0, **zones))})
    [machines] = [family for family in registry.collect() if family.name == f"{KEPT}ed_machines"]
    assert len(machines.samples) == MOST_NAMES + 1
    assert registry.get_sample_value(f"{KEPT}ed_machines", {"shard": "shard-0", "zone": "other"}) == 9
