"""The bench of the demand side says what it did not see, and when its bar is missed."""

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from tests.bench.cluster.demand import OURS, cpu_shares, p99
from tests.bench.measuring.processes import Snapshot, Usage


def exposition(*seconds: float) -> str:
    registry = CollectorRegistry()
    histogram = Histogram("wait_seconds", "A wait.", buckets=(0.1, 1.0), registry=registry)
    for one in seconds:
        histogram.observe(one)
    return generate_latest(registry).decode()


def test_a_quantile_is_the_edge_of_its_bucket() -> None:
    assert p99(exposition(0.05, 0.5), "wait_seconds") == 1.0


@pytest.mark.parametrize("seconds", [(), (7.0,)], ids=["nothing was observed", "beyond the last bucket"])
def test_a_quantile_that_nobody_knows_is_none(seconds: tuple[float, ...]) -> None:
    assert p99(exposition(*seconds), "wait_seconds") is None


@pytest.mark.parametrize(("each", "met"), [(1.0, True), (2.0, False)])
def test_our_processes_together_are_judged_beside_the_apiserver(each: float, met: bool) -> None:
    programs = {name: Usage(cpu_seconds=each) for name in OURS}
    shares = cpu_shares(Snapshot(programs | {"kube-apiserver": Usage(cpu_seconds=10.0), "etcd": Usage(cpu_seconds=99)}))
    assert shares["ours_to_apiserver"] == {"value": each * 0.6, "bar": 1.0, "ratio": each * 0.6, "met": met}
