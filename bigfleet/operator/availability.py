"""Writes the shard's hints about available capacity as AvailableCapacity objects."""

import hashlib

from bigfleet.api.v1alpha1.capacity_pb2 import NodeSelectorRequirement
from bigfleet.api.v1alpha1.shard_pb2 import AvailableCapacityUpdate
from bigfleet.kube import KubeClient, Object, WorkQueue
from bigfleet.kube.resources import AVAILABLE_CAPACITIES
from bigfleet.operator.metrics import OperatorMetrics

_CONCURRENCY = 8
_AVAILABILITY = {
    AvailableCapacityUpdate.NONE: "None",
    AvailableCapacityUpdate.LOW: "Low",
    AvailableCapacityUpdate.MEDIUM: "Medium",
    AvailableCapacityUpdate.HIGH: "High",
}
OPERATOR_WORDS = {
    NodeSelectorRequirement.IN: "In",
    NodeSelectorRequirement.NOT_IN: "NotIn",
    NodeSelectorRequirement.EXISTS: "Exists",
    NodeSelectorRequirement.DOES_NOT_EXIST: "DoesNotExist",
    NodeSelectorRequirement.SAME: "Same",
}


def hint_name(supersedes_key: str) -> str:
    return "ac-" + hashlib.sha256(supersedes_key.encode()).digest()[:16].hex()


def hint_spec(update: AvailableCapacityUpdate) -> Object:
    return {
        "availability": _AVAILABILITY.get(update.confidence, "None"),
        "availableCount": update.available_count,
        "cost": f"{update.cost_per_hour:.4f}".rstrip("0").rstrip("."),
        "resources": dict(update.resources.resources),
        "requirements": [
            {"key": r.key, "operator": OPERATOR_WORDS.get(r.operator, "Unspecified"), "values": list(r.values)}
            for r in update.requirements
        ],
    }


class Availability:
    """The newest hint of each kind wins; one that says nothing new is not written."""

    def __init__(self, kube: KubeClient, metrics: OperatorMetrics) -> None:
        self._kube = kube
        self._metrics = metrics
        self._wanted: dict[str, Object] = {}
        self._written: dict[str, Object] = {}
        self._queue = WorkQueue("available-capacity", self._write, concurrency=_CONCURRENCY)

    def receive(self, update: AvailableCapacityUpdate) -> None:
        name = hint_name(update.supersedes_key)
        self._wanted[name] = hint_spec(update)
        self._queue.add(name)

    async def run(self) -> None:
        await self._queue.run()

    async def _write(self, name: str) -> None:
        spec = self._wanted[name]
        if self._written.get(name) == spec:
            return
        with self._metrics.dispatch_inflight.track_inprogress():
            body = {
                "apiVersion": AVAILABLE_CAPACITIES.api_version,
                "kind": "AvailableCapacity",
                "metadata": {"name": name},
                "spec": spec,
            }
            await self._kube.patch(AVAILABLE_CAPACITIES, name, body, kind="apply", field_manager="bigfleet-operator")
        self._written[name] = spec
