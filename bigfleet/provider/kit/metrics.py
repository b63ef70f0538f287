"""What a provider counts. Every series exists at 0 from the start."""

from collections.abc import Callable

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bigfleet.core.machines import MachineState
from bigfleet.process.daemon import exponential_buckets
from bigfleet.provider.kit.inventory import ProviderInventory
from bigfleet.provider.kit.transitions import Kind

RPCS = ("Create", "Configure", "Drain", "Delete", "Get", "List")
# 50 ms to 27 minutes: past every default time-out.
_TRANSITION_BUCKETS = exponential_buckets(0.05, 2, 16)
# 0.5 ms to 8 s: a List of half a million machines takes seconds.
_RPC_BUCKETS = exponential_buckets(0.0005, 2, 15)


class ProviderMetrics:
    """The kit's own metrics; a provider adds its own to the same registry."""

    def __init__(self, registry: CollectorRegistry, inventory: ProviderInventory) -> None:
        machines = Gauge("bigfleet_provider_machines", "Machines by state.", ["state"], registry=registry)
        for state in MachineState:
            if state is not MachineState.UNSPECIFIED:
                machines.labels(state.label).set_function(_size(inventory, state))
        self._rpcs = Counter("bigfleet_provider_rpcs_total", "RPCs answered.", ["rpc", "code"], registry=registry)
        self._rpc_seconds = Histogram(
            "bigfleet_provider_rpc_seconds",
            "From the call to the answer, whatever it was.",
            ["rpc"],
            buckets=_RPC_BUCKETS,
            registry=registry,
        )
        for rpc in RPCS:
            self._rpcs.labels(rpc, "OK")
            self._rpc_seconds.labels(rpc)
        self._accepted = Counter(
            "bigfleet_provider_transitions_total", "Transitions accepted.", ["kind"], registry=registry
        )
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
            self._accepted.labels(kind)
        self.waiting_for_node = Gauge(
            "bigfleet_provider_waiting_for_node",
            "Machines in Configuring that only wait for their node to be Ready.",
            registry=registry,
        )

        self.in_flight = Gauge(
            "bigfleet_provider_transitions_in_flight", "Transitions that are being carried out.", registry=registry
        )

    def answered(self, rpc: str, code: str, seconds: float) -> None:
        self._rpcs.labels(rpc, code).inc()
        self._rpc_seconds.labels(rpc).observe(seconds)

    def malformed(self, rpc: str, code: grpc.StatusCode) -> None:
        """A request that could not even be read, or was too large to be."""
        self._rpcs.labels(rpc, code.name).inc()

    def accepted(self, kind: Kind) -> None:
        self._accepted.labels(kind).inc()

    def landed(self, kind: Kind, seconds: float) -> None:
        self._seconds.labels(kind).observe(seconds)

    def failed(self, kind: Kind) -> None:
        self._failures.labels(kind).inc()


def _size(inventory: ProviderInventory, state: MachineState) -> Callable[[], float]:
    return lambda: len(inventory.ids(state))
