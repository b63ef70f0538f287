"""The workload objects of one cluster: created, deleted, counted; and the Pods of theirs that leave or are bound."""

import asyncio

import structlog

from bigfleet.kube import AlreadyExists, Conflict, KubeClient, KubeError, NotFound
from bigfleet.kube.resources import PODS
from scaletest.cluster.load_metrics import LoadMetrics
from scaletest.cluster.manifests import NAMESPACE, manifest_of, resource_of
from scaletest.model.draw import Workload

_RETRY_SECONDS = 0.05
_LONGEST_RETRY_SECONDS = 2.0

log = structlog.get_logger(__name__)


class Demand:
    """What the cluster is asked for. Requests that fail are counted, and tried again where demand would be lost."""

    def __init__(self, client: KubeClient, metrics: LoadMetrics) -> None:
        self._client = client
        self._metrics = metrics
        self._replicas: dict[str, int] = {}

    @property
    def pods(self) -> int:
        """The sum of all replicas."""
        return sum(self._replicas.values())

    async def create(self, workload: Workload, steady: bool = False) -> None:
        """`steady` marks what comes after the first fill."""
        self._set(workload, workload.replicas)
        retry = _RETRY_SECONDS
        while True:
            try:
                await self._client.create(resource_of(workload), manifest_of(workload, steady), NAMESPACE)
                self._metrics.created.inc()
                return
            except AlreadyExists:  # a former life of this process made it
                return
            except KubeError as error:
                retry = await self._pause("create", workload.name, error, retry)

    async def delete(self, workload: Workload) -> None:
        """The object, and its Pods before it."""
        self._set(workload, 0)
        retry = _RETRY_SECONDS
        while True:
            try:
                await self._client.delete(resource_of(workload), workload.name, NAMESPACE, propagation="Foreground")
                self._metrics.deleted.inc()
                return
            except NotFound:
                return
            except KubeError as error:
                retry = await self._pause("delete", workload.name, error, retry)

    async def delete_pod(self, name: str) -> None:
        """Its owner replaces it. One that cannot be deleted now stays: the next one will do."""
        try:
            await self._client.delete(PODS, name, NAMESPACE)
        except NotFound:
            return
        except KubeError as error:
            self._failed("delete", name, error)
            return
        self._metrics.deleted.inc()

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

    def _set(self, workload: Workload, replicas: int) -> None:
        if replicas:
            self._replicas[workload.name] = replicas
        else:
            self._replicas.pop(workload.name, None)
        self._metrics.target.set(self.pods)

    def _failed(self, kind: str, name: str, error: KubeError) -> None:
        self._metrics.errors.labels(kind).inc()
        log.warning(f"{kind} failed", name=name, error=str(error))

    async def _pause(self, kind: str, name: str, error: KubeError, seconds: float) -> float:
        self._failed(kind, name, error)
        await asyncio.sleep(seconds)
        return min(2 * seconds, _LONGEST_RETRY_SECONDS)
