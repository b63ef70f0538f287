"""How long Pods wait for a node: from their first sight until kube-scheduler has bound them."""

import time
from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, Histogram

from bigfleet.process.daemon import exponential_buckets
from scaletest.cluster.witness.seen import SeenPod

# Every power of two from 50 ms to 1638.4 s, and the points half-way between them.
BUCKETS = exponential_buckets(0.05, 2**0.5, 31)


def created_at(timestamp: str) -> float:
    """A creationTimestamp in Unix seconds; Kubernetes cuts it to whole ones."""
    return datetime.fromisoformat(timestamp).timestamp()


def waiting_since(first_sight: float, created: float) -> float:
    """When a Pod began to wait: its first sight, as far as the second that its creationTimestamp names allows."""
    return min(max(first_sight, created), created + 0.999)


class BindLatency:
    """Follows Pods; the steady histogram is armed by the soak's start."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._waiting: dict[str, float] = {}
        self._soak_start: float | None = None
        self._all = Histogram(
            "bigfleet_scaletest_pod_bind_latency_seconds",
            "From a Pod's first sight until it was bound.",
            buckets=BUCKETS,
            registry=registry,
        )
        self._steady = Histogram(
            "bigfleet_scaletest_pod_bind_latency_steady_seconds",
            "The same, of Pods that appeared after the soak's start.",
            buckets=BUCKETS,
            registry=registry,
        )
        self._steady_max = Gauge(
            "bigfleet_scaletest_pod_bind_latency_steady_max_seconds",
            "The longest of them so far.",
            registry=registry,
        )
        self._longest = 0.0

    def arm(self, soak_start: float) -> None:
        """From now on, Pods that appeared after `soak_start` (Unix seconds) count as steady."""
        self._soak_start = soak_start

    def on_change(self, old: SeenPod | None, new: SeenPod | None) -> None:
        if old and (new is None or new.uid != old.uid):
            self._waiting.pop(old.uid, None)
        if new is None:
            return
        if not new.node:
            self._waiting.setdefault(new.uid, waiting_since(self._clock(), new.created))
        elif (since := self._waiting.pop(new.uid, None)) is not None:
            self._observe(since, max(0.0, self._clock() - since))

    def _observe(self, since: float, seconds: float) -> None:
        self._all.observe(seconds)
        if self._soak_start is None or since < self._soak_start:
            return
        self._steady.observe(seconds)
        self._longest = max(self._longest, seconds)
        self._steady_max.set(self._longest)
