"""Fixtures that several integration tests share."""

import pytest

from tests.integration.bigfleet.operator.operator_world import side, world
from tests.integration.players.apiserver import apiserver, kube
from tests.integration.players.coordinators import (
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
from tests.integration.scaletest.host.embedded_host import helm_binary, host, host_tools, kubectl

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
    "runner_commands",
    "failure_table",
    "runner_kills",
    "conformance_mutants",
    "chart_cycles",
    "host_lifecycle",
    "cluster_control_plane",
    "coordinator_trio",
    "host_helm",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = {item: item.path.stem.removeprefix("test_") for item in items}
    items.sort(key=lambda item: _LONGEST.index(names[item]) if names[item] in _LONGEST else len(_LONGEST))
