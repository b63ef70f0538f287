"""What every provider needs, whatever it buys its machines from: fencing, idempotency, transitions, List."""

from bigfleet.provider.kit.backend import Backend, ReadinessChecker
from bigfleet.provider.kit.errors import Refused, TransitionFailed
from bigfleet.provider.kit.inventory import Inventory
from bigfleet.provider.kit.lifecycle import Lifecycle
from bigfleet.provider.kit.metrics import ProviderMetrics
from bigfleet.provider.kit.records import MachineRecord, Shape
from bigfleet.provider.kit.service import CapacityProvider
from bigfleet.provider.kit.transitions import Kind, Timeouts

__all__ = [
    "Backend",
    "CapacityProvider",
    "Inventory",
    "Kind",
    "Lifecycle",
    "MachineRecord",
    "ProviderMetrics",
    "ReadinessChecker",
    "Refused",
    "Shape",
    "Timeouts",
    "TransitionFailed",
]
