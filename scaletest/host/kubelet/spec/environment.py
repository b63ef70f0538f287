"""The environment variables of a container, as its pod spec asks for them."""

from collections.abc import Mapping
from typing import Any

from bigfleet.core.quantity import parse_milli
from bigfleet.kube import Object
from scaletest.host.credentials import NODE_NAME
from scaletest.host.kubelet.spec.expansion import expand
from scaletest.host.kubelet.spec.references import References, Unresolvable


def field_value(pod: Object, path: str, pod_ip: str, host_ip: str) -> str:
    """What a downward `fieldRef` stands for."""
    metadata, spec = pod["metadata"], pod["spec"]
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": NODE_NAME,
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path in simple:
        return str(simple[path])
    kind, _, key = path.partition("[")
    values: Mapping[str, str] | None = {
        "metadata.labels": metadata.get("labels") or {},
        "metadata.annotations": metadata.get("annotations") or {},
    }.get(kind)
    if values is None:
        raise Unresolvable(f"fieldRef {path} is not supported")
    if key:
        return values.get(key.rstrip("]").strip("'\""), "")
    return "\n".join(f'{name}="{value}"' for name, value in sorted(values.items()))


def resource_value(container: Mapping[str, Any], reference: Mapping[str, str], allocatable: Mapping[str, str]) -> str:
    """What a downward `resourceFieldRef` stands for; a limit that is not set is all that the node has."""
    kind, _, name = reference["resource"].partition(".")
    asked = (container.get("resources") or {}).get(kind) or {}
    quantity = asked.get(name) or (allocatable.get(name) if kind == "limits" else "0")
    if quantity is None:
        raise Unresolvable(f"resourceFieldRef {reference['resource']} is not supported")
    divisor = parse_milli(reference.get("divisor") or "1") or 1000
    return str(-(-parse_milli(str(quantity)) // divisor))


async def declared_environment(
    pod: Object,
    container: Mapping[str, Any],
    references: References,
    *,
    given: Mapping[str, str],
    pod_ip: str,
    host_ip: str,
    allocatable: Mapping[str, str],
) -> dict[str, str]:
    """The variables of `envFrom` and `env`, in order and expanded; `given` are those that exist before them."""
    declared: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix", "")
        for key, content in (await _all_keys(source, references)).items():
            declared[prefix + key] = content.decode(errors="replace")
    for entry in container.get("env") or []:
        origin = entry.get("valueFrom")
        if not origin:
            declared[entry["name"]] = expand(entry.get("value", ""), {**given, **declared})
        elif "fieldRef" in origin:
            declared[entry["name"]] = field_value(pod, origin["fieldRef"]["fieldPath"], pod_ip, host_ip)
        elif "resourceFieldRef" in origin:
            declared[entry["name"]] = resource_value(container, origin["resourceFieldRef"], allocatable)
        else:
            value = await _one_key(origin, references)
            if value is not None:
                declared[entry["name"]] = value
    return declared


async def _all_keys(source: Mapping[str, Any], references: References) -> dict[str, bytes]:
    if "configMapRef" in source:
        reference = source["configMapRef"]
        return await references.config_map(reference["name"], optional=reference.get("optional", False))
    reference = source["secretRef"]
    return await references.secret(reference["name"], optional=reference.get("optional", False))


async def _one_key(origin: Mapping[str, Any], references: References) -> str | None:
    if "configMapKeyRef" in origin:
        kind, reference, read = "configmap", origin["configMapKeyRef"], references.config_map
    elif "secretKeyRef" in origin:
        kind, reference, read = "secret", origin["secretKeyRef"], references.secret
    else:
        raise Unresolvable(f"env source {', '.join(origin)} is not supported")
    optional = reference.get("optional", False)
    keys = await read(reference["name"], optional=optional)
    if reference["key"] not in keys:
        if optional:
            return None
        raise Unresolvable(f'couldn\'t find key {reference["key"]} in {kind} "{reference["name"]}"')
    return keys[reference["key"]].decode(errors="replace")
