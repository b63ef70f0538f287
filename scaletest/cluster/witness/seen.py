"""What is kept of a cluster's Pods, CapacityRequests and Nodes: a few fields each, as there are many of them."""

import msgspec

from scaletest.cluster.witness.amounts import Amounts


class SeenPod(msgspec.Struct, gc=False):
    """A Pod of a workload that was drawn."""

    name: str
    uid: str
    workload: str
    # Empty while it waits.
    node: str = ""
    archetype: str = ""
    # Its creationTimestamp, in Unix seconds.
    created: float = 0.0
    leaving: bool = False
    # Neither leaving nor ended.
    alive: bool = True


class SeenRequest(msgspec.Struct, gc=False):
    """A CapacityRequest. Where there are Pods, one of them is behind it; else it has the labels that its Pod would."""

    uid: str
    leaving: bool = False
    acknowledged: bool = False
    # When, as its status says.
    acknowledged_at: str = ""
    # The uid of its Pod, and the name by which its reference to that Pod calls it; empty without such a one.
    pod: str = ""
    owner: str = ""
    # As JSON; one text in memory for all that are equal.
    spec: str = ""
    # Where there are no Pods.
    name: str = ""
    archetype: str = ""
    workload: str = ""


class SeenNode(msgspec.Struct):
    """A Node."""

    name: str
    labels: dict[str, str]
    # One object for all Nodes of a shape, so no caller may change it.
    allocatable: Amounts
    # Ready, and neither cordoned nor leaving.
    ready: bool
