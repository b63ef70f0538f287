"""The demand of one cluster: created, deleted, counted; and the Pods of it that leave or are bound."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from bigfleet.kube import AlreadyExists, Conflict, KubeClient, KubeError, NotFound
from bigfleet.kube.resources import PODS, Resource
from scaletest.cluster.load.metrics import LoadMetrics
from scaletest.cluster.workloads.manifests import NAMESPACE, manifest_of, resource_of
from scaletest.model.demand.draw import Workload

_RETRY_SECONDS = 0.05
_LONGEST_RETRY_SECONDS = 2.0

log = structlog.get_logger(__name__)


class WorkloadDemand:
    """What the cluster is asked for. Requests that fail are counted, and tried again where demand would be lost."""

    def __init__(self, client: KubeClient, metrics: LoadMetrics) -> None:
        self._client = client
        self._metrics = metrics
        self._workloads: dict[str, Workload] = {}
        metrics.target.set_function(lambda: sum(workload.replicas for workload in self._workloads.values()))

    @property
    def workloads(self) -> Mapping[str, Workload]:
        """What is asked for now, by name."""
        return self._workloads

    async def create(self, workload: Workload, steady: bool = False) -> None:
        """`steady` marks what comes after the first fill."""
        self._workloads[workload.name] = workload
        manifest = manifest_of(workload, steady)
        await self._create(workload.name, lambda: self._client.create(resource_of(workload), manifest, NAMESPACE))

    async def delete(self, workload: Workload) -> None:
        """The object, and its Pods before it."""
        self._workloads.pop(workload.name, None)
        resource, name = resource_of(workload), workload.name
        await self._delete(name, lambda: self._client.delete(resource, name, NAMESPACE, propagation="Foreground"))

    async def delete_one(self, name: str) -> bool:
        """Delete a Pod; whether this call deleted it."""
        return await self._delete_one(PODS, name)

    async def bring_back(self, name: str) -> None:
        """Replace what left; a Pod's owner does that by itself."""

    async def bind(self, pod: str, node: str) -> bool:
        """Whether the Pod is on this node now because of us; kube-scheduler may have been faster."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": NAMESPACE},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, body, NAMESPACE, name=pod, subresource="binding")
        except (Conflict, NotFound):
            return False
        except KubeError as error:
            self._failed("bind", pod, error)
            return False
        return True

    async def _create(self, name: str, request: Callable[[], Awaitable[Any]]) -> None:
        """Try until it is there; a former process may have made it."""
        if await self._insist("create", name, request, AlreadyExists):
            self._metrics.created.inc()

    async def _delete_one(self, resource: Resource, name: str) -> bool:
        """Whether it was deleted. One that cannot be deleted now stays: the next one will do."""
        try:
            await self._client.delete(resource, name, NAMESPACE)
        except NotFound:
            return False
        except KubeError as error:
            self._failed("delete", name, error)
            return False
        self._metrics.deleted.inc()
        return True

    async def _delete(self, name: str, request: Callable[[], Awaitable[Any]]) -> None:
        """Try until it is gone."""
        if await self._insist("delete", name, request, NotFound):
            self._metrics.deleted.inc()

    async def _insist(
        self, kind: str, name: str, request: Callable[[], Awaitable[Any]], done_already: type[KubeError]
    ) -> bool:
        """Try until it is done; whether this process did it."""
        retry = _RETRY_SECONDS
        while True:
            try:
                await request()
                return True
            except done_already:
                return False
            except KubeError as error:
                self._failed(kind, name, error)
            await asyncio.sleep(retry)
            retry = min(2 * retry, _LONGEST_RETRY_SECONDS)

    def _failed(self, kind: str, name: str, error: KubeError) -> None:
        self._metrics.errors.labels(kind).inc()
        log.warning(f"{kind} failed", name=name, error=str(error))
