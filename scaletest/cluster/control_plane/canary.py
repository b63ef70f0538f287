"""One Node and one Pod that prove a control plane works: the scheduler binds it and kwok runs it."""

import contextlib
from functools import partial

from bigfleet.kube import AlreadyExists, KubeClient, KubeError, NotFound
from bigfleet.kube.resources import NODES, PODS
from scaletest.supervise.polling import poll

NAME = "scaletest-canary"
NAMESPACE = "default"
_LABEL = {"scaletest.bigfleet/canary": "true"}

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": NAME, "labels": _LABEL},
    # No other Pod may be bound here while the canary is there.
    "spec": {"taints": [{"key": "scaletest.bigfleet/canary", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "1", "memory": "1Gi", "pods": "1"},
        "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1"},
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": NAME, "labels": _LABEL},
    "spec": {
        "nodeSelector": _LABEL,
        "tolerations": [{"key": "scaletest.bigfleet/canary", "operator": "Exists"}],
        "containers": [{"name": "canary", "image": "pause", "resources": {"requests": {"cpu": "10m"}}}],
    },
}


async def fly_canary(client: KubeClient) -> None:
    """Return when the canary Pod was bound and ran, and both objects are gone again. Give it a deadline."""
    with contextlib.suppress(AlreadyExists):
        await client.create(NODES, NODE)
    try:
        await poll(partial(_created, client))
        await poll(partial(_runs, client))
    finally:
        for resource, namespace in ((PODS, NAMESPACE), (NODES, None)):
            with contextlib.suppress(NotFound):
                await client.delete(resource, NAME, namespace, grace_seconds=0)


async def _created(client: KubeClient) -> bool:
    try:
        await client.create(PODS, POD, NAMESPACE)
    except AlreadyExists:
        return True
    except KubeError as error:
        if error.status in (403, 404):  # the apiserver makes the namespace a moment after it is ready
            return False
        raise
    return True


async def _runs(client: KubeClient) -> bool:
    pod = await client.get(PODS, NAME, NAMESPACE)
    return bool(pod["spec"].get("nodeName") == NAME and pod["status"].get("phase") == "Running")
