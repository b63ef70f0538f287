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

# These wait longest; they go first, so that the two workers end together.
_LONGEST = (
    "stage_kills",
    "stage_commands",
    "conformance_mutants",
    "toolchain_interrupts",
    "stage_cycles",
    "host_lifecycle",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem.removeprefix("test_") not in _LONGEST)
