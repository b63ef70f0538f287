"""A Pod's wait begins at its first sight, within the second that its creationTimestamp names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from scaletest.cluster.load.bind_latency import BUCKETS, BindLatency, created_at, waiting_since
from scaletest.cluster.witness.seen import SeenPod

ALL = "bigfleet_scaletest_pod_bind_latency_seconds"
STEADY = "bigfleet_scaletest_pod_bind_latency_steady_seconds"


class Watched:
    """A BindLatency whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.registry = CollectorRegistry()
        self.latency = BindLatency(self.registry, clock=lambda: self.now)

    def read(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


def pod(uid: str, created: float, *, bound: bool) -> SeenPod:
    return SeenPod("", uid, "", "n1" if bound else "", created=created)


def test_a_creation_timestamp_is_read_as_unix_seconds() -> None:
    assert created_at("1970-01-01T00:01:40Z") == 100.0


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_wait_begins_within_the_second_of_creation(first_sight: float, created: float) -> None:
    assert created <= waiting_since(first_sight, created) < created + 1


def test_a_pod_is_measured_when_it_gets_a_node() -> None:
    watched = Watched()
    waiting, bound = pod("a", 1000, bound=False), pod("a", 1000, bound=True)
    watched.now = 1000.4
    watched.latency.on_change(None, waiting)
    watched.now = 1003.0
    watched.latency.on_change(waiting, bound)
    watched.latency.on_change(bound, bound)
    assert watched.read(f"{ALL}_count") == 1
    assert watched.read(f"{ALL}_sum") == pytest.approx(2.6)


def test_a_pod_seen_only_after_it_was_bound_is_not_measured() -> None:
    watched = Watched()
    watched.latency.on_change(None, pod("a", 900, bound=True))
    assert watched.read(f"{ALL}_count") == 0


def test_only_pods_that_appear_after_the_soak_began_are_steady() -> None:
    watched = Watched()
    early, late, longest = (pod(uid, created, bound=False) for uid, created in (("a", 1000), ("b", 1010), ("c", 1011)))
    watched.latency.on_change(None, early)
    watched.latency.arm(1005.0)
    watched.now = 1010.5
    watched.latency.on_change(None, late)
    watched.now = 1011.5
    watched.latency.on_change(None, longest)
    for waiting, now in ((early, 1012.0), (late, 1012.5), (longest, 1020.5)):
        watched.now = now
        watched.latency.on_change(waiting, replace(waiting, node="n1"))
    assert watched.read(f"{ALL}_count") == 3
    assert watched.read(f"{STEADY}_count") == 2
    assert watched.read("bigfleet_scaletest_pod_bind_latency_steady_max_seconds") == 9.0


def test_a_stateful_pod_that_comes_back_under_its_name_waits_anew() -> None:
    watched = Watched()
    old, new = pod("a", 1000, bound=False), pod("b", 1008, bound=False)
    watched.latency.on_change(None, old)
    watched.now = 1008.5
    watched.latency.on_change(old, new)
    watched.now = 1010.0
    watched.latency.on_change(new, replace(new, node="n1"))
    assert watched.read(f"{ALL}_sum") == pytest.approx(1.5)


def test_a_pod_that_leaves_unbound_is_forgotten() -> None:
    watched = Watched()
    waiting = pod("a", 1000, bound=False)
    watched.latency.on_change(None, waiting)
    watched.latency.on_change(waiting, None)
    watched.latency.on_change(None, replace(waiting, node="n1"))
    assert watched.read(f"{ALL}_count") == 0


def test_the_buckets_hold_upstreams_edges_and_reach_past_1600_seconds() -> None:
    assert BUCKETS[-1] == pytest.approx(1638.4)
    for power in range(16):
        assert any(bound == pytest.approx(0.05 * 2**power) for bound in BUCKETS)
