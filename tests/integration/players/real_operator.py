"""A cluster with a real apiserver and a `bigfleet operator` process of its own; its workloads and nodes are played."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.kube import KubeClient, Object
from bigfleet.kube.resources import CAPACITY_REQUESTS, UPCOMING_NODES
from tests.integration.players.apiserver import NAMESPACE, ApiServer
from tests.integration.players.coordinators import free_addresses
from tests.integration.players.played_operator import for_ever, phone_home
from tests.integration.players.supply_side import Process

_LOOK_SECONDS = 0.1
_JOINED = ("Registered", "Ready")


class RealOperator:
    """One cluster. What it believes is what its apiserver keeps: the UpcomingNodes."""

    def __init__(
        self, cluster: str, shard_addr: str, provider_addr: str, tls_dir: Path, apiserver: ApiServer, kube: KubeClient
    ) -> None:
        self.cluster = cluster
        self._kube = kube
        (metrics,) = free_addresses(1)
        arguments = [
            "operator",
            f"--cluster-id={cluster}",
            f"--shard-addr={shard_addr}",
            f"--kubeconfig={apiserver.kubeconfig}",
            f"--metrics-addr={metrics}",
            f"--tls-dir={tls_dir}",
            "--rollup-interval-seconds=1",
        ]
        self.process = Process(cluster, shard_addr, metrics, arguments, tls_dir.with_name(f"{cluster}.log"))
        self._report = partial(phone_home, cluster, provider_addr, tls_dir, self._ready)
        self._phases: dict[str, str] = {}
        self._wanted: list[Object] = []
        self._asked_for = asyncio.Event()
        self._changed = asyncio.Event()

    def ask_for(self, need: capacity_pb2.CapacityNeed) -> None:
        """The cluster's whole demand from now on: as many CapacityRequests of the smallest unit as make up the sum."""
        (requirement,) = need.requirements
        spec = {
            "priority": need.priority,
            "resources": dict(need.min_unit),
            "requirements": [{"key": requirement.key, "operator": "In", "values": list(requirement.values)}],
        }
        units = int(need.aggregate_resources["cpu"]) // int(need.min_unit["cpu"])
        self._wanted = [
            {
                "apiVersion": CAPACITY_REQUESTS.api_version,
                "kind": "CapacityRequest",
                "metadata": {"name": f"unit-{number}"},
                "spec": spec,
            }
            for number in range(units)
        ]
        self._asked_for.set()

    def states(self) -> dict[str, str]:
        """In the provider's words, as far as a cluster knows them."""
        return {machine: "CONFIGURED" if phase == "Ready" else phase for machine, phase in self._phases.items()}

    @property
    def runs(self) -> bool:
        return self.process.runs

    async def start(self) -> None:
        await self.process.start()

    async def kill(self) -> None:
        """kill -9 of the operator; apiserver, workloads and nodes go on."""
        await self.process.kill()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["RealOperator"]:
        parts = (self._work, self._look, partial(self._report, self._changed))
        tasks = [asyncio.create_task(for_ever(part)) for part in parts]
        await self.start()
        try:
            yield self
        finally:
            await self.process.stop()
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if not isinstance(end, asyncio.CancelledError):
                raise AssertionError(f"a part of {self.cluster} broke") from end

    # --- the cluster ----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Workloads come and go until there are as many as were asked for."""
        while True:
            await self._asked_for.wait()
            self._asked_for.clear()
            found, _ = await self._kube.list(CAPACITY_REQUESTS, NAMESPACE)
            there = {request["metadata"]["name"] for request in found}
            wanted = {request["metadata"]["name"]: request for request in self._wanted}
            for name in wanted.keys() - there:
                await self._kube.create(CAPACITY_REQUESTS, wanted[name], NAMESPACE)
            for name in there - wanted.keys():
                await self._kube.delete(CAPACITY_REQUESTS, name, NAMESPACE)

    async def _look(self) -> None:
        while True:
            found, _ = await self._kube.list(UPCOMING_NODES)
            phases = {
                node["metadata"]["name"].removeprefix("un-"): node.get("status", {}).get("phase", "") for node in found
            }
            if phases != self._phases:
                self._phases = phases
                self._changed.set()
            await asyncio.sleep(_LOOK_SECONDS)

    def _ready(self) -> set[str]:
        return {machine for machine, phase in self._phases.items() if phase in _JOINED}
