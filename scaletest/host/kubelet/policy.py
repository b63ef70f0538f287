"""What this kubelet refuses to run, and what it accepts without enforcing it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bigfleet.kube import Object
from scaletest.host.kubelet.spec.selectors import matches

_VOLUME_KINDS = {"emptyDir", "configMap", "secret", "projected", "downwardAPI", "persistentVolumeClaim"}
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
    "appArmorProfile",
    "seLinuxOptions",
    "allowPrivilegeEscalation",
    "procMount",
    "sysctls",
)


def refusals(pod: Object) -> list[str]:
    """Why this pod cannot run as local processes; nothing if it can."""
    return list(_objections(pod["spec"]))


def unenforced(pod: Object, policies: Iterable[Object] = (), *, isolated: bool = True) -> list[str]:
    """The settings of this pod that are accepted but have no effect here, in plain words."""
    spec = pod["spec"]
    containers = _containers(spec)
    contexts = [spec.get("securityContext") or {}]
    contexts += [container.get("securityContext") or {} for container in containers]
    found = [name for name in _UNENFORCED_SECURITY if any(name in context for context in contexts)]
    if any((container.get("resources") or {}).get("limits") for container in containers):
        found.append("resource limits")
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
    empty = [volume["emptyDir"] for volume in volumes.values() if "emptyDir" in volume]
    if any(one.get("medium") == "Memory" for one in empty):
        found.append("emptyDir in memory (it is on disk)")
    if any("sizeLimit" in one for one in empty):
        found.append("emptyDir sizeLimit")
    read_only = {
        mount["name"] for one in containers for mount in one.get("volumeMounts") or [] if mount.get("readOnly")
    }
    # The kubelet rewrites volumes of the other kinds when their source changes, so a container's writes do not last.
    if any(kind in volumes[name] for name in read_only for kind in ("emptyDir", "persistentVolumeClaim")):
        found.append("read-only mounts")
    if any(_selects(policy, pod) for policy in policies):
        found.append("NetworkPolicy")
    if not isolated:
        found.append("names that a program makes up at run time (no user namespaces here: only written ones resolve)")
        if spec.get("hostAliases"):
            found.append("hostAliases")
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
        if any(port.get("hostPort") for port in container.get("ports") or []):
            yield f"container {name}: hostPort is refused"
        if container.get("volumeDevices"):
            yield f"container {name}: volumeDevices are not supported"
        if any("grpc" in (container.get(probe) or {}) for probe in _PROBES):
            yield f"container {name}: grpc probes are not supported"


def _containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *spec["containers"]]


def _selects(policy: Object, pod: Object) -> bool:
    if policy["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    return matches(policy["spec"].get("podSelector") or {}, pod["metadata"].get("labels") or {})
