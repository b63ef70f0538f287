"""The shard's metrics; each series that a gate reads exists from the start (docs/reference/engine.md#metrics)."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.core import penalty
from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.core.priority import OTHER, PRIORITY_CLASSES, priority_class
from bigfleet.engine import ActionKind, Shortfall
from bigfleet.process.daemon import exponential_buckets
from bigfleet.shard.inventory.claims import ClusterClaims
from bigfleet.shard.inventory.inventory import Kind

_FINE = math.sqrt(2)
_CYCLE_BUCKETS = exponential_buckets(0.001, _FINE, 36)  # up to 185 s
_PHASE_BUCKETS = exponential_buckets(0.01, _FINE, 36)  # up to 1 854 s
_LATENCY_BUCKETS = exponential_buckets(0.01, _FINE, 42)  # up to 4 h

PHASES = ("reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute")
_AGES = ((300, "300+"), (60, "60-299"), (10, "10-59"), (1, "1-9"))


class ReportOutcome(StrEnum):
    """What became of a report to the coordinator."""

    TAKEN = "taken"
    REFUSED = "refused"  # the leader answered that it does not take it
    FAILED = "failed"  # no leader answered


class Rail(StrEnum):
    """What keeps a machine that is not needed where it is (docs/reference/engine.md#rails)."""

    RECLAIM_RATE = "reclaim_rate"
    RELEASE_RATE = "release_rate"
    SESSION = "session"  # of its cluster's operator, who has to empty it


class ActionOutcome(StrEnum):
    """How an action ended (docs/reference/engine.md#execution)."""

    SUCCESS = "success"
    CTX_CANCELED = "ctx_canceled"  # the operator or the provider did not answer in time
    FENCED = "fenced"
    NO_SESSION = "no_session"
    RACED_TO_IDLE = "transition_raced_to_idle"  # the provider rolled it back
    TRANSITION_ERROR = "transition_error"
    BLOB_ERROR = "blob_error"
    PROVIDER_ERROR = "provider_error"
    STALE_STATE = "stale_state"
    INVENTORY_MISS = "inventory_miss"
    MISSING_PROFILE = "missing_profile"
    QUOTA = "quota"  # the shard has taken all its slots of the machine's region
    OTHER = "other"


class ShardMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: Iterable[str] = ()) -> Counter:
            return Counter(f"bigfleet_shard_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
            return Gauge(f"bigfleet_shard_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], labels: Iterable[str] = ()) -> Histogram:
            return Histogram(f"bigfleet_shard_{name}", text, labels, buckets=buckets, registry=registry)

        self.cycle_duration = histogram("cycle_duration_seconds", "A whole cycle without execution.", _CYCLE_BUCKETS)
        self.cycle_phase_duration = histogram(
            "cycle_phase_duration_seconds", "One phase of a cycle.", _CYCLE_BUCKETS, ["phase"]
        )
        self.provisioning_latency = histogram(
            "provisioning_latency_seconds", "First sight of a demand to its first Configured machine.", _LATENCY_BUCKETS
        )
        self.configure_phase = histogram(
            "configure_phase_seconds", "Idle→Configuring until Configured is observed.", _PHASE_BUCKETS
        )
        self.create_phase = histogram(
            "create_phase_seconds", "Speculative→Creating until Idle is observed.", _PHASE_BUCKETS
        )
        self.drain_phase = histogram(
            "drain_phase_seconds", "Configured→Draining until Idle is observed.", _PHASE_BUCKETS
        )
        self.request_bootstrap = histogram(
            "request_bootstrap_seconds", "Round trip of a bootstrap blob.", _PHASE_BUCKETS
        )
        self.actions = counter("actions_total", "Actions emitted for execution.", ["kind"])
        self.outcomes = counter("action_execute_outcomes_total", "How actions ended.", ["kind", "outcome"])
        self.actions_deferred = counter(
            "actions_deferred_total", "Actions left to the next cycle by the limit per cycle."
        )
        self.actions_dropped = counter("actions_dropped_total", "Actions dropped because the queue was full.")
        self.actions_deduped = counter("actions_deduped_total", "Actions for a machine that is busy, held or moved on.")
        self.actions_suppressed = counter("actions_suppressed_total", "Actions not executed while paused.", ["kind"])
        self.actions_dryrun = counter("actions_dryrun_total", "Actions not executed in shadow mode.", ["kind"])
        self.action_queue_depth = gauge("action_queue_depth", "Actions waiting for a provider slot.")
        self.execute_inflight = gauge("execute_inflight", "Provider calls running.")
        self.actuation_paused = gauge("actuation_paused", "1 while the kill switch is on.")
        self.engine_compiled = gauge("engine_compiled", "1 if the engine runs compiled kernels, 0 if plain Python.")
        self.reclaims_capped = counter("reclaims_capped_total", "Reclaims put off by the cap, counted in each cycle.")
        self.releases_capped = counter("releases_capped_total", "Deletes put off by the cap, counted in each cycle.")
        self.waiting = gauge(
            "rail_waiting_machines", "Machines that the last cycle would let go, and what they wait for.", ["rail"]
        )
        self.idle_releases = counter("idle_releases_total", "Machines given back after their idle hold.")
        self.inventory_machines = gauge(
            "inventory_machines", "Machines.", ["state", "capacity_type", "interruption_penalty_bucket"]
        )
        self.machines_rejected = counter(
            "machines_rejected_total", "Provider descriptions that break an invariant.", ["reason"]
        )
        self.reconcile_errors = counter("reconcile_errors_total", "Reconciles that failed; the last view is kept.")
        self.seeded_waiting = gauge(
            "seeded_waiting", "Machines that were Configuring when first seen and still wait for their node."
        )
        self.demand_machines = gauge(
            "demand_machines", "Need rows, whatever the name says.", ["interruption_penalty_bucket"]
        )
        self.shortfalls = gauge("shortfalls", "Profiles whose demand can't be met.")
        self.shortfalls_aged = gauge("shortfalls_aged", "Shortfalls by age in cycles.", ["bucket"])
        self.shortfalls_by_priority = gauge("shortfalls_by_priority", "Shortfalls by class.", ["priority_class"])
        self.list_errors = counter("provider_list_errors_total", "Lists that failed.", ["provider"])
        self.quota_slots = gauge("quota_slots", "Slots that the shard may take.", ["provider", "region"])
        self.quota_taken = gauge("quota_taken", "Machines that take a slot of a quota.", ["provider", "region"])
        self.quota_refusals = counter("quota_refusals_total", "Creates not sent for a quota.", ["provider", "region"])
        self.session_lifecycle = counter("session_lifecycle_total", "Operator sessions coming and going.", ["event"])
        self.active_sessions = gauge("active_sessions", "Operator sessions.")
        self.session_identity_rejected = counter(
            "session_identity_rejected_total", "Sessions refused for their certificate: a security event."
        )
        self.reissued = counter(
            "reissued_total", "Frames asked again because a session ended before an answer.", ["kind"]
        )
        self.outbox_dropped = counter("outbox_dropped_total", "Hints that an operator did not read in time.")
        self.rollups = counter("rollups_total", "Roll-ups that were looked at.", ["outcome"])
        self.malformed = counter("malformed_total", "Requests that could not be read, or were too large.", ["method"])
        self.rollup_quarantined = gauge("rollup_quarantined", "Times the guard holds this roll-up.", ["cluster"])
        self.rollups_rejected = counter("rollups_rejected_total", "Roll-ups that can't be understood.", ["cluster"])
        self.reports = counter("reports_total", "Reports to the coordinator.", ["outcome"])
        self.report_oldest = gauge("report_oldest_seconds", "Since when the coordinator has taken no report of ours.")
        self.reported = gauge("reported_machines", "Machines of our last report, by zone.", ["zone"])
        self.reported_types = gauge(
            "reported_machines_of_type", "Machines of our last report, by instance type.", ["instance_type"]
        )
        self.reported_free = gauge("reported_free_machines", "Idle and Speculative machines of our last report.")
        self.clusters = ClusterClaims(registry)
        self._create_series()

    def _create_series(self) -> None:
        for kind in ActionKind:
            for counter in (self.actions, self.actions_suppressed, self.actions_dryrun):
                counter.labels(kind)
            for outcome in ActionOutcome:
                self.outcomes.labels(kind, outcome)
        for phase in PHASES:
            self.cycle_phase_duration.labels(phase)
        for reason in ("price", "interruption_probability", "structural"):
            self.machines_rejected.labels(reason)
        for became in ("changed", "unchanged", "held", "rejected"):
            self.rollups.labels(became)
        for method in ("Session", "InspectNeeds"):
            self.malformed.labels(method)
        for payload in ("bootstrap_request", "reclaim_instruction"):
            self.reissued.labels(payload)
        for rail in Rail:
            self.waiting.labels(rail)
        for report in ReportOutcome:
            self.reports.labels(report)
        for event in ("installed", "removed", "replaced", "elsewhere"):
            self.session_lifecycle.labels(event)
        self.publish_shortfalls(())
        self.publish_demand({})
        self.publish_inventory({(state, CapacityType.ON_DEMAND, "unspecified"): 0 for state in MachineState if state})
        # Which penalties sit on which tier is a gate: what a good engine never makes must read 0, not nothing.
        tiers = (CapacityType.SPOT, CapacityType.ON_DEMAND)
        labels = [penalty.label(bucket) for bucket in penalty.ALL_BUCKETS]
        self.publish_inventory({(MachineState.CONFIGURED, tier, label): 0 for tier in tiers for label in labels})

    def publish_shortfalls(self, shortfalls: Iterable[Shortfall]) -> None:
        ages = dict.fromkeys((label for _, label in _AGES), 0)
        classes = dict.fromkeys([*(label for _, label in PRIORITY_CLASSES), OTHER], 0)
        for shortfall in shortfalls:
            ages[_bracket(shortfall.age_cycles, _AGES, "1-9")] += 1
            classes[priority_class(shortfall.profile.priority)] += 1
        self.shortfalls.set(sum(classes.values()))
        for label, count in ages.items():
            self.shortfalls_aged.labels(label).set(count)
        for label, count in classes.items():
            self.shortfalls_by_priority.labels(label).set(count)

    def publish_demand(self, rows_per_bucket: Mapping[int, int]) -> None:
        for bucket in penalty.ALL_BUCKETS:
            self.demand_machines.labels(penalty.label(bucket)).set(rows_per_bucket.get(bucket, 0))

    def publish_inventory(self, counts: Mapping[Kind, int]) -> None:
        """`counts` keeps a kind that has vanished at 0, so its gauge goes to 0 too."""
        for (state, capacity_type, bucket), count in counts.items():
            self.inventory_machines.labels(state.label, capacity_type.label, bucket).set(count)


def _bracket(value: int, brackets: Iterable[tuple[int, str]], otherwise: str) -> str:
    return next((label for least, label in brackets if value >= least), otherwise)
