"""What the node-creator keeps of UpcomingNodes, Nodes and Pods. Pure."""

from bigfleet.kube import Object, key_of

# On a Node: which of the machine's bindings it belongs to.
BINDING_ANNOTATION = "bigfleet-scaletest/binding"

# Phases of a Pod that needs no node any more, and the reason that an eviction leaves on a Pod.
_FINISHED = frozenset({"Succeeded", "Failed"})
_EVICTED = "EvictionByEvictionAPI"


def trim_upcoming(item: Object) -> Object:
    status = item.get("status") or {}
    return {
        "name": item["metadata"]["name"],
        "spec": item["spec"],
        "phase": status.get("phase"),
        "node": (status.get("nodeRef") or {}).get("name", ""),
    }


def trim_node(item: Object) -> Object:
    metadata = item["metadata"]
    conditions = item.get("status", {}).get("conditions") or []
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    leaving = "deletionTimestamp" in metadata
    binding = (metadata.get("annotations") or {}).get(BINDING_ANNOTATION, "")
    return {
        "name": metadata["name"],
        "ready": ready and not leaving,
        "leaving": leaving,
        "binding": binding,
        "cordoned": bool((item.get("spec") or {}).get("unschedulable")),
    }


def trim_pod(item: Object) -> Object:
    status = item.get("status") or {}
    conditions = status.get("conditions") or []
    leaving = "deletionTimestamp" in item["metadata"]
    return {
        "key": key_of(item),
        "uid": item["metadata"]["uid"],
        "node": item["spec"].get("nodeName"),
        "running": status.get("phase") == "Running",
        "leaving": leaving,
        "lives": not leaving and status.get("phase") not in _FINISHED,
        "evicted": any(condition.get("reason") == _EVICTED for condition in conditions),
    }
