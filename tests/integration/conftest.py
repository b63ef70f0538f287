"""Fixtures that several integration tests share."""

from tests.integration.apiserver import apiserver, kube
from tests.integration.embedded_host import host, host_tools, kubectl
from tests.integration.operator_world import side, world

__all__ = ["apiserver", "host", "host_tools", "kube", "kubectl", "side", "world"]
