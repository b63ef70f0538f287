"""What a Pod really asks for, by kube-scheduler's own rule: init containers, sidecars, pod-level requests, overhead."""

from collections.abc import Iterable, Mapping
from typing import Any

from bigfleet.core.vectors import Vector, add, largest, parse_vector

_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"


def effective_request(spec: Mapping[str, Any]) -> Vector:
    """max(containers + sidecars, the peak of the init stages), replaced by pod-level requests, plus overhead.

    Sidecars are init containers that restart: each runs beside all that start after it.
    """
    running = _sum(spec.get("containers") or [])
    sidecars: Vector = {}
    peak: Vector = {}
    for container in spec.get("initContainers") or []:
        request = _request(container)
        stage = add(sidecars, request)
        peak = largest(peak, stage)
        if container.get("restartPolicy") == "Always":
            sidecars = stage
    total = largest(add(running, sidecars), peak)
    for name, milli in _request(spec).items():
        if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX):
            total[name] = milli
    return add(total, parse_vector(spec.get("overhead") or {}))


def _request(holder: Mapping[str, Any]) -> Vector:
    return parse_vector((holder.get("resources") or {}).get("requests") or {})


def _sum(containers: Iterable[Mapping[str, Any]]) -> Vector:
    total: Vector = {}
    for container in containers:
        total = add(total, _request(container))
    return total
