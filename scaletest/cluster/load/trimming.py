"""What the load-driver keeps of Pods, CapacityRequests and Nodes; texts that many of them share are one in memory."""

from functools import lru_cache
from sys import intern

import msgspec

from bigfleet.kube import Object
from scaletest.cluster.load.bind_latency import created_at
from scaletest.cluster.witness.amounts import Amounts, amounts_of
from scaletest.cluster.workloads.manifests import WORKLOAD_LABEL
from scaletest.model.demand.seeding import ARCHETYPE_LABEL

_OWNED_BY_POD = "bigfleet.lucy.sh/owned-by-pod"
_ENDED = ("Succeeded", "Failed")


def trim_pod(item: Object) -> Object:
    metadata = item["metadata"]
    labels = metadata["labels"]
    leaving = "deletionTimestamp" in metadata
    return {
        "name": metadata["name"],
        "uid": metadata["uid"],
        "archetype": intern(labels.get(ARCHETYPE_LABEL, "")),
        "workload": intern(labels[WORKLOAD_LABEL]),
        "created": created_at(item),
        "node": intern(item["spec"].get("nodeName", "")),
        "leaving": leaving,
        "alive": not leaving and (item.get("status") or {}).get("phase") not in _ENDED,
    }


def trim_request(item: Object) -> Object:
    """Of a Pod's CapacityRequest: whose it is, what it says, whether it is acknowledged."""
    metadata = item["metadata"]
    pod = (metadata.get("labels") or {}).get(_OWNED_BY_POD, "")
    return {
        "uid": metadata["uid"],
        "pod": pod,
        "owner": _owner(metadata, pod),
        # Replicas of one workload have equal specs, which an apiserver writes in one order.
        "spec": intern(msgspec.json.encode(item.get("spec")).decode()),
        "leaving": "deletionTimestamp" in metadata,
        "acknowledged": _acknowledged(item),
    }


def trim_request_without_pod(item: Object) -> Object:
    """The same where there are no Pods: it carries the labels that its Pod would have."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    return {
        "name": metadata["name"],
        "uid": metadata["uid"],
        "archetype": intern(labels.get(ARCHETYPE_LABEL, "")),
        "workload": intern(labels.get(WORKLOAD_LABEL, "")),
        "leaving": "deletionTimestamp" in metadata,
        "acknowledged": _acknowledged(item),
    }


def _acknowledged(item: Object) -> bool:
    return (item.get("status") or {}).get("phase") == "Acknowledged"


def _owner(metadata: Object, uid: str) -> str:
    """The name that its reference to the Pod of this uid gives; empty without such a one."""
    references = metadata.get("ownerReferences") or ()
    return next((str(one["name"]) for one in references if one["kind"] == "Pod" and one["uid"] == uid), "")


def trim_node(item: Object) -> Object:
    """What a plan of bindings needs of a Node, and the witness."""
    metadata, status = item["metadata"], item["status"]
    conditions = status.get("conditions") or []
    return {
        "name": metadata["name"],
        "labels": {intern(key): intern(value) for key, value in (metadata.get("labels") or {}).items()},
        "allocatable": _allocatable(tuple(sorted((status.get("allocatable") or {}).items()))),
        "ready": any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        and not item["spec"].get("unschedulable")
        and "deletionTimestamp" not in metadata,
    }


@lru_cache(maxsize=1024)
def _allocatable(quantities: tuple[tuple[str, str], ...]) -> Amounts:
    """One object for all Nodes of a shape, so no caller may change it."""
    return amounts_of(dict(quantities))
