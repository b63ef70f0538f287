"""The Pods of Nodes that have gone: ended one after the other, so that losses do not look like a fall in demand."""

import asyncio

import structlog

from bigfleet.kube import Conflict, KubeClient, KubeError, NotFound, TrimmedInformer
from bigfleet.kube.resources import PODS
from scaletest.cluster.nodes.pods_by_node import PodsByNode
from scaletest.cluster.nodes.trims import KeptNode

_LOOK_SECONDS = 1.0
# Between two Pods of one Node.
PAUSE_SECONDS = 0.2

log = structlog.get_logger(__name__)


class LostPods:
    """Level-triggered: a Pod on a Node that has been away for a while is deleted, in the pace of a slow eviction.

    kube-controller-manager's collector would end the Pods of all Nodes of 20 s at once (ADR-25). It remains for
    what we miss.
    """

    def __init__(
        self, client: KubeClient, nodes: TrimmedInformer[KeptNode], pods: PodsByNode, wait_seconds: float
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._wait_seconds = wait_seconds
        self._gone_since: dict[str, float] = {}

    async def run(self) -> None:
        """End Pods until cancelled; the Nodes must be known by now."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            gone = [node for node in self._pods if self._nodes.get(node) is None]
            self._gone_since = {node: self._gone_since.get(node, now) for node in gone}
            for node, since in self._gone_since.items():
                if now - since >= self._wait_seconds:
                    await self._end_pods(node)

    async def _end_pods(self, node: str) -> None:
        for pod in self._pods.on(node):
            if self._nodes.get(node) is not None:
                return
            namespace, _, name = pod.key.partition("/")
            try:
                await self._client.delete(PODS, name, namespace, grace_seconds=0, uid=pod.uid)
            except (NotFound, Conflict):
                continue  # it went by itself; a Pod of the same name may have taken its place
            except KubeError as error:
                log.warning("could not end a lost Pod, will try again", pod=pod.key, error=str(error))
                return
            await asyncio.sleep(PAUSE_SECONDS)
