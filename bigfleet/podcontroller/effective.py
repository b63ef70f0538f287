"""What a Pod really asks for, by kube-scheduler's own rule: init containers, sidecars, pod-level requests, overhead."""

from collections.abc import Iterable

from bigfleet.core.vectors import Vector, add, largest, parse_vector
from bigfleet.podcontroller.pods import Container, PodSpec, Resources

_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"


def effective_request(spec: PodSpec) -> Vector:
    """max(containers + sidecars, the peak of the init stages), replaced by pod-level requests, plus overhead.

    Sidecars are init containers that restart: each runs beside all that start after it.
    """
    running = _sum(spec.containers)
    sidecars: Vector = {}
    peak: Vector = {}
    for container in spec.init_containers:
        request = _request(container.resources)
        stage = add(sidecars, request)
        peak = largest(peak, stage)
        if container.restart_policy == "Always":
            sidecars = stage
    total = largest(add(running, sidecars), peak)
    for name, milli in _request(spec.resources).items():
        if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX):
            total[name] = milli
    return add(total, parse_vector(spec.overhead))


def _request(resources: Resources) -> Vector:
    return parse_vector(resources.requests)


def _sum(containers: Iterable[Container]) -> Vector:
    total: Vector = {}
    for container in containers:
        total = add(total, _request(container.resources))
    return total
