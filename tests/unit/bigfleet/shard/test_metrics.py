"""Metrics: what a gate reads exists from the start, and buckets reach past every bar."""

import itertools

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.core import penalty
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.core.requirements import NeedProfile
from bigfleet.engine import ActionKind, Shortfall
from bigfleet.shard.metrics import ActionOutcome, ReportOutcome, ShardMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> ShardMetrics:
    return ShardMetrics(registry)


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"bigfleet_shard_{name}", labels)


def shortfall(priority: int, age: int) -> Shortfall:
    profile = NeedProfile.canonical([], [], priority, 0, 0)
    return Shortfall(profile.fingerprint, profile, {"cpu": 1}, age)


@pytest.mark.usefixtures("metrics")
def test_every_series_that_a_gate_reads_is_there_at_zero(registry: CollectorRegistry) -> None:
    for kind in ActionKind:
        assert value(registry, "actions_total", kind=kind) == 0
        for outcome in ActionOutcome:
            assert value(registry, "action_execute_outcomes_total", kind=kind, outcome=outcome) == 0
    for bucket in penalty.ALL_BUCKETS:
        assert value(registry, "demand_machines", interruption_penalty_bucket=penalty.label(bucket)) == 0
    for name in ("shortfalls", "seeded_waiting", "reclaims_capped_total", "active_sessions", "actuation_paused"):
        assert value(registry, name) == 0
    for report in ReportOutcome:
        assert value(registry, "reports_total", outcome=report) == 0
    for name in ("report_oldest_seconds", "clusters_not_shown"):
        assert value(registry, name) == 0
    for name in ("cycle_duration_seconds", "configure_phase_seconds", "create_phase_seconds"):
        assert value(registry, f"{name}_count") == 0


@pytest.mark.usefixtures("metrics")
@pytest.mark.parametrize(
    ("name", "bar_seconds"),
    [("cycle_duration_seconds", 100), ("configure_phase_seconds", 300), ("create_phase_seconds", 300)],
)
def test_buckets_reach_past_every_bar_and_are_fine(registry: CollectorRegistry, name: str, bar_seconds: float) -> None:
    (family,) = [family for family in registry.collect() if family.name == f"bigfleet_shard_{name}"]
    bounds = [float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")][:-1]
    assert bounds[-1] > bar_seconds
    assert all(right / left < 1.5 for left, right in itertools.pairwise(bounds))


def test_shortfalls_are_counted_by_age_and_class(registry: CollectorRegistry, metrics: ShardMetrics) -> None:
    metrics.publish_shortfalls([shortfall(50, 1), shortfall(150, 12), shortfall(1_000, 60), shortfall(2_000_000, 301)])
    assert value(registry, "shortfalls") == 4
    for bucket in ("1-9", "10-59", "60-299", "300+"):
        assert value(registry, "shortfalls_aged", bucket=bucket) == 1
    for priority_class in ("batch", "service", "critical", "other"):
        assert value(registry, "shortfalls_by_priority", priority_class=priority_class) == 1
    metrics.publish_shortfalls([])
    assert value(registry, "shortfalls_aged", bucket="300+") == 0


def test_the_inventory_gauge_goes_back_to_zero(registry: CollectorRegistry, metrics: ShardMetrics) -> None:
    kind = (MachineState.CONFIGURED, CapacityType.SPOT, "pinned")
    for count in (3, 0):
        metrics.publish_inventory({kind: count})
        labels = {"state": "Configured", "capacity_type": "Spot", "interruption_penalty_bucket": "pinned"}
        assert value(registry, "inventory_machines", **labels) == count
