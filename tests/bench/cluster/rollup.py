"""The operator's roll-up at 25,000 CapacityRequests of the realistic catalog, against its bar.

`python -m tests.bench.cluster.rollup [REQUESTS …]`. Timed is what `bigfleet_operator_rollup_duration_seconds` times:
the demand, who waits for an acknowledgement, the message. What a change costs when it comes in, and the bytes when they
go out, is shown beside it.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from random import Random

import msgspec
from prometheus_client import CollectorRegistry, Counter

from bigfleet.api.v1alpha1.capacity_pb2 import ClusterCapacityNeeds
from bigfleet.operator.requests import CapacityRequest, Requests, Status
from bigfleet.operator.rollup import rollup
from scaletest.cluster.load.demand_without_pods import request_of
from scaletest.cluster.workloads.manifests import NAMESPACE
from scaletest.model.demand.draw import cluster_id, draw_demand
from scaletest.model.files.reading import read_profile
from tests.bench.measuring.report import against, emit, verdict

BAR_MS = 20.0
_REQUESTS = 25_000
_TURNS = 15
_ROUNDS = 3
_CHURN = 0.02


class Operator:
    """What an operator knows of its cluster's requests."""

    def __init__(self, requests: list[CapacityRequest]) -> None:
        self._all = requests
        self._known = Requests(Counter("skipped", "Left out.", registry=CollectorRegistry()))
        began = time.perf_counter()
        for request in requests:
            self._known.on_change(None, request)
        self.first_change_us = 1e6 * (time.perf_counter() - began) / len(requests)
        self.change_us = 0.0

    def roll_up(self) -> tuple[ClusterCapacityNeeds, int]:
        """The demand, and how many requests do not know yet that they are in it."""
        needs, waiting = self._known.needs(), self._known.unacknowledged()
        return rollup(cluster_id(0), needs, time.time_ns()), len(waiting)

    def acknowledge_all(self) -> None:
        for request in self._all:
            self._known.on_change(request, msgspec.structs.replace(request, status=Status("Acknowledged")))

    def churn(self, turn: int) -> None:
        """So many requests leave and come again, as new ones."""
        chosen = Random(turn).sample(self._all, round(_CHURN * len(self._all)))
        began = time.perf_counter()
        for request in chosen:
            self._known.on_change(request, None)
            self._known.on_change(None, request)
        self.change_us = 1e6 * (time.perf_counter() - began) / (2 * len(chosen))


def measure(count: int) -> None:
    requests = list(_drawn(count))
    firsts = []
    for _ in range(_ROUNDS):
        operator = Operator(requests)
        firsts.append(_timed(operator.roll_up))
    operator.acknowledge_all()
    message, _ = operator.roll_up()
    began = time.perf_counter()
    size = len(message.SerializeToString())
    encoded = 1e3 * (time.perf_counter() - began)
    emit(
        "rollup",
        capacity_requests=len(requests),
        rows=len(message.needs),
        wire_bytes=size,
        encode_ms=round(encoded, 2),
        first_ms=against(min(firsts), BAR_MS),
        steady_ms=against(_median_of(operator.roll_up), BAR_MS),
        churn_2_percent_ms=against(_median_of(operator.roll_up, operator.churn), BAR_MS),
        first_change_us=round(operator.first_change_us, 2),
        change_us=round(operator.change_us, 2),
    )


def _drawn(count: int) -> Iterator[CapacityRequest]:
    _, catalog, _ = read_profile("5k")
    for workload in draw_demand(catalog.demand, count, seed=1, ordinal=0).workloads():
        for number in range(workload.replicas):
            request = request_of(workload, number)
            request["metadata"]["namespace"] = NAMESPACE
            yield msgspec.json.decode(msgspec.json.encode(request), type=CapacityRequest)


def _median_of(roll_up: Callable[[], object], before: Callable[[int], None] = lambda _: None) -> float:
    """Milliseconds: the best of a few medians."""

    def one(turn: int) -> float:
        before(turn)
        return _timed(roll_up)

    return min(statistics.median(one(turn) for turn in range(_TURNS)) for _ in range(_ROUNDS))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - began)


if __name__ == "__main__":
    for number in map(int, sys.argv[1:] or (_REQUESTS,)):
        measure(number)
    sys.exit(verdict())
