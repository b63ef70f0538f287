"""Which address a pod is to use for a peer that its spec names."""

import asyncio

import structlog

from bigfleet.kube import KubeClient, NotFound, Object
from bigfleet.kube.resources import PODS, SERVICES
from scaletest.host.addresses import Network, PodAddresses
from scaletest.host.kubelet.rewrite import ServiceName

# How long a container waits for the first pod of a Service that it names; afterwards the name stays a name.
_BACKEND_WAIT_SECONDS = 30.0
_BACKEND_POLL_SECONDS = 0.25
_ORDINAL_LABEL = "apps.kubernetes.io/pod-index"

log = structlog.get_logger(__name__)


class Names:
    """The host's answer to DNS."""

    def __init__(self, client: KubeClient, network: Network, addresses: PodAddresses) -> None:
        self._client = client
        self._network = network
        self._addresses = addresses

    async def resolve(self, consumer: Object, name: ServiceName) -> str | None:
        """The address that `consumer` uses for `name`, or None if there is nothing behind the name.

        Every address that one pod learns of another goes through here, so a relay can be put between a pair.
        """
        if name.is_apiserver:
            return self._network.control_plane
        pod = name.pod or await self._first_pod(name)
        if pod is None:
            log.warning("nothing behind a name", name=str(name), consumer=consumer["metadata"]["name"])
            return None
        return self._addresses.of(f"{name.namespace}/{pod}")

    async def _first_pod(self, name: ServiceName) -> str | None:
        try:
            service = await self._client.get(SERVICES, name.service, name.namespace)
        except NotFound:
            return None
        selector = service["spec"].get("selector")
        if not selector:
            return None
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        deadline = asyncio.get_running_loop().time() + _BACKEND_WAIT_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            pods, _ = await self._client.list(PODS, name.namespace, labels=labels)
            if pods:
                return str(min(pods, key=_preference)["metadata"]["name"])
            await asyncio.sleep(_BACKEND_POLL_SECONDS)
        return None


def _preference(pod: Object) -> tuple[bool, int, str, str]:
    """Pods that stay before pods that leave, ordinal 0 before the others, old before new."""
    metadata = pod["metadata"]
    leaving = "deletionTimestamp" in metadata or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    ordinal = int(metadata.get("labels", {}).get(_ORDINAL_LABEL, 0))
    return leaving, ordinal, metadata["creationTimestamp"], metadata["name"]
