"""What this kubelet refuses to run, and what it accepts without enforcing it."""

from collections.abc import Iterator
from typing import Any

from bigfleet.kube import Object

_VOLUME_KINDS = {"emptyDir", "configMap", "secret", "projected", "downwardAPI"}
_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
_UNENFORCED_SECURITY = (
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "fsGroup",
    "supplementalGroups",
    "readOnlyRootFilesystem",
    "capabilities",
    "seccompProfile",
    "allowPrivilegeEscalation",
)


def refusal(pod: Object) -> str | None:
    """Why this pod cannot run as local processes, or None if it can."""
    return next(_objections(pod["spec"]), None)


def unenforced(pod: Object) -> list[str]:
    """The settings of this pod that are accepted but have no effect here."""
    spec = pod["spec"]
    contexts = [spec.get("securityContext") or {}]
    contexts += [container.get("securityContext") or {} for container in _containers(spec)]
    found = [name for name in _UNENFORCED_SECURITY if any(name in context for context in contexts)]
    if any((container.get("resources") or {}).get("limits") for container in _containers(spec)):
        found.append("limits")
    if any("lifecycle" in container for container in _containers(spec)):
        found.append("lifecycle hooks")
    return found


def _objections(spec: dict[str, Any]) -> Iterator[str]:
    for name in _HOST_NAMESPACES:
        if spec.get(name):
            yield f"{name} is refused"
    for volume in spec.get("volumes") or []:
        kinds = set(volume) - {"name"}
        if "hostPath" in kinds:
            yield f"volume {volume['name']}: hostPath is refused"
        elif kinds - _VOLUME_KINDS:
            yield f"volume {volume['name']}: {', '.join(sorted(kinds))} is not supported"
    for container in _containers(spec):
        name = container["name"]
        if (container.get("securityContext") or {}).get("privileged"):
            yield f"container {name}: privileged is refused"
        if container.get("restartPolicy"):
            yield f"init container {name}: restartPolicy is not supported"
        if any("grpc" in container.get(probe, {}) for probe in _PROBES):
            yield f"container {name}: grpc probes are not supported"


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *spec["containers"]]
