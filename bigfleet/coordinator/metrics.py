"""The coordinator's series (docs/reference/engine.md#metrics), all present from the start."""

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge

from bigfleet.coordinator.store import APPLY_OUTCOMES


class Metrics:
    """Instruments of one coordinator."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.raft_term = Gauge("bigfleet_coordinator_raft_term", "Raft term of our etcd member.", registry=registry)
        self.is_leader = Gauge("bigfleet_coordinator_is_leader", "1 while this coordinator leads.", registry=registry)
        self.applied = Counter(
            "bigfleet_coordinator_apply_total",
            "Commands to the replicated state: applied, not applied (error), or refused by the state (fsm_error).",
            ["outcome"],
            registry=registry,
        )
        for outcome in APPLY_OUTCOMES:
            self.applied.labels(outcome)
        self.pending_instructions = Gauge(
            "bigfleet_coordinator_pending_instructions",
            "Instructions that a shard has not acknowledged.",
            ["shard"],
            registry=registry,
        )
        self.shard_reports = Counter(
            "bigfleet_coordinator_shard_reports_total",
            "Reports of a shard that were taken in.",
            ["shard"],
            registry=registry,
        )
        self.malformed = Counter(
            "bigfleet_coordinator_malformed_total",
            "Requests that could not be read, or were too large.",
            ["method"],
            registry=registry,
        )

    def refuse_malformed(self, method: str, _code: grpc.StatusCode) -> None:
        self.malformed.labels(method).inc()
