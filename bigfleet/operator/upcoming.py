"""What an UpcomingNode should say after a frame about its machine (docs/reference/wire.md#upcomingnode). Pure."""

from collections.abc import Mapping
from typing import Any

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.api.v1alpha1.shard_pb2 import NodeStateUpdate
from bigfleet.kube import Object
from bigfleet.kube.resources import UPCOMING_NODES

_PREFIX = "un-"
_PHASES = {
    provider_pb2.SPECULATIVE: "Provisioning",
    provider_pb2.CREATING: "Provisioning",
    provider_pb2.CONFIGURING: "Registered",
    provider_pb2.CONFIGURED: "Ready",
    provider_pb2.DRAINING: "Draining",
    provider_pb2.FAILED: "Failed",
}
_ON_ITS_WAY = ("Provisioning", "Launched")
LEAVING = ("Draining", "Drained")


def record_name(machine: str) -> str:
    return _PREFIX + machine


def machine_of(record: Object) -> str:
    return str(record["metadata"]["name"]).removeprefix(_PREFIX)


def phase_of(record: Object | None) -> str | None:
    return (record.get("status") or {}).get("phase") if record else None


def node_of(record: Object | None) -> str | None:
    """The name of the record's Node, once the shard has told it."""
    status = (record.get("status") or {}) if record else {}
    return (status.get("nodeRef") or {}).get("name")


def next_phase(stored: str | None, frame: NodeStateUpdate) -> str | None:
    """The phase after `frame`; None when the machine is no longer this cluster's and the record goes.

    An Idle machine is on its way only if we saw it being made. Every other Idle means that it has left: drained,
    rolled back, or healed elsewhere, whatever frames between were superseded.
    """
    if frame.removed or frame.state == provider_pb2.DELETING:
        return None
    if frame.state == provider_pb2.IDLE:
        return "Launched" if stored in _ON_ITS_WAY else None
    if frame.state == provider_pb2.DRAINING and stored == "Drained":
        return "Drained"
    return _PHASES.get(frame.state, "Provisioning")


def wanted_spec(frame: NodeStateUpdate) -> Object:
    spec: Object = {"resources": dict(frame.resources.resources), "labels": dict(frame.labels)}
    if frame.taints:
        spec["taints"] = [{"key": t.key, "value": t.value, "effect": t.effect} for t in frame.taints]
    return spec


def spec_changes(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """The merge patch from `stored` to `wanted`; empty when nothing differs."""
    changes: Object = {key: value for key, value in wanted.items() if stored.get(key) != value}
    for mapping in ("resources", "labels"):
        if mapping in changes:
            # A merge patch only removes what it names.
            gone = (stored.get(mapping) or {}).keys() - wanted[mapping].keys()
            changes[mapping] = wanted[mapping] | dict.fromkeys(gone)
    if stored.get("taints") and "taints" not in wanted:
        changes["taints"] = None
    return changes


def status_changes(stored: Mapping[str, Any], phase: str, frame: NodeStateUpdate, now: str) -> Object:
    """The merge patch of the status. What the frame leaves empty stays; an error is over when the node is Ready."""
    wanted: Object = {"phase": phase}
    if frame.node_name:
        wanted["nodeRef"] = {"apiVersion": "v1", "kind": "Node", "name": frame.node_name}
    if frame.provider_id:
        wanted["providerID"] = frame.provider_id
    if frame.last_error:
        wanted["lastError"] = frame.last_error
    elif phase == "Ready" and stored.get("lastError"):
        wanted["lastError"] = None
    if not stored.get("provisioningStartTime"):
        wanted["provisioningStartTime"] = now
    return {key: value for key, value in wanted.items() if stored.get(key) != value}


def is_as_told(record: Object, frame: NodeStateUpdate) -> bool:
    """Whether a record, as the apiserver has stored it, promises the machine that the shard spoke of."""
    spec, status = record["spec"], record.get("status") or {}
    said = (("providerID", frame.provider_id), ("lastError", frame.last_error))
    return (
        (spec.get("resources") or {}) == frame.resources.resources
        and (spec.get("labels") or {}) == frame.labels
        and all(status.get(field) == value for field, value in said if value)
    )


def new_record(machine: str, frame: NodeStateUpdate) -> Object:
    return {
        "apiVersion": UPCOMING_NODES.api_version,
        "kind": "UpcomingNode",
        "metadata": {"name": record_name(machine)},
        "spec": wanted_spec(frame),
    }
