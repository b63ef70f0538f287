"""The inside of a fleet: its KWOK clusters, its provider's machines, and what its processes count."""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp

from bigfleet.api.v1alpha1 import faults_pb2, faults_pb2_grpc, provider_pb2, provider_pb2_grpc
from bigfleet.kube import KubeClient, KubeConfig
from bigfleet.security import channel
from scaletest.cluster.control_plane.exposition import read_samples
from tests.smoke.runs import Diary
from tests.smoke.up_fleet import UpFleet

PROVIDER = ("bigfleet-provider-0", 8800)
SHARD = ("bigfleet-shard-0", 8780)
_PROVIDER_GRPC = ("bigfleet-provider-0", 7800)
_CONTROL_PLANE_PORT = 8776


class Fleet:
    """Two clusters and one provider. Addresses and credentials outlive restarts, so they are looked up once."""

    def __init__(self, fleet: UpFleet) -> None:
        pods = fleet.get("pods", "-o", "json")["items"]
        self._addresses = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods}
        self._admin = Path(fleet.status()["kubeconfig"]).parent / "runner"
        self._kubeconfigs = [
            Path(asyncio.run(fleet.runner("host", "kubeconfig", "--cluster", str(ordinal))).strip())
            for ordinal in range(2)
        ]
        self._diary = Diary(fleet.output)

    def cluster(self, ordinal: int) -> KubeClient:
        return KubeClient(KubeConfig.from_file(self._kubeconfigs[ordinal]))

    async def machines(self) -> dict[str, provider_pb2.Machine]:
        """All machines by id, as the provider has them."""
        async with channel(self._address(*_PROVIDER_GRPC), self._admin, "provider") as provider:
            listed = await provider_pb2_grpc.CapacityProviderStub(provider).List(provider_pb2.ListFilter())
        return {machine.id: machine for machine in listed.machines}

    async def vanish(self, machine: str) -> None:
        """The machine is gone for good, without a word."""
        request = faults_pb2.StrikeRequest(kind=faults_pb2.STRIKE_VANISH, count=1, machine_ids=[machine])
        async with channel(self._address(*_PROVIDER_GRPC), self._admin, "provider") as provider:
            answer = await faults_pb2_grpc.FaultInjectionStub(provider).Strike(request)
        assert list(answer.machine_ids) == [machine]

    async def set_slowness(self, factor: float) -> None:
        """Every transition of a machine takes so many times as long."""
        async with channel(self._address(*_PROVIDER_GRPC), self._admin, "provider") as provider:
            await faults_pb2_grpc.FaultInjectionStub(provider).SetFaults(faults_pb2.FaultSettings(slow_factor=factor))

    async def count(self, target: tuple[str, int], metric: str, **labels: str) -> float:
        """The sum of a process's series that carry these labels."""
        url = f"http://{self._address(*target)}/metrics"
        async with aiohttp.ClientSession(raise_for_status=True) as http, http.get(url) as answer:
            samples = read_samples(await answer.text(), metric)
            return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    async def scheduled(self, ordinal: int) -> float:
        """How many Pods the cluster's kube-scheduler has bound, by its own count."""
        target = (f"kwok-cluster-{ordinal}", _CONTROL_PLANE_PORT)
        return await self.count(target, "scheduler_schedule_attempts_total", result="scheduled")

    def kill(self, program: str, pod: str) -> None:
        """SIGKILL a process; its container ends, and the kubelet starts it again."""
        [pid] = [pid for pid in self._diary.processes(program) if _is_of(pid, pod)]
        os.kill(pid, signal.SIGKILL)

    def _address(self, pod: str, port: int) -> str:
        return f"{self._addresses[pod]}:{port}"


def _is_of(pid: int, pod: str) -> bool:
    return f"POD_NAME={pod}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
