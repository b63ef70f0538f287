"""What the node-creator counts; every series exists from the start."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.process import daemon
from scaletest.cluster.nodes.trims import KeptPod
from scaletest.cluster.witness.ages import Ages

_OUTCOMES = ("created", "exists", "not_ready", "create_error", "cleanup_deleted", "cleanup_error")
_PREFIX = "bigfleet_scaletest_node_creator"


class NodeCreatorMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, registry=registry)

        self.outcomes = Counter(
            f"{_PREFIX}_upcoming_nodes_observed",
            "What came of looking at an UpcomingNode.",
            ["outcome"],
            registry=registry,
        )
        for outcome in _OUTCOMES:
            self.outcomes.labels(outcome)
        self.created = Counter(f"{_PREFIX}_fake_nodes_created", "Nodes created.", registry=registry)
        self.latency = Histogram(
            f"{_PREFIX}_upcoming_to_node_latency_seconds",
            "From an UpcomingNode's first sight as Registered or Ready until its Node exists, boot delay included.",
            buckets=daemon.exponential_buckets(0.05, 2, 16),
            registry=registry,
        )
        self.ready_nodes = gauge("ready_nodes", "Nodes of machines that are Ready.")
        self.phone = gauge("phone_home_connected", "Whether the stream to the provider is open.")
        self.mismatches = Counter(
            f"{_PREFIX}_shape_mismatches",
            "UpcomingNodes that promised another machine than the provider's.",
            registry=registry,
        )
        self._unknown = gauge(
            "unknown_machines", "UpcomingNodes that should boot, of machines that the provider never gave."
        )
        self._unknown_oldest = gauge("unknown_machines_oldest_seconds", "The age of the oldest of them; 0: none.")
        self._outlived = gauge("outlived_machines", "UpcomingNodes that should live, of machines that are gone.")
        self._outlived_oldest = gauge("outlived_machines_oldest_seconds", "The age of the oldest of them; 0: none.")
        self._kept = gauge("kept_records", "UpcomingNodes in any phase but the first, of machines that are not there.")
        self._kept_oldest = gauge("kept_records_oldest_seconds", "The age of the oldest of them; 0: none.")
        self.misnamed = Counter(
            f"{_PREFIX}_misnamed_nodes", "UpcomingNodes that refer to another Node than theirs.", registry=registry
        )
        self.drained = Counter(f"{_PREFIX}_drained_nodes", "Nodes that went after a drain.", registry=registry)
        self.uncordoned = Counter(
            f"{_PREFIX}_uncordoned_nodes", "Nodes that went after a drain and were never cordoned.", registry=registry
        )
        self.incomplete = Counter(
            f"{_PREFIX}_incomplete_records",
            "UpcomingNodes that do not say which host a machine has, or why it failed.",
            ["field"],
            registry=registry,
        )
        for field in ("providerID", "lastError"):
            self.incomplete.labels(field)
        self.cut_off = Counter(
            f"{_PREFIX}_pods_cut_off", "Pods that lived on a Node when it went after a drain.", registry=registry
        )
        self.left = Counter(
            f"{_PREFIX}_cordoned_pods", "Pods that left a Node that was cordoned.", ["how"], registry=registry
        )
        for how in ("evicted", "deleted"):
            self.left.labels(how)
        self.early = Counter(
            f"{_PREFIX}_ready_before_node", "UpcomingNodes that were Ready before their Node.", registry=registry
        )
        self._bound = gauge("bound_pods", "Pods that have a node.")
        self._running = gauge("running_pods", "Pods that run.")

    def watch(self, strangers: Ages, outlived: Ages, kept: Ages) -> None:
        self._unknown.set_function(lambda: len(strangers))
        self._unknown_oldest.set_function(lambda: strangers.oldest_seconds(time.monotonic()))
        self._outlived.set_function(lambda: len(outlived))
        self._outlived_oldest.set_function(lambda: outlived.oldest_seconds(time.monotonic()))
        self._kept.set_function(lambda: len(kept))
        self._kept_oldest.set_function(lambda: kept.oldest_seconds(time.monotonic()))

    def count_pod(self, old: KeptPod | None, new: KeptPod | None) -> None:
        bound = (new is not None and bool(new.node)) - (old is not None and bool(old.node))
        if bound:
            self._bound.inc(bound)
        running = (new is not None and new.running) - (old is not None and old.running)
        if running:
            self._running.inc(running)
