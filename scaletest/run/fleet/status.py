"""What is up: hosts and fleets, their pods, and how to reach them."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scaletest.errors import ScaletestError, UsageError
from scaletest.host.owners import Owner
from scaletest.host.registry import RegisteredHost, find_hosts
from scaletest.model.names import COORDINATOR_PORT, PROMETHEUS_POD, PROMETHEUS_PORT
from scaletest.run.target.contexts import ContextRun, find_context_runs
from scaletest.run.target.kube_api import KubeApi, component_of, is_ready
from scaletest.run.target.target import runner_dir


@dataclass(frozen=True)
class FleetStatus:
    """A fleet, or a bare host, as far as it answers."""

    # Empty: a fleet on a kube context.
    host_id: str
    # Empty: a bare host.
    run_id: str
    # The host's address, or the context's name.
    where: str
    since: float
    # The living runner that will end it.
    owner: Owner | None
    namespace: str
    kubeconfig: Path
    # The runner's identity in the run: ca.crt, tls.crt, tls.key.
    identity: Path
    # None: it does not answer.
    pods: list[Any] | None

    @property
    def name(self) -> str:
        return self.run_id or self.host_id

    @property
    def pods_text(self) -> str:
        if self.pods is None:
            return "no answer"
        return f"{sum(map(is_ready, self.pods))}/{len(self.pods)}"

    @property
    def has_prometheus(self) -> bool:
        return bool(self._ip_of(PROMETHEUS_POD))

    @property
    def prometheus_url(self) -> str:
        """Empty if there is none, or none to reach."""
        address = self.address(PROMETHEUS_POD, PROMETHEUS_PORT)
        return f"https://{address}" if address else ""

    def address(self, pod: str, port: int) -> str:
        """`host:port` of a pod. Reachable from here on the embedded host only; else empty."""
        ip = self._ip_of(pod)
        return f"{ip}:{port}" if ip and self.host_id else ""

    def coordinators(self) -> list[str]:
        """`host:port` of every coordinator that can be reached from here, for bigfleetctl."""
        names = sorted(pod.metadata.name for pod in self.pods or [] if component_of(pod) == "coordinator")
        return [address for name in names if (address := self.address(name, COORDINATOR_PORT))]

    def _ip_of(self, name: str) -> str:
        """Empty while there is none, as of what the chart was told to leave out."""
        return next((str(pod.status.pod_ip or "") for pod in self.pods or [] if pod.metadata.name == name), "")

    def clusters(self) -> list[str]:
        """The KWOK clusters' names."""
        names = [pod.metadata.name for pod in self.pods or [] if component_of(pod) == "kwok-cluster"]
        return sorted(names, key=lambda name: (len(name), name))


async def look_at_all() -> list[FleetStatus]:
    """Every run that is up, whether it was left so or is under way."""
    hosts = [host for host in find_hosts() if host.is_up and host.record and host.record.run_id]
    return [*await look_at_hosts(hosts), *await look_at_context_runs(find_context_runs())]


async def look_at_hosts(hosts: list[RegisteredHost]) -> list[FleetStatus]:
    return list(await asyncio.gather(*(_host(host) for host in hosts)))


async def look_at_context_runs(runs: list[ContextRun]) -> list[FleetStatus]:
    return list(await asyncio.gather(*(_context_run(run) for run in runs)))


def cluster_kubeconfig(host: RegisteredHost, status: FleetStatus, ordinal: int) -> Path:
    """The administrator's kubeconfig of a KWOK cluster, which lies in its pod's shared volume."""
    name = f"kwok-cluster-{ordinal}"
    for pod in status.pods or []:
        if pod.metadata.name == name:
            # Volumes may be links to a memory-backed file system.
            for path in (host.directory / "pods" / str(pod.metadata.uid)).glob("*/*/admin.kubeconfig"):
                if pod.status.pod_ip in str(yaml.safe_load(path.read_text())["clusters"]):
                    return path
            raise UsageError(f"{name} has no kubeconfig yet", hint="wait until its pod is Ready")
    raise UsageError(
        f"there is no {name}",
        hint=f"choose one of {', '.join(status.clusters())}" if status.clusters() else "wait until its pods are there",
    )


async def _host(host: RegisteredHost) -> FleetStatus:
    record = host.record
    if record is None:
        raise RuntimeError("a host without a record is not up")
    identity = runner_dir(host.directory)
    scratch = identity if identity.exists() else host.directory
    return FleetStatus(
        host_id=host.id,
        run_id=record.run_id,
        where=record.address,
        since=record.since,
        owner=host.owner,
        namespace=record.namespace,
        kubeconfig=host.kubeconfig,
        identity=identity,
        pods=await _pods(host.kubeconfig, record.namespace, record.run_id, scratch),
    )


async def _context_run(run: ContextRun) -> FleetStatus:
    record = run.record
    return FleetStatus(
        host_id="",
        run_id=record.run_id,
        where=record.context,
        since=record.since,
        owner=record.living_owner,
        namespace=record.namespace,
        kubeconfig=run.kubeconfig,
        identity=run.directory,
        pods=await _pods(run.kubeconfig, record.namespace, record.run_id, run.directory),
    )


async def _pods(kubeconfig: Path, namespace: str, run_id: str, scratch: Path) -> list[Any] | None:
    if not os.access(kubeconfig, os.R_OK):
        return None
    try:
        api = KubeApi(kubeconfig, namespace, run_id, scratch)
        return await (api.pods() if run_id else api.all_pods())
    except (ScaletestError, OSError):
        return None
