"""The binaries that runs use report their true version: the pinned one, and not a placeholder."""

import os

import pytest

from scaletest.toolchain import TOOL_NAMES, ensure, list_tools
from scaletest.toolchain.process import output_of
from scaletest.toolchain.tools import GO_TOOLS

pytestmark = pytest.mark.integration

RELEASES = {name: tool.release for name, tool in GO_TOOLS.items()}
ANSWERS = {
    "etcd": f"etcd Version: {RELEASES['etcd']}\n",
    "kube-apiserver": f"Kubernetes v{RELEASES['kube-apiserver']}\n",
    "kube-controller-manager": f"Kubernetes v{RELEASES['kube-controller-manager']}\n",
    "kube-scheduler": f"Kubernetes v{RELEASES['kube-scheduler']}\n",
    "kubectl": f"Client Version: v{RELEASES['kubectl']}\n",
    "etcdutl": f"etcdutl version: {RELEASES['etcdutl']}",
    "kwok": f"kwok version v{RELEASES['kwok']} ",
    "prometheus": f"prometheus, version {RELEASES['prometheus']} ",
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_shipped_tool_says_which_release_it_is(name: str) -> None:
    path = (await ensure([name])).path(name)
    assert (await output_of([path, *GO_TOOLS[name].version_args], environ=os.environ) or "").startswith(ANSWERS[name])


async def test_the_list_has_every_tool_with_the_version_that_it_reports() -> None:
    rows = (await list_tools()).tools
    assert tuple(row.name for row in rows) == TOOL_NAMES
    assert {row.name: row.version for row in rows} == {row.name: row.pinned for row in rows}
    assert all(row.size_bytes and row.size_bytes > 10e6 for row in rows)
