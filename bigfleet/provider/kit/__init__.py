"""What every provider needs, whatever it buys its machines from: fencing, idempotency, transitions, List, a memory."""

from bigfleet.provider.kit.backend import Backend, Deleter, ReadinessChecker
from bigfleet.provider.kit.errors import Refused, TransitionFailed
from bigfleet.provider.kit.inventory import ProviderInventory
from bigfleet.provider.kit.journal import StorageError
from bigfleet.provider.kit.lifecycle import Lifecycle
from bigfleet.provider.kit.metrics import ProviderMetrics
from bigfleet.provider.kit.process import KitOptions, ProviderProcess, ServingProvider
from bigfleet.provider.kit.records import MachineRecord, Shape
from bigfleet.provider.kit.service import CapacityProvider
from bigfleet.provider.kit.state import State
from bigfleet.provider.kit.transitions import Kind, Timeouts

__all__ = [
    "Backend",
    "CapacityProvider",
    "Deleter",
    "Kind",
    "KitOptions",
    "Lifecycle",
    "MachineRecord",
    "ProviderInventory",
    "ProviderMetrics",
    "ProviderProcess",
    "ReadinessChecker",
    "Refused",
    "ServingProvider",
    "Shape",
    "State",
    "StorageError",
    "Timeouts",
    "TransitionFailed",
]
