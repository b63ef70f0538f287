"""What a provider counts. Every series exists at 0 from the start."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.core.machines import MachineState
from bigfleet.daemon import exponential_buckets
from bigfleet.provider.kit.inventory import Inventory
from bigfleet.provider.kit.transitions import Kind

RPCS = ("Create", "Configure", "Drain", "Delete", "Get", "List")
# 50 ms to 27 minutes: past every default time-out.
_TRANSITION_BUCKETS = exponential_buckets(0.05, 2, 16)


class ProviderMetrics:
    """The kit's own metrics; a provider adds its own to the same registry."""

    def __init__(self, registry: CollectorRegistry, inventory: Inventory) -> None:
        machines = Gauge("bigfleet_provider_machines", "Machines by state.", ["state"], registry=registry)
        for state in MachineState:
            if state is not MachineState.UNSPECIFIED:
                machines.labels(state.label).set_function(_size(inventory, state))
        self._rpcs = Counter("bigfleet_provider_rpcs_total", "RPCs answered.", ["rpc", "code"], registry=registry)
        for rpc in RPCS:
            self._rpcs.labels(rpc, "OK")
        self._seconds = Histogram(
            "bigfleet_provider_transition_seconds",
            "From the ack to the target state, of transitions that landed.",
            ["kind"],
            buckets=_TRANSITION_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "bigfleet_provider_transition_failures_total", "Transitions that ended Failed.", ["kind"], registry=registry
        )
        for kind in Kind:
            self._seconds.labels(kind)
            self._failures.labels(kind)
        self.waiting_for_node = Gauge(
            "bigfleet_provider_waiting_for_node",
            "Machines in Configuring that only wait for their node to be Ready.",
            registry=registry,
        )

    def answered(self, rpc: str, code: str) -> None:
        self._rpcs.labels(rpc, code).inc()

    def landed(self, kind: Kind, seconds: float) -> None:
        self._seconds.labels(kind).observe(seconds)

    def failed(self, kind: Kind) -> None:
        self._failures.labels(kind).inc()


def _size(inventory: Inventory, state: MachineState) -> Callable[[], float]:
    return lambda: len(inventory.ids(state))
