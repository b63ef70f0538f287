"""What the operator measures (docs/reference/engine.md#metrics). Every series exists from the start."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.operator.sent import SentRollups
from bigfleet.process.daemon import exponential_buckets

ROLLUP_PHASES = ("list", "build", "enqueue")
NODE_PHASES = ("Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed")
# A session ends by us, by the shard, by the shard because of us, or because the connection broke.
SESSION_ENDERS = ("operator", "shard", "refusal", "connection")
WRITE_OPS = ("create", "spec_update", "status_update", "delete")
WRITE_OUTCOMES = ("success", "conflict", "error", "noop")


class OperatorMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        rollup_buckets = exponential_buckets(0.001, 2, 16)
        self.rollup = Histogram(
            "bigfleet_operator_rollup_duration_seconds",
            "One roll-up: list, aggregate, enqueue.",
            buckets=rollup_buckets,
            registry=registry,
        )
        self.rollup_phase = Histogram(
            "bigfleet_operator_rollup_phase_duration_seconds",
            "The parts of a roll-up.",
            ["phase"],
            buckets=rollup_buckets,
            registry=registry,
        )
        self.acknowledge = Histogram(
            "bigfleet_operator_acknowledge_duration_seconds",
            "One batch of CapacityRequests marked Acknowledged.",
            buckets=exponential_buckets(0.01, 2, 16),
            registry=registry,
        )
        self.acknowledged = Counter(
            "bigfleet_operator_acknowledged_total", "CapacityRequests marked Acknowledged.", registry=registry
        )
        self.requests_skipped = Counter(
            "bigfleet_operator_capacity_requests_skipped_total",
            "CapacityRequests left out of the roll-up because they cannot be expressed on the wire.",
            registry=registry,
        )
        self.session_connected = Gauge(
            "bigfleet_operator_session_connected", "1 while the shard has answered our Hello.", registry=registry
        )
        self.session_reconnects = Counter(
            "bigfleet_operator_session_reconnects_total", "Dials after the first one.", registry=registry
        )
        self.sessions_ended = Counter(
            "bigfleet_operator_sessions_ended_total",
            "Sessions that ended, by the side that did it.",
            ["by"],
            registry=registry,
        )
        self.outbox_dropped = Counter(
            "bigfleet_operator_outbox_dropped_total", "Messages that found the outbox full.", registry=registry
        )
        self.sent_rollups = SentRollups(registry)
        self.node_state_update = Histogram(
            "bigfleet_operator_node_state_update_duration_seconds",
            "From a NodeStateUpdate received to its UpcomingNode written.",
            ["phase"],
            buckets=exponential_buckets(0.001, 2, 17),
            registry=registry,
        )
        self.upcoming_node_writes = Counter(
            "bigfleet_operator_upcoming_node_writes_total",
            "Writes of UpcomingNodes.",
            ["op", "outcome"],
            registry=registry,
        )
        self.machines_announced = Counter(
            "bigfleet_operator_machines_announced_total",
            "Machines that the shard spoke of for the first time.",
            registry=registry,
        )
        self.records_not_as_told = Counter(
            "bigfleet_operator_records_not_as_told_total",
            "UpcomingNodes that, once written, said otherwise of their machine than the shard's frame.",
            registry=registry,
        )
        self.removed_in_service = Counter(
            "bigfleet_operator_removed_in_service_total",
            "Machines that the shard said have left although it last called them Configured.",
            registry=registry,
        )
        self.blob_requests = Counter(
            "bigfleet_operator_blob_requests_total",
            "Machines for which the shard asked for a bootstrap blob.",
            registry=registry,
        )
        self.drains = Counter(
            "bigfleet_operator_drains_total",
            "Machines that the shard asked to drain and that were announced here.",
            registry=registry,
        )
        self.untold_oldest = Gauge(
            "bigfleet_operator_untold_oldest_seconds",
            "Since when the shard has said nothing of a machine for which it asked for a bootstrap blob; 0: of none.",
            registry=registry,
        )
        self.drain_grace = Histogram(
            "bigfleet_operator_drain_grace_seconds",
            "How long a drain may take, as the shard asks for it.",
            buckets=(1, 5, 10, 30, 120, 600),
            registry=registry,
        )
        self.dispatch_inflight = Gauge(
            "bigfleet_operator_dispatch_inflight", "Frames being written to the apiserver.", registry=registry
        )
        for side in SESSION_ENDERS:
            self.sessions_ended.labels(side)
        for phase in ROLLUP_PHASES:
            self.rollup_phase.labels(phase)
        for phase in NODE_PHASES:
            self.node_state_update.labels(phase)
        for op in WRITE_OPS:
            for outcome in WRITE_OUTCOMES:
                self.upcoming_node_writes.labels(op, outcome)
