"""What the shard says of each cluster by itself: demand that the engine holds, machines, roll-ups, sessions."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from bigfleet.core.priority import OTHER, PRIORITY_CLASSES
from bigfleet.core.vectors import ReadVector
from bigfleet.engine.columns.blocks import Block
from bigfleet.shard.inventory.inventory import Inventory

# Prometheus must be able to keep what a shard shows: so many clusters have series of their own, those that came first …
MAX_CLUSTERS = 2_000
# … and so many resources of each cluster have a name, those that came first; the others are added up as `other`.
MAX_RESOURCES = 8

# The order of Claims' codes: class by class from the lowest, three kinds each.
_CLASSES = (OTHER, *(label for _, label in reversed(PRIORITY_CLASSES)))
_CLASS_BOUNDS = np.array([least for least, _ in reversed(PRIORITY_CLASSES)], np.int64)
_PLAIN, _SPREAD, _GANG = range(3)
_KINDS = ("plain", "spread", "gang")

# Clusters that are looked at before the event loop gets its turn.
_BATCH = 20
_MILLI = 1000

# (resource, priority class, kind)
_Sort = tuple[str, str, str]


@dataclass(slots=True)
class _Claim:
    """What is shown of one cluster. Its mappings are replaced, never changed: another thread may be reading them."""

    rollups: int = 0
    sessions: int = 0
    machines: int = 0
    dollars_per_hour: float = 0.0
    unanswered_seconds: float = 0.0
    allocatable: Mapping[str, float] = field(default_factory=dict)
    demand: Mapping[_Sort, float] = field(default_factory=dict)
    # The change of the cluster's needs that `demand` is from.
    needs_changed: int = -1
    # Resources that have a name.
    named: set[str] = field(default_factory=set)

    def label(self, resource: str) -> str:
        if resource not in self.named:
            if len(self.named) >= MAX_RESOURCES:
                return OTHER
            self.named.add(resource)
        return resource

    def show_allocatable(self, allocatable: ReadVector) -> None:
        amounts: dict[str, float] = {}
        for name, milli in sorted(allocatable.items()):
            label = self.label(name)
            amounts[label] = amounts.get(label, 0.0) + milli / _MILLI
        self.allocatable = amounts

    def show_demand(self, block: Block | None) -> None:
        """What was shown before and is no longer asked for stays, at 0."""
        demand = dict.fromkeys(self.demand, 0.0)
        for name, code, amount in sorted(_totals(block)) if block else ():
            sort = self.label(name), _CLASSES[code // len(_KINDS)], _KINDS[code % len(_KINDS)]
            demand[sort] = demand.get(sort, 0.0) + amount
        self.demand = demand


def _totals(block: Block) -> Iterator[tuple[str, int, float]]:
    """(resource, code of class and kind, amount) of all that a block asks for."""
    sent = block.sent()
    classes = np.searchsorted(_CLASS_BOUNDS, sent.priorities, side="right")
    codes = classes * len(_KINDS) + np.where(sent.gangs, _GANG, np.where(sent.spread, _SPREAD, _PLAIN))
    for column, name in enumerate(sent.names):
        sums = np.bincount(codes, sent.amounts[:, column])
        for code in np.flatnonzero(sums).tolist():
            yield name, code, float(sums[code]) / _MILLI


class ClusterClaims:
    """Series by cluster, each from the first word on that cluster. `refresh` before they are read."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._claims: dict[str, _Claim] = {}
        self._not_shown: set[str] = set()
        registry.register(self)

    def session_installed(self, cluster: str) -> None:
        if claim := self._of(cluster):
            claim.sessions += 1

    def rollup_accepted(self, cluster: str) -> None:
        if claim := self._of(cluster):
            claim.rollups += 1

    async def refresh(self, inventory: Inventory, unanswered_seconds: Mapping[str, float]) -> None:
        """Take over what changed; a few clusters at a time, because the event loop has others to serve."""
        for cluster, claim in self._claims.items():
            claim.unanswered_seconds = unanswered_seconds.get(cluster, 0.0)
        for done, _ in enumerate(self.changes(inventory), 1):
            if done % _BATCH == 0:
                await asyncio.sleep(0)

    def changes(self, inventory: Inventory) -> Iterator[str]:
        """Take over what changed; which clusters did, one by one.

        Of demand the engine's fleet is asked, not the needs table: what never got there, the engine does not hold.
        """
        holdings, fleet = inventory.holdings, inventory.machines.fleet
        while holdings.changed:
            cluster = holdings.changed.pop()
            if claim := self._of(cluster):
                holding = holdings.by_cluster[cluster]
                claim.machines, claim.dollars_per_hour = holding.machines, holding.dollars_per_hour
                claim.show_allocatable(holding.allocatable)
                yield cluster
        # A cluster that never had needs has no change of them.
        for number in np.flatnonzero(fleet.needs_changed).tolist():
            cluster, changed = fleet.clusters.texts[number], int(fleet.needs_changed[number])
            claim = self._of(cluster)
            if claim and claim.needs_changed != changed:
                claim.show_demand(fleet.blocks.get(number))
                claim.needs_changed = changed
                yield cluster

    def _of(self, cluster: str) -> _Claim | None:
        """None for a cluster beyond those that are shown."""
        claim = self._claims.get(cluster)
        if claim is None:
            if len(self._claims) >= MAX_CLUSTERS:
                self._not_shown.add(cluster)
                return None
            claim = self._claims[cluster] = _Claim()
        return claim

    def collect(self) -> Iterable[Metric]:
        """May be called from another thread than the rest."""
        claims = list(self._claims.items())
        demand = _gauge("demand", "Demand that the engine holds.", "resource", "priority_class", "kind")
        machines = _gauge("machines", "Configured machines.")
        allocatable = _gauge("allocatable", "What the Configured machines offer.", "resource")
        price = _gauge("price_per_hour", "Dollars per hour for the Configured machines.")
        rollups = _counter("rollups", "Roll-ups that were accepted, whether they said anything new or not.")
        sessions = _counter("sessions", "Sessions that were installed; a redial is another one.")
        unanswered = _gauge("unanswered_seconds", "Age of the oldest request for a bootstrap blob without an answer.")
        for cluster, claim in claims:
            for sort, amount in claim.demand.items():
                demand.add_metric((cluster, *sort), amount)
            machines.add_metric((cluster,), claim.machines)
            for resource, amount in claim.allocatable.items():
                allocatable.add_metric((cluster, resource), amount)
            price.add_metric((cluster,), claim.dollars_per_hour)
            rollups.add_metric((cluster,), claim.rollups)
            sessions.add_metric((cluster,), claim.sessions)
            unanswered.add_metric((cluster,), claim.unanswered_seconds)
        yield from (demand, machines, allocatable, price, rollups, sessions, unanswered)
        name = "bigfleet_shard_clusters_not_shown"
        yield GaugeMetricFamily(name, "Clusters without series of their own: too many.", len(self._not_shown))


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"bigfleet_shard_cluster_{name}", text, labels=("cluster", *labels))


def _counter(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"bigfleet_shard_cluster_{name}", text, labels=("cluster",))
