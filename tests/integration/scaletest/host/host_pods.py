"""Manifests for pods on the embedded host, and what to look for in what becomes of them."""

from typing import Any

import aiohttp

# What PodSecurity `restricted` wants to see.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SERVE = "exec python -u -m http.server 8080 --bind $(POD_IP) --directory /www"
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
POD_NAME = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def script(name: str, text: str, **other: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": "none", "command": ["sh", "-c", text], "securityContext": RESTRICTED} | other


def pod(name: str, *containers: dict[str, Any], namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": list(containers)} | spec,
    }


def config_map(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def is_over(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def container_of(pod: dict[str, Any], index: int = 0) -> dict[str, Any]:
    status: dict[str, Any] = pod["status"]["containerStatuses"][index]
    return status


def process_of(pod: dict[str, Any]) -> int:
    return int(container_of(pod)["containerID"].removeprefix("process://"))


async def page_of(pod: dict[str, Any]) -> str:
    url = f"http://{pod['status']['podIP']}:8080/index.html"
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        return (await answer.text()).strip()
