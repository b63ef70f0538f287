"""Fixtures that several integration tests share."""

import pytest

from tests.integration.apiserver import apiserver, kube
from tests.integration.coordinators import (
    authority,
    etcd_tools,
    leader,
    lone,
    shared_leader,
    shared_trio,
    stopped,
    stopped_trio,
    trio,
)
from tests.integration.embedded_host import helm_binary, host, host_tools, kubectl
from tests.integration.operator_world import side, world

__all__ = [
    "apiserver",
    "authority",
    "etcd_tools",
    "helm_binary",
    "host",
    "host_tools",
    "kube",
    "kubectl",
    "leader",
    "lone",
    "shared_leader",
    "shared_trio",
    "side",
    "stopped",
    "stopped_trio",
    "trio",
    "world",
]

# These take longest; they go first, so that the workers end together. There are more of them than cores: most of a
# test's time it waits, for an apiserver that starts, a lease that ends, a Pod that is told to.
_LONGEST = (
    "stage_commands",
    "failure_table",
    "stage_kills",
    "conformance_mutants",
    "stage_cycles",
    "host_lifecycle",
    "cluster_control_plane",
    "coordinator_trio",
    "host_helm",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = {item: item.path.stem.removeprefix("test_") for item in items}
    items.sort(key=lambda item: _LONGEST.index(names[item]) if names[item] in _LONGEST else len(_LONGEST))
