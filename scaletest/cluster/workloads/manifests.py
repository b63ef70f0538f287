"""The Kubernetes objects of drawn demand: a Deployment or StatefulSet whose Pods ask for what the draw says."""

from typing import Any

from bigfleet.kube import Object, Resource
from bigfleet.kube.resources import DEPLOYMENTS, STATEFUL_SETS
from scaletest.model.demand.draw import Workload
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY

NAMESPACE = "default"
WORKLOAD_LABEL = "scaletest.bigfleet/workload"
STATE_LABEL = "scaletest.bigfleet/state"
GROUP_LABEL = "scaletest.bigfleet/co-location-group"
INTERRUPTION_PENALTY = "bigfleet.lucy.sh/interruption-penalty"
RECLAMATION_PENALTY = "bigfleet.lucy.sh/reclamation-penalty"

_IMAGE = "pause:3.10"  # never pulled: kwok runs nothing


def resource_of(workload: Workload) -> Resource:
    return STATEFUL_SETS if workload.stateful else DEPLOYMENTS


def manifest_of(workload: Workload, steady: bool = False) -> Object:
    """The object to create for a drawn workload; `steady` marks what comes after the first fill."""
    selector = {WORKLOAD_LABEL: workload.name}
    spec: dict[str, Any] = {
        "replicas": workload.replicas,
        "selector": {"matchLabels": selector},
        "template": _pod_template(workload, steady),
    }
    if workload.stateful:
        # In order, the second Pod would wait for the first one's machine, and the demand would never be whole.
        spec |= {"serviceName": workload.name, "podManagementPolicy": "Parallel"}
    else:
        spec |= {"revisionHistoryLimit": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet" if workload.stateful else "Deployment",
        "metadata": {"name": workload.name, "namespace": NAMESPACE, "labels": _labels(workload, steady)},
        "spec": spec,
    }


def _labels(workload: Workload, steady: bool) -> dict[str, str]:
    labels = {ARCHETYPE_LABEL: workload.archetype.name, WORKLOAD_LABEL: workload.name}
    if workload.group:
        labels[GROUP_LABEL] = workload.group
    return labels | {STATE_LABEL: "steady"} if steady else labels


def _pod_template(workload: Workload, steady: bool) -> Object:
    archetype, resources = workload.archetype, workload.size.resources
    spec: dict[str, Any] = {
        "priority": workload.priority,
        "affinity": _affinity(workload),
        "containers": [
            {
                "name": "workload",
                "image": _IMAGE,
                "resources": {"requests": resources, "limits": resources},
            }
        ],
    }
    if archetype.spread and workload.has_spread:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": archetype.spread.topology_key,
                "maxSkew": archetype.spread.max_skew,
                "whenUnsatisfiable": archetype.spread.when_unsatisfiable,
                "labelSelector": {"matchLabels": counted_by_spread(workload)},
            }
        ]
    annotations = {
        INTERRUPTION_PENALTY: _dollars(archetype.interruption_penalty),
        RECLAMATION_PENALTY: _dollars(archetype.reclamation_penalty),
    }
    return {"metadata": {"labels": _labels(workload, steady), "annotations": annotations}, "spec": spec}


def counted_by_spread(workload: Workload) -> dict[str, str]:
    """The label of the Pods among which a workload spreads: those of its archetype if they are all alike, else its own.

    BigFleet is not told which Pods a rule counts, so a rule that counts Pods of other needs or sizes asks for what
    BigFleet cannot provide (ADR-34).
    """
    if workload.archetype.is_one_need:
        return {ARCHETYPE_LABEL: workload.archetype.name}
    return {WORKLOAD_LABEL: workload.name}


def _affinity(workload: Workload) -> Object:
    affinity: dict[str, Any] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": _node_requirements(workload)}]
            }
        }
    }
    if workload.archetype.gang:
        affinity["podAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": workload.archetype.gang.topology_key,
                    "labelSelector": {"matchLabels": {GROUP_LABEL: workload.group}},
                }
            ]
        }
    return affinity


def _node_requirements(workload: Workload) -> list[Object]:
    allowed = {
        INSTANCE_TYPE_KEY: list(workload.archetype.instance_types),
        ZONE_KEY: list(workload.archetype.zones),
        **{key: [value] for key, value in workload.node_labels.items()},
    }
    return [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]


def _dollars(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else str(amount)
