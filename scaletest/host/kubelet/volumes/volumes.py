"""The files of a pod's volumes: what ConfigMaps, Secrets, tokens and the downward API put into a directory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import SERVICE_ACCOUNTS
from scaletest.host.kubelet.spec.environment import field_value, resource_value
from scaletest.host.kubelet.spec.payload import DEFAULT_MODE, PRIVATE_MODE, File
from scaletest.host.kubelet.spec.references import References, Unmountable, Unresolvable

_TOKEN_SECONDS = 3600
# A token is renewed when this much of its life is over, as kubelets do.
_TOKEN_RENEWAL = 0.8

Rewrite = Callable[[str], str]


@dataclass(frozen=True)
class PodFacts:
    """What the volumes of a pod are made from."""

    pod: Object
    pod_ip: str
    host_ip: str
    client: KubeClient
    references: References
    allocatable: Mapping[str, str]


async def volume_files(volume: Mapping[str, Any], facts: PodFacts, rewrite: Rewrite) -> dict[str, File]:
    """The files of a volume by relative path. ConfigMap text is rewritten for its reader; Secrets are left alone.

    Raises Unmountable, in a kubelet's words, if a source is missing.
    """
    try:
        return await _files(volume, facts, rewrite)
    except Unresolvable as error:
        raise Unmountable(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error


async def _files(volume: Mapping[str, Any], facts: PodFacts, rewrite: Rewrite) -> dict[str, File]:
    if "projected" in volume:
        projected = volume["projected"]
        mode = projected.get("defaultMode", DEFAULT_MODE)
        files: dict[str, File] = {}
        for source in projected.get("sources") or []:
            for kind, body in source.items():
                files |= await _source_files(kind, body, mode, facts, rewrite)
        return files
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            body = volume[kind]
            return await _source_files(kind, body, body.get("defaultMode", DEFAULT_MODE), facts, rewrite)
    raise Unresolvable("it has no source that is supported")


async def _source_files(
    kind: str, body: Mapping[str, Any], mode: int, facts: PodFacts, rewrite: Rewrite
) -> dict[str, File]:
    optional = body.get("optional", False)
    if kind == "configMap":
        keys = await facts.references.config_map(body["name"], optional=optional)
        rewritten = {key: _rewritten(content, rewrite) for key, content in keys.items()}
        return _chosen(rewritten, body, mode, optional)
    if kind == "secret":
        keys = await facts.references.secret(body.get("secretName") or body["name"], optional=optional)
        return _chosen(keys, body, mode, optional)
    if kind == "downwardAPI":
        return {item["path"]: File(_downward(item, facts), item.get("mode", mode)) for item in body.get("items") or []}
    if kind == "serviceAccountToken":
        return {body["path"]: File(await _token(body, facts), PRIVATE_MODE)}
    raise Unresolvable(f"projected source {kind} is not supported")


def _chosen(keys: Mapping[str, bytes], body: Mapping[str, Any], mode: int, optional: bool) -> dict[str, File]:
    items: Sequence[Mapping[str, Any]] | None = body.get("items")
    if items is None:
        return {key: File(content, mode) for key, content in keys.items()}
    missing = [item["key"] for item in items if item["key"] not in keys]
    if missing and not optional:
        raise Unresolvable(f"references non-existent key: {missing[0]}")
    return {
        item["path"]: File(keys[item["key"]], item.get("mode", mode)) for item in items if item["key"] not in missing
    }


def _rewritten(content: bytes, rewrite: Rewrite) -> bytes:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    return rewrite(text).encode()


def _downward(item: Mapping[str, Any], facts: PodFacts) -> bytes:
    if "fieldRef" in item:
        return field_value(facts.pod, item["fieldRef"]["fieldPath"], facts.pod_ip, facts.host_ip).encode()
    reference, spec = item["resourceFieldRef"], facts.pod["spec"]
    for container in [*spec["containers"], *(spec.get("initContainers") or [])]:
        if container["name"] == reference.get("containerName"):
            return resource_value(container, reference, facts.allocatable).encode()
    raise Unresolvable(f"downwardAPI item {item['path']}: no container {reference.get('containerName')}")


async def _token(body: Mapping[str, Any], facts: PodFacts) -> bytes:
    metadata = facts.pod["metadata"]
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [body["audience"]] if body.get("audience") else [],
            "expirationSeconds": body.get("expirationSeconds", _TOKEN_SECONDS),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]},
        },
    }
    account = facts.pod["spec"].get("serviceAccountName", "default")
    answer = await facts.client.create(
        SERVICE_ACCOUNTS, request, metadata["namespace"], name=account, subresource="token"
    )
    return str(answer["status"]["token"]).encode()


def renewal_seconds(pod: Object) -> float | None:
    """After how long the pod's tokens are to be renewed, or None if it has none."""
    lives = [
        source["serviceAccountToken"].get("expirationSeconds", _TOKEN_SECONDS)
        for volume in pod["spec"].get("volumes") or []
        for source in volume.get("projected", {}).get("sources") or []
        if "serviceAccountToken" in source
    ]
    return min(lives) * _TOKEN_RENEWAL if lives else None


def references_of(pod: Object) -> set[tuple[str, str]]:
    """The (`configmaps` | `secrets`, name) pairs whose content the pod's volumes show."""
    found: set[tuple[str, str]] = set()
    for source in _sources(pod):
        if "configMap" in source:
            found.add(("configmaps", source["configMap"]["name"]))
        if "secret" in source:
            found.add(("secrets", source["secret"].get("secretName") or source["secret"]["name"]))
    return found


def shows_itself(pod: Object) -> bool:
    """Whether a volume shows the pod's own labels and annotations, which may change."""
    return any("downwardAPI" in source for source in _sources(pod))


def _sources(pod: Object) -> list[Mapping[str, Any]]:
    volumes = pod["spec"].get("volumes") or []
    return [*volumes, *(source for one in volumes for source in one.get("projected", {}).get("sources") or [])]
