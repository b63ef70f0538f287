"""The one Node of a host, and what it may do."""

import os
import platform
from pathlib import Path

from bigfleet.kube import KubeClient, Object, Resource
from bigfleet.kube.resources import NODES
from scaletest.host.addresses import KUBELET_PORT, Network
from scaletest.host.credentials import KUBELET_USER, NODE_NAME
from scaletest.host.kubelet.events import timestamp

# Requests are bookkeeping here, and charts are sized for larger machines: promise more than there is.
_CPU_FACTOR = 4
_MEMORY_FACTOR = 2
_MAX_PODS = 1000
_ROLE = "scaletest:process-kubelet"

_CLUSTER_ROLES = Resource("clusterroles", "rbac.authorization.k8s.io", namespaced=False)
_CLUSTER_ROLE_BINDINGS = Resource("clusterrolebindings", "rbac.authorization.k8s.io", namespaced=False)


def capacity(directory: Path) -> dict[str, str]:
    """What the Node offers to the scheduler; `directory` tells the disk."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs(directory)
    return {
        "cpu": str((os.cpu_count() or 1) * _CPU_FACTOR),
        "memory": str(memory * _MEMORY_FACTOR),
        "ephemeral-storage": str(disk.f_blocks * disk.f_frsize),
        "pods": str(_MAX_PODS),
    }


async def grant_kubelet_rights(admin: KubeClient) -> None:
    """Allow the kubelet's user what it needs and no more."""

    def rule(resources: list[str], verbs: list[str]) -> Object:
        return {"apiGroups": [""], "resources": resources, "verbs": verbs}

    role = {
        "metadata": {"name": _ROLE},
        "rules": [
            rule(["nodes"], ["create", "get"]),
            rule(["nodes/status", "pods/status"], ["patch"]),
            rule(["pods"], ["get", "list", "watch", "delete"]),
            rule(["configmaps", "secrets", "services"], ["get", "list", "watch"]),
            rule(["serviceaccounts/token", "events"], ["create"]),
        ],
    }
    binding = {
        "metadata": {"name": _ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_USER}],
    }
    await admin.create(_CLUSTER_ROLES, role)
    await admin.create(_CLUSTER_ROLE_BINDINGS, binding)


async def register(client: KubeClient, network: Network, resources: dict[str, str], version: str) -> None:
    """Create the Node and declare it Ready."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME, "labels": labels}}
    await client.create(NODES, node)
    now = timestamp()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the process kubelet runs pods as local processes",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [ready],
        "addresses": [
            {"type": "InternalIP", "address": network.control_plane},
            {"type": "Hostname", "address": NODE_NAME},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        "nodeInfo": {
            "architecture": machine,
            "operatingSystem": "linux",
            "kernelVersion": platform.release(),
            "osImage": "embedded host",
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": version,
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }
    await client.patch(NODES, NODE_NAME, {"status": status}, subresource="status", kind="merge")
