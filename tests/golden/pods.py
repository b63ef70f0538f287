"""The pods of a rendered chart, and the rules that they are held against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.golden.rendering import Object


@dataclass(frozen=True)
class Workload:
    """A StatefulSet and the pod that it makes."""

    name: str
    service: str
    replicas: int
    labels: dict[str, str]
    spec: Object

    @property
    def component(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def containers(self) -> list[Object]:
        return list(self.spec["containers"])

    @property
    def all_containers(self) -> list[Object]:
        return [*self.spec.get("initContainers", []), *self.containers]

    @property
    def ports(self) -> dict[int, str]:
        return {port["containerPort"]: port["name"] for one in self.containers for port in one.get("ports", [])}


def workloads(objects: list[Object]) -> dict[str, Workload]:
    """The chart's pods by the name of what makes them."""
    return {
        one["metadata"]["name"]: Workload(
            one["metadata"]["name"],
            one["spec"]["serviceName"],
            one["spec"]["replicas"],
            one["spec"]["template"]["metadata"]["labels"],
            one["spec"]["template"]["spec"],
        )
        for one in objects
        if one["kind"] == "StatefulSet"
    }


def environment(container: Object) -> dict[str, str]:
    """The variables of a container as its arguments see them in pod 0 of the StatefulSet that is named after it."""
    pod = f"bigfleet-{container['name']}-0"
    downward = {"metadata.name": pod, "metadata.namespace": "bigfleet-scaletest", "status.podIP": "10.0.0.7"}
    found: dict[str, str] = {}
    for entry in container.get("env", []):
        value = entry["value"] if "value" in entry else downward[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        found[entry["name"]] = expanded(value, found)
    return found


def expanded(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


_RESTRICTED_VOLUMES = {
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def pod_security_violations(spec: Object) -> list[str]:
    """What the PodSecurity level `restricted` (v1.34) would object to, rule by rule."""
    pod = spec.get("securityContext", {})
    return [
        *(f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)),
        *(
            f"volume {volume['name']} is a {kind}"
            for volume in spec.get("volumes", [])
            for kind in set(volume) - {"name"} - _RESTRICTED_VOLUMES
        ),
        *(
            f"container {one['name']}: {problem}"
            for one in [*spec.get("initContainers", []), *spec["containers"]]
            for problem in _container_violations(one.get("securityContext", {}), pod, one)
        ),
        *(["sysctls are set"] if pod.get("sysctls") else []),
    ]


def _container_violations(own: Object, pod: Object, container: Object) -> Iterator[str]:
    def effective(name: str) -> Any:
        return own.get(name, pod.get(name))

    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may escalate"
    if own.get("capabilities", {}).get("drop") != ["ALL"] or set(own["capabilities"].get("add", [])) - {
        "NET_BIND_SERVICE"
    }:
        yield "keeps capabilities"
    if effective("runAsNonRoot") is not True:
        yield "may run as root"
    if effective("runAsUser") == 0:
        yield "runs as root"
    if (effective("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    if own.get("procMount", "Default") != "Default":
        yield "sees an unmasked /proc"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield "takes a host port"
