"""What the load-driver reads of Pods, CapacityRequests and Nodes; texts that many of them share are one in memory."""

from functools import lru_cache
from sys import intern

import msgspec

from bigfleet.kube import ObjectMeta, Subset
from scaletest.cluster.load.bind_latency import created_at
from scaletest.cluster.witness.amounts import Amounts, amounts_of
from scaletest.cluster.witness.seen import SeenNode, SeenPod, SeenRequest
from scaletest.cluster.workloads.manifests import WORKLOAD_LABEL
from scaletest.model.demand.seeding import ARCHETYPE_LABEL

_OWNED_BY_POD = "bigfleet.lucy.sh/owned-by-pod"
_ENDED = ("Succeeded", "Failed")


class _DrawnLabels(msgspec.Struct):
    archetype: str = msgspec.field(default="", name=ARCHETYPE_LABEL)
    workload: str = msgspec.field(default="", name=WORKLOAD_LABEL)
    # On a CapacityRequest: the uid of its Pod.
    pod: str = msgspec.field(default="", name=_OWNED_BY_POD)


class _Phase(msgspec.Struct, rename="camel"):
    phase: str = ""
    # Of CapacityRequests.
    acknowledged_at: str = ""


class _DrawnPodMetadata(ObjectMeta):
    uid: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: _DrawnLabels = msgspec.field(default_factory=_DrawnLabels)


class _DrawnPodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class DrawnPodSubset(Subset):
    """What is read of a Pod."""

    metadata: _DrawnPodMetadata
    spec: _DrawnPodSpec
    status: _Phase = msgspec.field(default_factory=_Phase)


def trim_pod(item: DrawnPodSubset) -> SeenPod:
    metadata = item.metadata
    leaving = metadata.deletion_timestamp is not None
    return SeenPod(
        name=metadata.name,
        uid=metadata.uid,
        workload=intern(metadata.labels.workload),
        node=intern(item.spec.node_name),
        archetype=intern(metadata.labels.archetype),
        created=created_at(metadata.creation_timestamp),
        leaving=leaving,
        alive=not leaving and item.status.phase not in _ENDED,
    )


class _OwnerReference(msgspec.Struct):
    kind: str
    name: str
    uid: str


class _DrawnRequestMetadata(ObjectMeta):
    uid: str = ""
    deletion_timestamp: str | None = None
    labels: _DrawnLabels = msgspec.field(default_factory=_DrawnLabels)
    owner_references: list[_OwnerReference] = msgspec.field(default_factory=list)


class DrawnRequestSubset(Subset):
    """What is read of a CapacityRequest."""

    metadata: _DrawnRequestMetadata
    # As it came: replicas of one workload have equal specs, which an apiserver writes in one order.
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: _Phase = msgspec.field(default_factory=_Phase)

    @property
    def owner(self) -> str:
        """The name that its reference to its Pod gives; empty without such a one."""
        metadata = self.metadata
        owners = (one for one in metadata.owner_references if one.kind == "Pod" and one.uid == metadata.labels.pod)
        return next((one.name for one in owners), "")


def trim_request(item: DrawnRequestSubset) -> SeenRequest:
    """Of a Pod's CapacityRequest: whose it is, what it says, whether it is acknowledged."""
    metadata = item.metadata
    return SeenRequest(
        uid=metadata.uid,
        leaving=metadata.deletion_timestamp is not None,
        acknowledged=_acknowledged(item),
        acknowledged_at=item.status.acknowledged_at,
        pod=metadata.labels.pod,
        owner=item.owner,
        spec=intern(bytes(item.spec).decode()),
    )


def trim_request_without_pod(item: DrawnRequestSubset) -> SeenRequest:
    """The same where there are no Pods: it carries the labels that its Pod would have."""
    metadata = item.metadata
    return SeenRequest(
        uid=metadata.uid,
        leaving=metadata.deletion_timestamp is not None,
        acknowledged=_acknowledged(item),
        acknowledged_at=item.status.acknowledged_at,
        name=metadata.name,
        archetype=intern(metadata.labels.archetype),
        workload=intern(metadata.labels.workload),
    )


def _acknowledged(item: DrawnRequestSubset) -> bool:
    return item.status.phase == "Acknowledged"


class _OfferMetadata(ObjectMeta):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None


class _OfferSpec(msgspec.Struct):
    unschedulable: bool = False


class _OfferCondition(msgspec.Struct):
    type: str
    status: str


class _OfferStatus(msgspec.Struct):
    allocatable: dict[str, str] = {}
    conditions: list[_OfferCondition] = []


class OfferedNodeSubset(Subset):
    """What is read of a Node."""

    metadata: _OfferMetadata
    spec: _OfferSpec = msgspec.field(default_factory=_OfferSpec)
    status: _OfferStatus = msgspec.field(default_factory=_OfferStatus)


def trim_node(item: OfferedNodeSubset) -> SeenNode:
    """What a plan of bindings needs of a Node, and the witness."""
    metadata, status = item.metadata, item.status
    return SeenNode(
        name=metadata.name,
        labels={intern(key): intern(value) for key, value in metadata.labels.items()},
        allocatable=_allocatable(tuple(sorted(status.allocatable.items()))),
        ready=any(one.type == "Ready" and one.status == "True" for one in status.conditions)
        and not item.spec.unschedulable
        and metadata.deletion_timestamp is None,
    )


@lru_cache(maxsize=1024)
def _allocatable(quantities: tuple[tuple[str, str], ...]) -> Amounts:
    """One object for all Nodes of a shape, so no caller may change it."""
    return amounts_of(dict(quantities))
