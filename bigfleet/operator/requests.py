"""The cluster's CapacityRequests as the operator sees them: what they add to the demand, and which wait for an ack."""

import asyncio

import msgspec
import structlog
from prometheus_client import Counter

from bigfleet.api.v1alpha1.capacity_pb2 import CapacityNeed
from bigfleet.kube import Subset
from bigfleet.operator.rollup import ClusterDemand, UnsupportedRequest, contribution_in

log = structlog.get_logger(__name__)


class Status(msgspec.Struct):
    phase: str = ""


class CapacityRequest(Subset):
    """The parts that we read: a cluster has tens of thousands of these."""

    # As it came: replicas of one workload are equal to the byte, and few specs are really read.
    spec: msgspec.Raw
    status: Status = msgspec.field(default_factory=Status)

    def __post_init__(self) -> None:
        self.spec = self.spec.copy()  # else it would keep the whole answer in memory


class Requests:
    """Follows an informer of CapacityRequests (`on_change`) and keeps the demand aggregated."""

    def __init__(self, skipped: Counter) -> None:
        self._skipped = skipped
        self._demand = ClusterDemand()
        self._unacknowledged: dict[str, None] = {}
        # Set when the demand differs from what `needs` last returned.
        self.changed = asyncio.Event()
        # How often the demand has changed.
        self.changes = 0

    def on_change(self, old: CapacityRequest | None, new: CapacityRequest | None) -> None:
        request = new or old
        if request is None:
            return
        key = request.key
        contribution = None
        if new is not None:
            try:
                contribution = contribution_in(bytes(new.spec))
            except UnsupportedRequest as error:
                self._skipped.inc()
                log.warning("capacity request left out", request=key, reason=str(error))
        if self._demand.put(key, contribution):
            self.changed.set()
            self.changes += 1
        if contribution is not None and new is not None and new.status.phase in ("", "Pending"):
            self._unacknowledged[key] = None
        else:
            self._unacknowledged.pop(key, None)

    def needs(self) -> list[CapacityNeed]:
        """The whole demand as of now."""
        self.changed.clear()
        return self._demand.needs()

    def unacknowledged(self) -> list[str]:
        """Requests that are part of the demand and do not know it yet, oldest first."""
        return list(self._unacknowledged)

    def waits(self, key: str) -> bool:
        return key in self._unacknowledged

    def acknowledged(self, key: str) -> None:
        """Do not offer this request again, although its change has not come back through the informer yet."""
        self._unacknowledged.pop(key, None)
