"""The CapacityRequest of a Pod, and what of the Pod could not be put into it. Pure.

docs/reference/engine.md#pod-controller says where each field comes from.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.core.labels import selector_problem
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, OPERATOR_NAMES
from bigfleet.core.vectors import format_vector
from bigfleet.kube import Object
from bigfleet.kube.resources import CAPACITY_REQUESTS
from bigfleet.podcontroller.effective import effective_request
from bigfleet.podcontroller.penalties import Defaults, penalties_of
from bigfleet.podcontroller.pods import Pod, PodSpec

OWNED_BY_POD = "bigfleet.lucy.sh/owned-by-pod"
_LONGEST_NAME = 253
_UID_DIGITS = 8


@dataclass(frozen=True)
class Translation:
    """A CapacityRequest's spec, and sentences about what it does not say."""

    spec: Object
    problems: tuple[str, ...]


def request_name(pod: Pod) -> str:
    """One name per Pod life, readable, and the same however often we ask for it."""
    prefix, suffix = "cr-pod-", f"-{pod.metadata.uid[:_UID_DIGITS]}"
    room = _LONGEST_NAME - len(prefix) - len(suffix)
    return f"{prefix}{pod.metadata.name[:room].rstrip('-.')}{suffix}"


def request_of(pod: Pod, spec: Object) -> Object:
    """The object to create. Owned by its Pod, so that Kubernetes deletes it even while no pod-controller runs."""
    metadata = pod.metadata
    return {
        "apiVersion": CAPACITY_REQUESTS.api_version,
        "kind": "CapacityRequest",
        "metadata": {
            "name": request_name(pod),
            "namespace": metadata.namespace,
            "labels": {OWNED_BY_POD: metadata.uid},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata.name,
                    "uid": metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }


def translate(pod: Pod, defaults: Defaults) -> Translation:
    """What the Pod needs of its node.

    A constraint that cannot be said is left out and named. Leaving out the whole Pod would be worse: a bound
    Pod without a request makes its machine look unused.
    """
    spec = pod.spec
    problems: list[str] = []
    penalties = penalties_of(pod, defaults)
    problems += penalties.problems
    request: Object = {
        "priority": spec.priority,
        "resources": format_vector(effective_request(spec)),
        "requirements": _requirements(spec, problems),
        **penalties.fields,
    }
    spread = _spread(spec, problems)
    if spread:
        request["topologySpread"] = spread
    colocation = _colocation(spec, problems)
    if colocation:
        request["coLocation"] = colocation
    problems += _not_counted(spec)
    return Translation(request, tuple(problems))


def _requirements(spec: PodSpec, problems: list[str]) -> list[Object]:
    affinity = spec.affinity.get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    if len(terms) > 1:
        problems.append("only the first of several nodeSelectorTerms counts")
    term = terms[0] if terms else {}
    if term.get("matchFields"):
        problems.append("matchFields of a nodeSelectorTerm cannot be asked for")
    requirements: list[Object] = []
    for key, value in sorted(spec.node_selector.items()):
        if problem := selector_problem(key, [value]):
            problems.append(f"nodeSelector {key} cannot be asked for: {problem}")
        else:
            requirements.append({"key": key, "operator": "In", "values": [value]})
    for expression in term.get("matchExpressions") or []:
        if expression["operator"] not in OPERATOR_NAMES:
            problems.append(f"operator {expression['operator']} on {expression['key']} cannot be asked for")
            continue
        # The apiserver lets older Pods keep such values. kube-scheduler matches them with no node at all.
        if problem := selector_problem(expression["key"], expression.get("values") or []):
            problems.append(f"operator {expression['operator']} on {expression['key']} cannot be asked for: {problem}")
            continue
        requirement: Object = {"key": expression["key"], "operator": expression["operator"]}
        if expression.get("values"):
            requirement["values"] = sorted(expression["values"])
        if requirement not in requirements:
            requirements.append(requirement)
    if not requirements:
        return [{"key": INSTANCE_TYPE_KEY, "operator": "Exists"}]
    return sorted(requirements, key=lambda item: (item["key"], item["operator"], item.get("values", [])))


def _spread(spec: PodSpec, problems: list[str]) -> list[Object]:
    terms = spec.topology_spread_constraints
    if any(term.get("minDomains") for term in terms):
        problems.append("minDomains of a topologySpreadConstraint cannot be asked for")
    return [{key: term[key] for key in ("topologyKey", "maxSkew", "whenUnsatisfiable")} for term in terms]


def _not_counted(spec: PodSpec) -> Iterator[str]:
    """What a node must have besides the resources that are asked for."""
    if spec.resource_claims:
        yield "resourceClaims cannot be asked for"
    if any(port.host_port for container in (*spec.containers, *spec.init_containers) for port in container.ports):
        yield "that a hostPort is free cannot be asked for"
    if any(volume.claimed for volume in spec.volumes):
        yield "a node from which a PersistentVolume can be reached cannot be asked for"


def _colocation(spec: PodSpec, problems: list[str]) -> Object | None:
    affinity = spec.affinity
    if (affinity.get("podAntiAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
        problems.append("required podAntiAffinity cannot be asked for")
    terms = (affinity.get("podAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []
    if not terms:
        return None
    if len(terms) > 1:
        problems.append("only the first of several required podAffinity terms counts")
    if terms[0].get("namespaces") or terms[0].get("namespaceSelector") is not None:
        problems.append("podAffinity to Pods of other namespaces cannot be asked for")
    colocation: Object = {"topologyKey": terms[0]["topologyKey"]}
    if terms[0].get("labelSelector") is not None:
        colocation["labelSelector"] = terms[0]["labelSelector"]
    return colocation
