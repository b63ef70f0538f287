"""The witness's figures as Prometheus reads them: amounts in base units, ages as of the scrape."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bigfleet.process.watermarks import EDGES, Watermarks
from scaletest.cluster.witness.auditor import Witness

_PREFIX = "scaletest_witness"
_DEMAND_LABELS = ("resource", "priority_class", "kind")


class Figures(Collector):
    """Silent until the witness has seen everything once: half of a list is no evidence."""

    def __init__(self, witness: Witness, pods_due: Callable[[], int], ready: Callable[[], bool]) -> None:
        self._witness = witness
        self._pods_due = pods_due
        self._ready = ready

    def collect(self) -> Iterator[Metric]:
        if not self._ready():
            return
        yield from self._demand()
        yield from self._coverage()
        yield from self._acknowledgements()
        if not self._witness.without_pods:
            yield from self._pairs()
        if self._witness.held.is_fresh:
            yield from self._needs()
        blind = self._witness.sight.blind_seconds
        yield CounterMetricFamily(
            f"{_PREFIX}_blind_seconds", "Time during which this process did not run.", value=blind
        )

    def _demand(self) -> Iterator[Metric]:
        witness, living = self._witness, self._witness.living
        text = "What living Pods ask for, by the draw; lowest and highest of the last 10 s."
        yield _edges("demand", text, living.demand.items(), _DEMAND_LABELS, milli=True)
        text = "The largest single Pod of the whole course in each part of the demand."
        largest = GaugeMetricFamily(f"{_PREFIX}_largest_pod", text, labels=_DEMAND_LABELS)
        for combination, milli in living.largest.items():
            largest.add_metric(combination, milli / 1000)
        yield largest
        if not witness.without_pods:
            yield _edges("pods", "Living Pods of the demand.", [((), living.count)])
        yield _edges("requests", "CapacityRequests alive in the cluster.", [((), witness.requests)])
        yield _gauge("pods_due", "Pods that the course wants now.", self._pods_due())

    def _coverage(self) -> Iterator[Metric]:
        witness = self._witness
        witness.uncovered.look()
        offered = (((name,), figure) for name, figure in witness.offer.allocatable.items())
        yield _edges("allocatable", "What Ready Nodes offer.", offered, ("resource",), milli=True)
        text = "What living Pods ask for beyond the Ready Nodes that they may be on, and those that went within 30 s."
        uncovered = GaugeMetricFamily(f"{_PREFIX}_uncovered", text, labels=("resource",))
        for name, milli in witness.uncovered.amounts.items():
            uncovered.add_metric((name,), milli / 1000)
        yield uncovered
        yield _gauge("uncovered_seconds", "For how long that has been so; 0: covered.", witness.uncovered.seconds)
        if not witness.without_pods:
            witness.lacking.look()
            text = "Pending Pods that the Ready Nodes could not take, were they empty"
            yield from _waiting("pods_lacking_capacity", text, witness.lacking.count, witness.lacking.oldest_seconds)

    def _acknowledgements(self) -> Iterator[Metric]:
        waiting, now = self._witness.acknowledgements.waiting, self._witness.sight.now()
        text = "CapacityRequests that are not acknowledged"
        yield from _waiting("requests_unacknowledged", text, len(waiting), waiting.oldest_seconds(now))
        text = "CapacityRequests that were acknowledged."
        answered = self._witness.acknowledgements.answered
        yield CounterMetricFamily(f"{_PREFIX}_requests_acknowledged", text, value=answered)
        text = "How often a CapacityRequest was acknowledged that had been before."
        again = self._witness.acknowledgements.again
        yield CounterMetricFamily(f"{_PREFIX}_requests_acknowledged_again", text, value=again)

    def _pairs(self) -> Iterator[Metric]:
        pairs, now = self._witness.pairs, self._witness.sight.now()
        for name, text, alone in (
            ("pods_without_request", "Living Pods without a CapacityRequest", pairs.pods_alone),
            ("requests_without_pod", "CapacityRequests without a living Pod of their own", pairs.requests_alone),
        ):
            yield from _waiting(name, text, len(alone), alone.oldest_seconds(now))
        text = "CapacityRequests that say something else than the draw does of their Pod."
        wrong = CounterMetricFamily(f"{_PREFIX}_requests_wrong", text, labels=("field",))
        for field, count in pairs.wrong.items():
            wrong.add_metric((field,), count)
        yield wrong

    def _needs(self) -> Iterator[Metric]:
        held = self._witness.held
        text = "Rows of the shard's engine that are not what the draw says, in several looks in a row."
        wrong = GaugeMetricFamily(f"{_PREFIX}_needs_wrong", text, labels=("field",))
        for field, count in held.wrong().items():
            wrong.add_metric((field,), count)
        yield wrong
        text = "Of the rows that an operator should send for what lives now; as its own checksum of what it has sent."
        yield _gauge("needs_checksum", text, held.checksum())


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)


def _waiting(name: str, text: str, count: int, oldest_seconds: float) -> Iterable[GaugeMetricFamily]:
    yield _gauge(name, f"{text}.", count)
    yield _gauge(f"{name}_oldest_seconds", f"{text}: for how long the first of them has been one.", oldest_seconds)


def _edges(
    name: str,
    text: str,
    figures: Iterable[tuple[tuple[str, ...], Watermarks]],
    labels: Sequence[str] = (),
    *,
    milli: bool = False,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=(*labels, "edge"))
    for values, figure in figures:
        for edge in EDGES:
            family.add_metric((*values, edge), getattr(figure, edge) / (1000 if milli else 1))
    return family
