"""Load-drivers for tests: small demand, read from outside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from bigfleet.kube import KubeClient
from bigfleet.kube.resources import CAPACITY_REQUESTS
from scaletest.cluster.load.load_driver import LoadDriver, LoadDriverOptions
from scaletest.model.documents.catalog import Archetype, Size
from scaletest.model.documents.loadprofile import LoadProfile


def archetype(name: str, cpu: str = "100m", **fields: Any) -> Archetype:
    size = Size(resources={"cpu": cpu})
    return Archetype(name=name, instance_types=("m6i.large",), zones=("zone-a",), sizes=(size,), **fields)


def load_driver(
    client: KubeClient, ready_file: Path, profile: LoadProfile
) -> tuple[LoadDriver, Callable[[str], float]]:
    """A load-driver of cluster 0, and a look at its metrics."""
    unused, bound_file = Path("unused"), ready_file.with_name("first-fill-bound")
    options = LoadDriverOptions("kwok-cluster-0", unused, "", unused, ready_file, bound_file)
    registry = CollectorRegistry()
    return LoadDriver(client, profile, options, registry), lambda name: registry.get_sample_value(name) or 0.0


async def ask_for(client: KubeClient, pods: int) -> None:
    """As the pod-controller would."""
    for index in range(pods):
        request = {"spec": {"priority": 0, "resources": {"cpu": "100m"}}, "metadata": {"name": f"cr-{index}"}}
        kind = {"apiVersion": CAPACITY_REQUESTS.api_version, "kind": "CapacityRequest"}
        await client.create(CAPACITY_REQUESTS, kind | request, "default")
