"""What the CapacityRequest of a drawn Pod has to say, and in which fields one says something else."""

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from bigfleet.kube import Object
from scaletest.cluster.witness.amounts import amounts_of, milli_of
from scaletest.cluster.workloads.manifests import GROUP_LABEL
from scaletest.model.demand.draw import Workload
from scaletest.model.labels import INSTANCE_TYPE_KEY, ZONE_KEY

OWNER = "owner"
# Not equal to anything that is expected.
_UNREADABLE = "unreadable"
_CACHED = 8192


class Expected:
    """The requests of one cluster's Pods; replicas are alike, so that few specs are really read."""

    def __init__(self, workloads: Mapping[str, Workload]) -> None:
        self._workloads = workloads
        self.differences = lru_cache(maxsize=_CACHED)(self._differences)

    def _differences(self, workload: str, spec: str) -> tuple[str, ...]:
        """The fields of a spec, as JSON, that a Pod of this workload does not ask for; none if it was not drawn."""
        drawn = self._workloads.get(workload)
        return differences(expected_of(drawn), msgspec.json.decode(spec)) if drawn else ()


def differences(expected: Mapping[str, Hashable], spec: Object) -> tuple[str, ...]:
    return tuple(field for field in SPEC_FIELDS if _read(field, spec) != expected[field])


def expected_of(workload: Workload) -> dict[str, Hashable]:
    """Field → what it says, in the form in which specs are read."""
    archetype = workload.archetype
    needed = {
        INSTANCE_TYPE_KEY: archetype.instance_types,
        ZONE_KEY: archetype.zones,
        **{axis.key: (axis.value(index),) for axis, index in zip(archetype.label_axes, workload.axes, strict=True)},
    }
    gang, spread = archetype.gang, archetype.spread
    return {
        "priority": workload.priority,
        "resources": frozenset(amounts_of(workload.size.resources).items()),
        "requirements": frozenset((key, "In", tuple(sorted(values))) for key, values in needed.items()),
        "coLocation": (gang.topology_key, frozenset({(GROUP_LABEL, workload.group)}), ()) if gang else None,
        "topologySpread": ((spread.topology_key, spread.max_skew, spread.when_unsatisfiable),)
        if spread and workload.has_spread
        else (),
        "interruptionPenalty": milli_of(str(archetype.interruption_penalty)),
        "reclamationPenalty": milli_of(str(archetype.reclamation_penalty)),
    }


def _read(field: str, spec: Object) -> Hashable:
    try:
        return _READERS[field](spec)
    except (AttributeError, KeyError, TypeError, ValueError):
        return _UNREADABLE


def _resources(spec: Object) -> Hashable:
    return frozenset((name, milli) for name, milli in amounts_of(spec["resources"]).items() if milli)


def _requirements(spec: Object) -> Hashable:
    items = spec.get("requirements") or []
    return frozenset((item["key"], item["operator"], tuple(sorted(item.get("values") or []))) for item in items)


def _colocation(spec: Object) -> Hashable:
    if not (said := spec.get("coLocation")):
        return None
    selector = said.get("labelSelector") or {}
    labels = frozenset((selector.get("matchLabels") or {}).items())
    return said["topologyKey"], labels, tuple(map(str, selector.get("matchExpressions") or ()))


def _spread(spec: Object) -> Hashable:
    terms = spec.get("topologySpread") or []
    return tuple(sorted((term["topologyKey"], term["maxSkew"], term["whenUnsatisfiable"]) for term in terms))


def _penalty(field: str) -> Callable[[Object], Hashable]:
    return lambda spec: milli_of(str(spec[field]))


_READERS: dict[str, Callable[[Any], Hashable]] = {
    "priority": lambda spec: spec["priority"],
    "resources": _resources,
    "requirements": _requirements,
    "coLocation": _colocation,
    "topologySpread": _spread,
    "interruptionPenalty": _penalty("interruptionPenalty"),
    "reclamationPenalty": _penalty("reclamationPenalty"),
}
SPEC_FIELDS = tuple(_READERS)
FIELDS = (*SPEC_FIELDS, OWNER)
