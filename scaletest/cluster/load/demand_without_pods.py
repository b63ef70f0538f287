"""Demand as CapacityRequests alone: no Pods, so nothing is ever bound (docs/reference/harness.md#cr-mode)."""

from bigfleet.kube import Object
from bigfleet.kube.resources import CAPACITY_REQUESTS
from bigfleet.podcontroller.pods import read_pod
from bigfleet.podcontroller.request import translate
from scaletest.cluster.load.demand import WorkloadDemand
from scaletest.cluster.workloads.manifests import NAMESPACE, WORKLOAD_LABEL, manifest_of
from scaletest.model.demand.draw import Workload


def request_of(workload: Workload, number: int) -> Object:
    """What the pod-controller would have written for one Pod of this workload; its name tells which."""
    template = manifest_of(workload)["spec"]["template"]
    return {
        "apiVersion": CAPACITY_REQUESTS.api_version,
        "kind": "CapacityRequest",
        "metadata": {"name": f"{workload.name}-{number}", "labels": template["metadata"]["labels"]},
        "spec": translate(read_pod(template), {}).spec,
    }


class DemandWithoutPods(WorkloadDemand):
    """One CapacityRequest for every replica."""

    async def create(self, workload: Workload, steady: bool = False) -> None:  # noqa: ARG002 (nothing is bound)
        self._workloads[workload.name] = workload
        for number in range(workload.replicas):
            await self._create_one(workload, number)

    async def delete(self, workload: Workload) -> None:
        self._workloads.pop(workload.name, None)
        chosen = {"labelSelector": f"{WORKLOAD_LABEL}={workload.name}"}
        path = CAPACITY_REQUESTS.path(NAMESPACE)
        await self._delete(workload.name, lambda: self._client.raw("DELETE", path, params=chosen))

    async def delete_one(self, name: str) -> bool:
        """A request leaves, as if its Pod had."""
        return self._workload_of(name) is not None and await self._delete_one(CAPACITY_REQUESTS, name)

    async def bring_back(self, name: str) -> None:
        """It comes again, as if a Pod had been replaced."""
        if workload := self._workload_of(name):
            await self._create_one(workload, int(name.rpartition("-")[2]))

    def _workload_of(self, name: str) -> Workload | None:
        return self._workloads.get(name.rpartition("-")[0])

    async def _create_one(self, workload: Workload, number: int) -> None:
        body = request_of(workload, number)
        await self._create(body["metadata"]["name"], lambda: self._client.create(CAPACITY_REQUESTS, body, NAMESPACE))
