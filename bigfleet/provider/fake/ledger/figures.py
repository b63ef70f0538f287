"""The ledger's metrics: counters as things happen, the rest read off the books at each scrape."""

from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bigfleet.process.naming import named
from bigfleet.process.watermarks import Watermarks
from bigfleet.provider.fake.ledger.book import Book
from bigfleet.provider.fake.ledger.calls import MUTATING, Calls
from bigfleet.provider.fake.ledger.idling import BEFORE_DELETE_SECONDS, RETURNABLE, Idling
from bigfleet.provider.fake.ledger.replacement import Replacement
from bigfleet.provider.fake.ledger.shapes import NANODOLLARS
from bigfleet.provider.fake.ledger.unused import Unused

RULES = (
    "configured_before_ready",
    "blob_wrong",
    "node_vanished",
    "two_owners",
    "fence_broken",
    "shape_told_wrong",
    "bought_needlessly",
    "left_out_of_list",
    "stamp_wrong",
)
_PREFIX = "bigfleet_provider_ledger"
_MILLI = 1000
_LIST_SECONDS = (0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 3, 5, 7, 10, 15, 30, 60)
# Around the bar of 30 s as fine as a quantile needs it.
_REPLACEMENT_SECONDS = (0.5, 1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 120, 300)


class Books(Protocol):
    """What the figures are read off."""

    book: Book
    calls: Calls
    replacements: dict[str, Replacement]
    zones: Counted[str]
    instance_types: Counted[str]
    idling: Idling
    unused: Unused

    def now(self) -> float: ...


