"""What the leader keeps of the shards' reports, as metrics: what people are shown of a shard when they ask."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bigfleet.coordinator.known import KnownShard
from bigfleet.process.naming import named

_PREFIX = "bigfleet_coordinator_report"


class KeptReports(Collector):
    """Read off the leader's memory at each scrape, never counted beside it; only a leader has some."""

    def __init__(
        self,
        registry: CollectorRegistry,
        shards: Callable[[], Mapping[str, KnownShard]],
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._shards = shards
        self._wall_clock_ns = wall_clock_ns
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry need not collect to know our names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        ages = GaugeMetricFamily(f"{_PREFIX}_age_seconds", "The age of the report that is kept.", labels=["shard"])
        free = GaugeMetricFamily(
            f"{_PREFIX}ed_free_machines", "Idle and Speculative machines in the report that is kept.", labels=["shard"]
        )
        machines = GaugeMetricFamily(
            f"{_PREFIX}ed_machines", "Machines in the report that is kept, by zone.", labels=["shard", "zone"]
        )
        types = GaugeMetricFamily(
            f"{_PREFIX}ed_machines_of_type",
            "Machines in the report that is kept, by instance type.",
            labels=["shard", "instance_type"],
        )
        now = self._wall_clock_ns()
        for shard, known in self._shards().items():
            report = known.report
            ages.add_metric([shard], max(0.0, (now - report.received_at_unix_ns) / 1e9))
            free.add_metric([shard], report.summary.free_machines)
            for zone, count in named(report.summary.per_zone_counts):
                machines.add_metric([shard, zone], count)
            for instance_type, count in named(report.summary.per_instance_type_counts):
                types.add_metric([shard, instance_type], count)
        yield from (ages, free, machines, types)
