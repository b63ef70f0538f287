"""Reading Prometheus text, and reducing a control plane's thousands of series to the forty that a run needs.

Each `reduce_…` takes what a process exposes and gives native names back; of an empty text it makes zeros, so that
every series exists before the process does.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)

from bigfleet.kube.resources import BIGFLEET_GROUP

ATTEMPTS = "scheduler_schedule_attempts_total"
PENDING = "scheduler_pending_pods"
SLI = "scheduler_pod_scheduling_sli_duration_seconds"
REQUESTS = "apiserver_request_total"
LATENCY = "apiserver_request_duration_seconds"
DB_SIZE = "etcd_mvcc_db_total_size_in_bytes"

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MUTATING = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})
# Writes, and the LISTs that betray broken watches.
_COUNTED_VERBS = _MUTATING | {"LIST"}
# Some of the apiserver's own bounds, close together around the self-check's bar of 2 s.
_LATENCY_BOUNDS = ("0.05", "0.1", "0.2", "0.4", "1", "2", "4", "10", "30", "60", "+Inf")
_RESULTS = [(result, "default-scheduler") for result in ("scheduled", "unschedulable", "error")]
_QUEUES = [(queue,) for queue in ("active", "backoff", "gated", "unschedulable")]
_BINDING = ("pods", "binding", "POST", "2xx")

Totals = dict[tuple[str, ...], float]


@dataclass(frozen=True)
class MetricSample:
    """One line of an exposition."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_samples(text: str, *names: str) -> Iterator[MetricSample]:
    """The samples of these names, and of no other, one at a time: an apiserver's would be megabytes together."""
    # One search through the whole text: thousands of lines are of no interest, and need not become strings.
    for line in _lines_of(names).finditer(text):
        name, labels, value = line.groups(default="")
        yield MetricSample(name, dict(_LABEL.findall(labels)), float(value))


@cache
def _lines_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"^({'|'.join(map(re.escape, names))})(?:{{(.*)}})? (\S+)$", re.MULTILINE)


def reduce_scheduler(text: str) -> list[Metric]:
    """Attempts by result, Pods in each queue, and the time that Pods take from first attempt to bound."""
    attempts, pending = _zeros(_RESULTS), _zeros(_QUEUES)
    seconds = count = 0.0
    for sample in read_samples(text, ATTEMPTS, PENDING, f"{SLI}_sum", f"{SLI}_count"):
        if sample.name == ATTEMPTS:
            attempts[sample.labels["result"], sample.labels["profile"]] += sample.value
        elif sample.name == PENDING:
            pending[(sample.labels["queue"],)] += sample.value
        elif sample.name == f"{SLI}_sum":
            seconds += sample.value
        else:
            count += sample.value
    sli = SummaryMetricFamily(
        SLI,
        "Time from a Pod's first scheduling attempt until it was bound.",
        count_value=int(count),
        sum_value=seconds,
    )
    return [
        _counter(ATTEMPTS, "Attempts to schedule a Pod.", ("result", "profile"), attempts),
        _gauge(PENDING, "Pods in the scheduler's queues.", ("queue",), pending),
        sli,
    ]


def reduce_apiserver(text: str) -> list[Metric]:
    """Writes and LISTs of Pods and of BigFleet's kinds; one latency histogram over all writes."""
    requests, buckets = _zeros([_BINDING]), _zeros([(bound,) for bound in _LATENCY_BOUNDS])
    seconds = 0.0
    for sample in read_samples(text, REQUESTS, f"{LATENCY}_bucket", f"{LATENCY}_sum"):
        if sample.name == REQUESTS:
            if key := _request_key(sample.labels):
                requests[key] += sample.value
        elif sample.labels["verb"] in _MUTATING:
            if sample.name == f"{LATENCY}_sum":
                seconds += sample.value
            elif (bound := (sample.labels["le"],)) in buckets:
                buckets[bound] += sample.value
    latency = HistogramMetricFamily(LATENCY, "Time to answer a mutating request.", labels=["verb"])
    latency.add_metric(["MUTATING"], [(bound, buckets[(bound,)]) for bound in _LATENCY_BOUNDS], seconds)
    help_text = "Requests for Pods and, as one resource, for BigFleet's kinds; codes by class."
    return [_counter(REQUESTS, help_text, ("resource", "subresource", "verb", "code"), requests), latency]


def _request_key(labels: Mapping[str, str]) -> tuple[str, ...] | None:
    if labels["verb"] not in _COUNTED_VERBS:
        return None
    code = f"{labels['code'][0]}xx"
    if labels["group"] == BIGFLEET_GROUP:
        return BIGFLEET_GROUP, "", labels["verb"], code
    if labels["group"] == "" and labels["resource"] == "pods":
        # Bindings stand alone, to be compared with what the scheduler says that it bound.
        return "pods", "binding" if labels["subresource"] == "binding" else "", labels["verb"], code
    return None


def reduce_etcd(text: str) -> list[Metric]:
    size = sum(sample.value for sample in read_samples(text, DB_SIZE))
    return [GaugeMetricFamily(DB_SIZE, "Size of etcd's database file.", value=size)]


def _zeros(keys: Iterable[tuple[str, ...]]) -> Totals:
    return defaultdict(float, dict.fromkeys(keys, 0.0))


def _counter(name: str, text: str, labels: tuple[str, ...], totals: Totals) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in totals.items():
        family.add_metric(key, value)
    return family


def _gauge(name: str, text: str, labels: tuple[str, ...], totals: Totals) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in totals.items():
        family.add_metric(key, value)
    return family
