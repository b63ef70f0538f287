"""What goes wrong on purpose, as it is set now: by flags at the start, by `FaultInjection` while the provider runs."""

from dataclasses import dataclass
from random import Random

from prometheus_client import CollectorRegistry, Counter

from bigfleet.core.machines import MachineState
from bigfleet.provider.kit import Kind, MachineRecord, Refused, TransitionFailed

EVERY_ZONE = "*"
FAULTS = ("refused", "stock_out", "failed", "lost", "vanished", "interrupted")


@dataclass(frozen=True)
class Faults:
    """What goes wrong on purpose."""

    refuse_configure: bool = False
    """Every Configure is answered UNAVAILABLE."""
    create_failure_ratio: float = 0.0
    """This share of accepted Creates ends Failed."""
    configure_failure_ratio: float = 0.0
    """This share of accepted Configures ends Failed."""
    drain_failure_ratio: float = 0.0
    """This share of accepted Drains ends Failed."""
    delete_failure_ratio: float = 0.0
    """This share of accepted Deletes ends Failed."""
    stock_out_zones: tuple[str, ...] = ()
    """Creates in these zones are answered UNAVAILABLE; `*` is every zone."""
    slow_factor: float = 1.0
    """Every transition takes this many times as long."""
    spot_interruption_multiplier: float = 0.0
    """Configured SPOT machines are taken back at this many times the hourly probability that they declare."""
    vanish_rate_per_sec: float = 0.0
    """Per second and Configured machine: so many are gone for good, with a tombstone."""

    def __post_init__(self) -> None:
        for kind in Kind:
            name = f"{kind}_failure_ratio"
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be in [0, 1]")
        if not 0 < self.slow_factor < float("inf"):  # on the wire 0 means that it is not set
            raise ValueError(f"slow_factor is {self.slow_factor}, it must be a finite number > 0")
        for name in ("spot_interruption_multiplier", "vanish_rate_per_sec"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}, it must be a finite number ≥ 0")

    def failure_ratio(self, kind: Kind) -> float:
        ratio: float = getattr(self, f"{kind}_failure_ratio")
        return ratio


class FaultInjector:
    """The faults of now, and the count of those that struck."""

    def __init__(self, faults: Faults, registry: CollectorRegistry, seed: int) -> None:
        self.faults = faults
        # Apart, so that a fault's draw does not shift the latencies of a run with the same seed.
        self._random = Random(f"{seed}/fault")
        self._struck = Counter("bigfleet_provider_faults_total", "Faults that struck.", ["fault"], registry=registry)
        for fault in FAULTS:
            self._struck.labels(fault)

    def count(self, fault: str) -> None:
        self._struck.labels(fault).inc()

    def admit(self, kind: Kind, machine: MachineRecord) -> None:
        """Raises Refused."""
        if kind is Kind.CONFIGURE and self.faults.refuse_configure:
            self.count("refused")
            raise Refused(f"configure of machine {machine.id!r} refused by fault injection")
        if kind is Kind.CREATE and {machine.shape.zone, EVERY_ZONE} & set(self.faults.stock_out_zones):
            self.count("stock_out")
            raise Refused(f"no {machine.shape.instance_type} in {machine.shape.zone}: stock-out by fault injection")

    def may_fail(self, kind: Kind) -> None:
        """Raises TransitionFailed for the share of transitions that is to end so."""
        if self._random.random() < self.faults.failure_ratio(kind):
            self.count("failed")
            raise TransitionFailed("failed by fault injection")


def may_be_struck(machine: MachineRecord) -> bool:
    """A machine that was lost already cannot be lost again."""
    return machine.state is not MachineState.FAILED
