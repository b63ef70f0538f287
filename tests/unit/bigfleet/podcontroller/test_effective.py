"""Effective requests, with the cases of kube-scheduler's own rule."""

from typing import Any

import pytest

from bigfleet.core.vectors import format_vector
from bigfleet.podcontroller.effective import effective_request
from bigfleet.podcontroller.pods import read_pod


def box(restarts: bool = False, **requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}} | ({"restartPolicy": "Always"} if restarts else {})


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({"containers": [box(cpu="1"), box(cpu="500m", memory="1Gi"), {}]}, {"cpu": "1500m", "memory": "1073741824"}),
        ({"containers": [box(cpu="1")], "initContainers": [box(cpu="3"), box(cpu="2")]}, {"cpu": "3"}),
        ({"containers": [box(cpu="1")], "initContainers": [box(True, cpu="2")]}, {"cpu": "3"}),
        # A sidecar runs beside the init containers that start after it, not before it.
        ({"containers": [box(cpu="1")], "initContainers": [box(True, cpu="2"), box(cpu="5")]}, {"cpu": "7"}),
        ({"containers": [box(cpu="1")], "initContainers": [box(cpu="5"), box(True, cpu="2")]}, {"cpu": "5"}),
        ({"containers": [box(cpu="1")], "overhead": {"cpu": "250m", "memory": "64"}}, {"cpu": "1250m", "memory": "64"}),
        (
            {"containers": [box(cpu="1", gpu="2")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}},
            {"cpu": "5", "gpu": "2"},
        ),
        ({"containers": [{}]}, {}),
    ],
    ids=["sum", "peak", "sidecar", "sidecar first", "sidecar last", "overhead", "pod level", "nothing"],
)
def test_a_pods_effective_request(spec: dict[str, Any], total: dict[str, str]) -> None:
    assert format_vector(effective_request(read_pod({"metadata": {}, "spec": spec}).spec)) == total
