"""What the node-creator reads of UpcomingNodes, Nodes and Pods, and what it keeps of them. Pure."""

import msgspec

from bigfleet.kube import ObjectMeta, Subset

# On a Node: which of the machine's bindings it belongs to.
BINDING_ANNOTATION = "bigfleet-scaletest/binding"

# Phases of a Pod that needs no node any more, and the reason that an eviction leaves on a Pod.
_FINISHED = frozenset({"Succeeded", "Failed"})
_EVICTED = "EvictionByEvictionAPI"


class Promise(msgspec.Struct, frozen=True):
    """The machine that an UpcomingNode announces."""

    resources: dict[str, int | str]
    labels: dict[str, str] = {}
    # A Node gets them as they are.
    taints: list[dict[str, str]] = []


class _NodeRef(msgspec.Struct):
    name: str = ""


class _UpcomingStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    node_ref: _NodeRef = msgspec.field(default_factory=_NodeRef)
    provider_id: str = msgspec.field(default="", name="providerID")
    last_error: str = ""


class UpcomingNodeSubset(Subset):
    """What is read of an UpcomingNode."""

    spec: Promise
    status: _UpcomingStatus = msgspec.field(default_factory=_UpcomingStatus)


class KeptUpcoming(msgspec.Struct, frozen=True):
    """What is kept of it."""

    name: str
    spec: Promise
    # None before the operator has written one.
    phase: str | None
    # The Node that it refers to; empty if none.
    node: str
    # The machine's host, and why the machine failed.
    provider_id: str = ""
    last_error: str = ""


def trim_upcoming(item: UpcomingNodeSubset) -> KeptUpcoming:
    status = item.status
    return KeptUpcoming(
        item.metadata.name, item.spec, status.phase, status.node_ref.name, status.provider_id, status.last_error
    )


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""


class _MachineAnnotations(msgspec.Struct):
    binding: str = msgspec.field(default="", name=BINDING_ANNOTATION)


class _MachineMetadata(ObjectMeta):
    annotations: _MachineAnnotations = msgspec.field(default_factory=_MachineAnnotations)
    deletion_timestamp: str | None = None


class _MachineSpec(msgspec.Struct):
    unschedulable: bool = False


class _MachineStatus(msgspec.Struct):
    conditions: list[_Condition] = []


class MachineNodeSubset(Subset):
    """What is read of a Node."""

    metadata: _MachineMetadata
    spec: _MachineSpec = msgspec.field(default_factory=_MachineSpec)
    status: _MachineStatus = msgspec.field(default_factory=_MachineStatus)


class KeptNode(msgspec.Struct, frozen=True, gc=False):
    """What is kept of it."""

    name: str
    ready: bool
    leaving: bool
    binding: str
    cordoned: bool


def trim_node(item: MachineNodeSubset) -> KeptNode:
    metadata = item.metadata
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in item.status.conditions)
    leaving = metadata.deletion_timestamp is not None
    return KeptNode(
        metadata.name, ready and not leaving, leaving, metadata.annotations.binding, item.spec.unschedulable
    )


class _PlacedMetadata(ObjectMeta):
    uid: str = ""
    deletion_timestamp: str | None = None


class _PlacedSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PlacedStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class PlacedPodSubset(Subset):
    """What is read of a Pod."""

    metadata: _PlacedMetadata
    spec: _PlacedSpec
    status: _PlacedStatus = msgspec.field(default_factory=_PlacedStatus)


class KeptPod(msgspec.Struct, frozen=True, gc=False):
    """What is kept of it: a cluster has tens of thousands of these."""

    key: str
    uid: str
    # Empty while it waits.
    node: str
    running: bool
    leaving: bool
    lives: bool
    evicted: bool


def trim_pod(item: PlacedPodSubset) -> KeptPod:
    phase = item.status.phase
    leaving = item.metadata.deletion_timestamp is not None
    return KeptPod(
        key=item.key,
        uid=item.metadata.uid,
        node=item.spec.node_name,
        running=phase == "Running",
        leaving=leaving,
        lives=not leaving and phase not in _FINISHED,
        evicted=any(condition.reason == _EVICTED for condition in item.status.conditions),
    )
