"""Two runs with one seed ask for the same, in the apiservers too; another seed asks for something else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.up_fleet import UpFleet

pytestmark = [pytest.mark.smoke, pytest.mark.long]

_KINDS = "deployments,statefulsets,poddisruptionbudgets,priorityclasses"
# Of the moment, and of the apiserver.
_FLEETING = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "annotations")


def asked_for(directory: Path, seed: int) -> list[str]:
    """Every workload object of both clusters, without what no two apiservers agree on."""
    fleet = UpFleet(directory)
    flags = ("--profile", "smoke", "--pods", "32", "--seed", str(seed), "--set", "prometheus.enabled=false")
    try:
        asyncio.run(fleet.up(*flags))
        return [item for ordinal in range(2) for item in asyncio.run(workloads_of(fleet, ordinal))]
    finally:
        fleet.down()


async def workloads_of(fleet: UpFleet, ordinal: int) -> list[str]:
    kubeconfig = (await fleet.runner("host", "kubeconfig", "--cluster", str(ordinal))).strip()
    listed = json.loads(await fleet.kubectl(kubeconfig, "get", "-A", _KINDS, "-o", "json"))
    return sorted(json.dumps(_lasting(item), sort_keys=True) for item in listed["items"])


def _lasting(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _FLEETING}
    return {"kind": item["kind"], "metadata": metadata, "spec": item.get("spec"), "value": item.get("value")}


def test_the_seed_decides_what_is_created(tmp_path: Path) -> None:
    first = asked_for(tmp_path / "first", 24)
    assert len(first) > 5
    assert asked_for(tmp_path / "second", 24) == first
    assert asked_for(tmp_path / "third", 25) != first