class LedgerFigures(Collector):
    """Every series exists from the start, or from the first word of or about its cluster on."""

    def __init__(self, registry: CollectorRegistry, books: Books) -> None:
        self._books = books
        self.calls = Counter(f"{_PREFIX}_calls_total", "Mutating calls answered.", ["call", "code"], registry=registry)
        for call in MUTATING:
            self.calls.labels(call, "OK")
        self.configures = Counter(
            f"{_PREFIX}_configures_total", "Of those: Configures that were accepted.", ["cluster"], registry=registry
        )
        self.list_seconds = Histogram(
            f"{_PREFIX}_list_seconds",
            "A page of List, as long as its caller waits.",
            buckets=_LIST_SECONDS,
            registry=registry,
        )
        self.violations = Counter(
            f"{_PREFIX}_violations_total", "Rules that BigFleet or the kit broke.", ["rule"], registry=registry
        )
        for rule in RULES:
            self.violations.labels(rule)
        self.losses = Counter(
            f"{_PREFIX}_losses_total", "Machines in service that were struck.", ["cluster"], registry=registry
        )
        self.drains = Counter(
            f"{_PREFIX}_drains_carried_out_total",
            "Drains that the provider really began, whatever it told.",
            registry=registry,
        )
        self.replacement = Histogram(
            f"{_PREFIX}_replacement_seconds",
            "From a machine's strike until another machine's Node was Ready in its cluster, oldest loss first.",
            ["cluster"],
            buckets=_REPLACEMENT_SECONDS,
            registry=registry,
        )
        self.before_delete = Histogram(
            f"{_PREFIX}_idle_before_delete_seconds",
            "How long a machine had stood idle when it was given back.",
            ["capacity_type"],
            buckets=BEFORE_DELETE_SECONDS,
            registry=registry,
        )
        for kind in RETURNABLE:
            self.before_delete.labels(kind.label)
        self.drain_grace = Histogram(
            f"{_PREFIX}_drain_grace_seconds",
            "How long a Drain that was accepted may take, as the shard asks for it.",
            buckets=(1, 5, 10, 30, 120, 600),
            registry=registry,
        )
        registry.register(self)

    def expect(self, cluster: str) -> None:
        self.configures.labels(cluster)
        self.losses.labels(cluster)
        self.replacement.labels(cluster)

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry need not collect to know our names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._there_are()
        yield from self._in_service()
        yield from self._idle()
        yield from self._losses()
        yield from self._waiting()

    def _there_are(self) -> Iterator[Metric]:
        machines = GaugeMetricFamily(f"{_PREFIX}_machines", "Machines, in whatever state.", labels=["zone"])
        for zone, count in self._books.zones.items():
            machines.add_metric([zone], count)
        yield machines
        name, text = f"{_PREFIX}_machines_of_type", "Machines, in whatever state."
        machines = GaugeMetricFamily(name, text, labels=["instance_type"])
        for instance_type, count in named(self._books.instance_types):
            machines.add_metric([instance_type], count)
        yield machines

    def _in_service(self) -> Iterator[Metric]:
        machines = _gauge("bound_machines", "Machines in service: given, joined, not struck or drained.", "edge")
        price = _gauge("bound_price_per_hour", "Dollars per hour of the machines in service.", "edge")
        allocatable = _gauge("bound_allocatable", "Allocatable of the machines in service.", "resource", "edge")
        for cluster, figures in self._books.book.clusters.items():
            _add(machines, (cluster,), figures.machines, 1)
            _add(price, (cluster,), figures.price, NANODOLLARS)
            for resource, marks in figures.allocatable.items():
                _add(allocatable, (cluster, resource), marks, _MILLI)
        yield from (machines, price, allocatable)

    def _idle(self) -> Iterator[Metric]:
        now, idling = self._books.now(), self._books.idling
        oldest, price = (
            GaugeMetricFamily(f"{_PREFIX}_idle_{name}", text, labels=["capacity_type"])
            for name, text in (
                ("oldest_seconds", "The age of the oldest idle machine that can be given back; 0: there is none."),
                ("price_per_hour", "Dollars per hour of the idle machines that can be given back."),
            )
        )
        for kind in RETURNABLE:
            oldest.add_metric([kind.label], idling.oldest_seconds(kind, now))
            price.add_metric([kind.label], idling.nanodollars_per_hour[kind] / NANODOLLARS)
        yield from (oldest, price)
        text = "Machines that were bought and given to no cluster."
        yield CounterMetricFamily(f"{_PREFIX}_bought_unused", text, value=self._books.unused.count)

    def _losses(self) -> Iterator[Metric]:
        now = self._books.now()
        unreplaced = _gauge("unreplaced", "Losses that no other machine has made good yet.")
        oldest = _gauge("unreplaced_oldest_seconds", "The age of the oldest of them; 0: there is none.")
        excused = CounterMetricFamily(
            f"{_PREFIX}_excused_losses",
            "Losses that a later drain showed to need no other machine.",
            labels=["cluster"],
        )
        for cluster, replacement in self._books.replacements.items():
            unreplaced.add_metric([cluster], replacement.unreplaced)
            oldest.add_metric([cluster], replacement.oldest_seconds(now))
            excused.add_metric([cluster], replacement.excused)
        yield from (unreplaced, oldest, excused)

    def _waiting(self) -> Iterator[Metric]:
        now = self._books.now()
        calls = GaugeMetricFamily(
            f"{_PREFIX}_oldest_seconds",
            "The age of the oldest accepted call whose end the shard has not been told yet.",
            labels=["call"],
        )
        for call in MUTATING:
            calls.add_metric([call], self._books.calls.oldest_seconds(call, now))
        nodes = _gauge(
            "waiting_for_node_oldest_seconds", "The age of the oldest Configure that waits for its Node to be Ready."
        )
        for cluster, seconds in self._books.book.waiting_seconds(now):
            nodes.add_metric([cluster], seconds)
        yield from (calls, nodes)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=["cluster", *labels])


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], marks: Watermarks, unit: int) -> None:
    for edge, value in (("lowest", marks.lowest), ("highest", marks.highest)):
        family.add_metric([*labels, edge], value / unit)
