"""What the operator says by itself of the demand that it has sent: how often, and how much of what."""

import zlib
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed, ClusterCapacityNeeds
from bigfleet.core.priority import priority_class
from bigfleet.core.vectors import parse_vector

_MILLI = 1000


def checksum(needs: Iterable[CapacityNeed]) -> int:
    """Of their profiles, min_units and whether each is a gang, in any order (docs/architecture.md says how)."""
    return sum(
        zlib.crc32(f"{_fingerprint(need)}|gang={bool(need.group):d}|min={_unit(need)}".encode()) for need in needs
    )


class SentRollups:
    """Remembers the last roll-up that was written to the stream; it is added up when metrics are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._count = 0
        self._last: ClusterCapacityNeeds | None = None
        registry.register(self)

    def sent(self, rollup: ClusterCapacityNeeds) -> None:
        self._count += 1
        self._last = rollup

    def collect(self) -> Iterable[Metric]:
        name = "bigfleet_operator_rollups_sent_total"
        yield CounterMetricFamily(name, "Roll-ups that were really written to the stream.", self._count)
        demand = GaugeMetricFamily(
            "bigfleet_operator_sent_demand",
            "What the last of them asked for.",
            labels=("resource", "priority_class", "kind"),
        )
        totals: Counter[tuple[str, str, str]] = Counter()
        for need in self._last.needs if self._last is not None else ():
            for resource, milli in parse_vector(need.aggregate_resources).items():
                totals[resource, priority_class(need.priority), _kind_of(need)] += milli
        for labels, milli in sorted(totals.items()):
            demand.add_metric(labels, milli / _MILLI)
        yield demand
        if self._last is not None:
            text = "Of the profiles, min_units and gangs of the last roll-up."
            yield GaugeMetricFamily("bigfleet_operator_sent_needs_checksum", text, checksum(self._last.needs))


def _kind_of(need: CapacityNeed) -> str:
    return "gang" if need.group else "spread" if need.spread else "plain"


def _fingerprint(need: CapacityNeed) -> str:
    """Of what was really sent (docs/reference/engine.md#fingerprint)."""
    reqs = ";".join(f"{one.key}:{one.operator}:{','.join(one.values)}" for one in need.requirements)
    spread = ";".join(f"{one.topology_key}:{one.max_skew}:{one.when_unsatisfiable}" for one in need.spread)
    penalties = f"ipb={need.interruption_penalty_bucket}|rpb={need.reclamation_penalty_bucket}"
    return f"p={need.priority}|{penalties}|reqs={reqs}|spr={spread}"


def _unit(need: CapacityNeed) -> str:
    return ",".join(f"{name}={milli}" for name, milli in sorted(parse_vector(need.min_unit).items()))
