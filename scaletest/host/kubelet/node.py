"""The one Node of a host: what it offers, what its kubelet may do, and that it is alive."""

import asyncio
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import structlog

from bigfleet.kube import AlreadyExists, KubeClient, KubeError, Object, Resource
from bigfleet.kube.resources import NODES
from scaletest.host.addresses import KUBELET_PORT, Network
from scaletest.host.credentials import KUBELET_USER, NODE_NAME
from scaletest.host.kubelet.events import timestamp

# Requests are bookkeeping here, and charts are sized for larger machines: promise more than there is.
_CPU_FACTOR = 4
_MEMORY_FACTOR = 2
_MAX_PODS = 1000
_ROLE = "scaletest:process-kubelet"
_OVERCOMMIT = f"allocatable is {_CPU_FACTOR} times the cores and {_MEMORY_FACTOR} times the memory of this machine"

_LEASE_SECONDS = 40
_RENEWAL_SECONDS = 10.0
_STATUS_SECONDS = 60.0
_SCARCE_DISK = 0.1
_SCARCE_MEMORY_BYTES = 100 * 2**20

_CLUSTER_ROLES = Resource("clusterroles", "rbac.authorization.k8s.io", namespaced=False)
_CLUSTER_ROLE_BINDINGS = Resource("clusterrolebindings", "rbac.authorization.k8s.io", namespaced=False)
_LEASES = Resource("leases", "coordination.k8s.io")
_LEASE_NAMESPACE = "kube-node-lease"

log = structlog.get_logger(__name__)


def capacity(directory: Path) -> dict[str, str]:
    """What the Node offers to the scheduler; `directory` tells the disk."""
    return _resources(directory, _CPU_FACTOR, _MEMORY_FACTOR)


def _resources(directory: Path, cpu_factor: int = 1, memory_factor: int = 1) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs(directory)
    return {
        "cpu": str(len(os.sched_getaffinity(0)) * cpu_factor),
        "memory": str(memory * memory_factor),
        "ephemeral-storage": str(disk.f_blocks * disk.f_frsize),
        "pods": str(_MAX_PODS),
    }


async def grant_kubelet_rights(admin: KubeClient) -> None:
    """Allow the kubelet's user what it needs and no more."""

    def rule(resources: list[str], verbs: list[str], group: str = "") -> Object:
        return {"apiGroups": [group], "resources": resources, "verbs": verbs}

    role = {
        "metadata": {"name": _ROLE},
        "rules": [
            rule(["nodes"], ["create", "get"]),
            rule(["nodes/status", "pods/status"], ["patch"]),
            rule(["pods"], ["get", "list", "watch", "delete"]),
            rule(["configmaps", "secrets", "services"], ["get", "list", "watch"]),
            rule(["serviceaccounts/token"], ["create"]),
            rule(["events"], ["create", "patch"]),
            rule(["persistentvolumeclaims"], ["list", "watch", "patch"]),
            rule(["persistentvolumeclaims/status", "persistentvolumes/status"], ["patch"]),
            rule(["persistentvolumes"], ["create", "patch", "delete"]),
            rule(["networkpolicies"], ["list", "watch"], "networking.k8s.io"),
            rule(["leases"], ["create", "patch"], "coordination.k8s.io"),
        ],
    }
    binding = {
        "metadata": {"name": _ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _ROLE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_USER}],
    }
    await admin.create(_CLUSTER_ROLES, role)
    await admin.create(_CLUSTER_ROLE_BINDINGS, binding)


class Node:
    """Registers this machine and keeps saying that it is there."""

    def __init__(self, client: KubeClient, network: Network, offered: dict[str, str], directory: Path) -> None:
        self._client = client
        self._network = network
        self._offered = offered
        self._directory = directory
        self._since: dict[str, tuple[bool, str]] = {}

    async def register(self, version: str) -> None:
        """Create the Node and declare it Ready."""
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        labels = {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine}
        metadata = {"name": NODE_NAME, "labels": labels, "annotations": {"scaletest/overcommit": _OVERCOMMIT}}
        await self._client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        info = {
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
        }
        await self._write_status(
            capacity=_resources(self._directory),
            allocatable=self._offered,
            addresses=[
                {"type": "InternalIP", "address": self._network.control_plane},
                {"type": "Hostname", "address": NODE_NAME},
            ],
            daemonEndpoints={"kubeletEndpoint": {"Port": KUBELET_PORT}},
            nodeInfo=info,
        )

    async def live(self) -> None:
        """Renew the Lease and the conditions, for ever."""
        loop = asyncio.get_running_loop()
        status_at = loop.time() + _STATUS_SECONDS
        while True:
            try:
                await self._renew()
                if loop.time() >= status_at:
                    await self._write_status()
                    status_at = loop.time() + _STATUS_SECONDS
            except KubeError as error:
                log.warning("heartbeat failed", error=str(error))
            await asyncio.sleep(_RENEWAL_SECONDS)

    async def _renew(self) -> None:
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        spec = {"holderIdentity": NODE_NAME, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": moment}
        try:
            await self._client.create(_LEASES, {"metadata": {"name": NODE_NAME}, "spec": spec}, _LEASE_NAMESPACE)
        except AlreadyExists:
            await self._client.patch(_LEASES, NODE_NAME, {"spec": spec}, _LEASE_NAMESPACE)

    async def _write_status(self, **more: object) -> None:
        status = {"conditions": self._conditions(), **more}
        await self._client.patch(NODES, NODE_NAME, {"status": status}, subresource="status", kind="merge")

    def _conditions(self) -> list[Object]:
        disk = os.statvfs(self._directory)
        little_disk = disk.f_bavail < disk.f_blocks * _SCARCE_DISK
        little_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") < _SCARCE_MEMORY_BYTES
        return [
            self._condition("MemoryPressure", little_memory, "little memory is free", "enough memory is free"),
            self._condition(
                "DiskPressure", little_disk, "less than a tenth of the disk is free", "enough disk is free"
            ),
            self._condition("PIDPressure", False, "", "process numbers are not watched"),
            self._condition("Ready", True, "the process kubelet runs pods as local processes", ""),
        ]

    def _condition(self, name: str, holds: bool, yes: str, no: str) -> Object:
        now = timestamp()
        if name not in self._since or self._since[name][0] != holds:
            self._since[name] = (holds, now)
        return {
            "type": name,
            "status": str(holds),
            "reason": f"Kubelet{'' if name == 'Ready' else 'Has' if holds else 'HasNo'}{name}",
            "message": yes if holds else no,
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._since[name][1],
        }
