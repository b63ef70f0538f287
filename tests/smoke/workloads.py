"""Workloads that a test brings into a KWOK cluster, and what became of their Pods."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from bigfleet.core.requirements import INSTANCE_TYPE_KEY, RACK_KEY
from bigfleet.kube import Informer, KubeClient, Object, Resource
from bigfleet.kube.resources import CAPACITY_REQUESTS, DEPLOYMENTS, PODS
from scaletest.model.demand.seeding import ARCHETYPE_LABEL
from tests.patience import eventually

NAMESPACE = "default"
BUDGETS = Resource("poddisruptionbudgets", "policy")
# Far beyond what it takes: only what hangs ends here.
PATIENCE_SECONDS = 180
_ASK_AGAIN_SECONDS = 0.3

until = partial(eventually, seconds=PATIENCE_SECONDS, pause_seconds=_ASK_AGAIN_SECONDS)


async def deploy(
    kube: KubeClient,
    name: str,
    replicas: int,
    *,
    cpu: str,
    instance_type: str,
    racks: Sequence[str] = (),
    priority: int = 100,
) -> None:
    """Create a Deployment whose Pods ask for this type of machine, in these racks only if any are named."""
    expressions = [{"key": INSTANCE_TYPE_KEY, "operator": "In", "values": [instance_type]}]
    if racks:
        expressions.append({"key": RACK_KEY, "operator": "In", "values": list(racks)})
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    pod = {
        "priority": priority,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
    }
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    await kube.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)


async def scale(kube: KubeClient, name: str, replicas: int) -> None:
    await kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, NAMESPACE)


async def guard(kube: KubeClient, name: str, min_available: int) -> None:
    """A budget for a Deployment; returns when the apiserver would refuse what breaks it."""
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}
    await kube.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    async def counts() -> bool:
        budget = await kube.get(BUDGETS, name, NAMESPACE)
        return bool(budget.get("status", {}).get("currentHealthy", 0) >= min_available)

    await until(counts)


async def pods_of(kube: KubeClient, name: str = "", archetype: str = "") -> list[Object]:
    """The Pods of a Deployment, those of an archetype of the draw, or all; none that is about to leave."""
    selectors = {"app": name, ARCHETYPE_LABEL: archetype}
    labels = ",".join(f"{key}={value}" for key, value in selectors.items() if value)
    pods, _ = await kube.list(PODS, NAMESPACE, labels=labels)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def until_bound(kube: KubeClient, count: int, name: str = "") -> list[Object]:
    """The Pods of a Deployment, or all, once there are so many and each has a node."""

    async def all_bound() -> list[Object]:
        pods = await pods_of(kube, name)
        return pods if len(pods) == count == sum(bool(node_of(pod)) for pod in pods) else []

    try:
        bound: list[Object] = await until(all_bound)
    except TimeoutError:
        pods = await pods_of(kube, name)
        without = [pod["metadata"]["name"] for pod in pods if not node_of(pod)]
        raise AssertionError(f"{len(pods)} Pods instead of {count}, without a node: {without}") from None
    return bound


async def requests_equal_pods(kube: KubeClient) -> bool:
    """Whether every Pod has its CapacityRequest, and no request is without a Pod."""
    requests, _ = await kube.list(CAPACITY_REQUESTS)
    owners = sorted(owner["uid"] for request in requests for owner in request["metadata"]["ownerReferences"])
    return owners == sorted(pod["metadata"]["uid"] for pod in await pods_of(kube))


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def is_ready(item: Object) -> bool:
    conditions = item.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@asynccontextmanager
async def following(
    kube: KubeClient, resource: Resource, on_change: Callable[[Object | None, Object | None], Any], labels: str = ""
) -> AsyncIterator[None]:
    """See every change of a collection inside the block, in order."""
    informer = Informer(kube, resource, on_change=on_change, labels=labels)
    watching = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
