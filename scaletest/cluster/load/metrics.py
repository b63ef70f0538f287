"""What the load-driver counts, under upstream's names; every series exists from the start."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge

_ERRORS = ("create", "delete", "bind")
_PHASES = ("ramp", "steady")


class LoadMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"scaletest_loadgen_{name}", text, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"scaletest_loadgen_{name}", text, registry=registry)

        self.created = counter("cr_created", "Deployments and StatefulSets created.")
        self.deleted = counter("cr_deleted", "Workload objects deleted, and Pods deleted by churn and age.")
        self.active = gauge("cr_active", "CapacityRequests alive in the cluster.")
        self.target = gauge("cr_target", "Pods demanded now: the sum of all replicas.")
        self.pre_bound = counter("prebound", "Pods of the first fill that this driver bound itself (BF-0035).")
        self.anchors = counter("anchors_bound", "Pods of gangs that this driver bound itself (BF-0025).")
        self.happened = counter("demand_changes", "Bursts, sheds and steps whose time has come.")
        self.errors = Counter("scaletest_loadgen_errors", "Requests that failed.", ["kind"], registry=registry)
        for kind in _ERRORS:
            self.errors.labels(kind)
        self._steady = gauge("steady_state", "Whether the demand is built and its first fill bound.")
        self._started = Gauge(
            "scaletest_loadgen_phase_started_at_seconds",
            "When a phase began, in Unix seconds; 0 before it.",
            ["phase"],
            registry=registry,
        )
        for phase in _PHASES:
            self._started.labels(phase)

    def enter(self, phase: str) -> None:
        self._started.labels(phase).set(time.time())
        self._steady.set(phase == "steady")
