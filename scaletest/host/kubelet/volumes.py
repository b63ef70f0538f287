"""The files of a pod's volumes: what ConfigMaps, Secrets, tokens and the downward API put into a directory."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import SERVICE_ACCOUNTS
from scaletest.host.kubelet.environment import field_value
from scaletest.host.kubelet.references import References, Unresolvable

_DEFAULT_MODE = 0o644
_PRIVATE_MODE = 0o600
_TOKEN_SECONDS = 3600
# A token is renewed when this much of its life is over, as kubelets do.
_TOKEN_RENEWAL = 0.8


@dataclass(frozen=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int = _DEFAULT_MODE


@dataclass(frozen=True)
class PodFacts:
    """What the volumes of a pod are made from."""

    pod: Object
    pod_ip: str
    host_ip: str
    client: KubeClient
    references: References


async def volume_files(
    volume: Mapping[str, Any], facts: PodFacts, rewrite: Callable[[str], Awaitable[str]]
) -> dict[str, File]:
    """The files of a volume by relative path. ConfigMap text is rewritten for its reader; Secrets are left alone."""
    if "projected" in volume:
        projected = volume["projected"]
        mode = projected.get("defaultMode", _DEFAULT_MODE)
        files: dict[str, File] = {}
        for source in projected.get("sources") or []:
            for kind, body in source.items():
                files |= await _source_files(kind, body, mode, facts, rewrite)
        return files
    for kind in ("configMap", "secret", "downwardAPI"):
        if kind in volume:
            body = volume[kind]
            return await _source_files(kind, body, body.get("defaultMode", _DEFAULT_MODE), facts, rewrite)
    raise Unresolvable(f"volume {volume['name']} has no source that is supported")


async def _source_files(
    kind: str, body: Mapping[str, Any], mode: int, facts: PodFacts, rewrite: Callable[[str], Awaitable[str]]
) -> dict[str, File]:
    optional = body.get("optional", False)
    if kind == "configMap":
        keys = await facts.references.config_map(body["name"], optional=optional)
        rewritten = {key: await _rewritten(content, rewrite) for key, content in keys.items()}
        return _chosen(rewritten, body, mode, optional)
    if kind == "secret":
        keys = await facts.references.secret(body.get("secretName") or body["name"], optional=optional)
        return _chosen(keys, body, mode, optional)
    if kind == "downwardAPI":
        return {item["path"]: File(_downward(item, facts), item.get("mode", mode)) for item in body.get("items") or []}
    if kind == "serviceAccountToken":
        return {body["path"]: File(await _token(body, facts), _PRIVATE_MODE)}
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


async def _rewritten(content: bytes, rewrite: Callable[[str], Awaitable[str]]) -> bytes:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    return (await rewrite(text)).encode()


def _downward(item: Mapping[str, Any], facts: PodFacts) -> bytes:
    if "fieldRef" not in item:
        raise Unresolvable(f"downwardAPI item {item['path']}: only fieldRef is supported")
    return field_value(facts.pod, item["fieldRef"]["fieldPath"], facts.pod_ip, facts.host_ip).encode()


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
    for volume in pod["spec"].get("volumes") or []:
        for source in [volume, *(volume.get("projected", {}).get("sources") or [])]:
            if "configMap" in source:
                found.add(("configmaps", source["configMap"]["name"]))
            if "secret" in source:
                found.add(("secrets", source["secret"].get("secretName") or source["secret"]["name"]))
    return found


def write_files(directory: Path, files: Mapping[str, File]) -> None:
    """Make the directory hold exactly these files; a reader sees each one whole, old or new."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, file in files.items():
        path = directory / name
        mode = file.mode | _PRIVATE_MODE
        if path.is_file() and path.read_bytes() == file.content and path.stat().st_mode & 0o777 == mode:
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f"..{path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_MODE)
        with os.fdopen(descriptor, "wb") as output:
            output.write(file.content)
        fresh.chmod(mode)
        fresh.replace(path)
    wanted = {directory / name for name in files}
    for path in directory.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
