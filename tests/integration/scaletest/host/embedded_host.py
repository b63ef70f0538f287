"""An embedded host to share (fixture `host`), and kubectl against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from scaletest import toolchain
from scaletest.host.embedded import EmbeddedHost

# Far beyond what a command takes: only a hang ends here.
_HANG_SECONDS = 300
HOST_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Kubectl:
    """kubectl, as the host's administrator."""

    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._command = (str(binary), f"--kubeconfig={kubeconfig}")

    async def __call__(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """What kubectl prints; what went wrong too, if that is not an error of the test."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if check else asyncio.subprocess.STDOUT,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin.encode()), _HANG_SECONDS)
        except TimeoutError:
            process.kill()
            pytest.fail(f"kubectl {' '.join(arguments)}: not over after {_HANG_SECONDS} s")
        if check and process.returncode != 0:
            pytest.fail(f"kubectl {' '.join(arguments)}: {err.decode()}")
        return out.decode()

    async def context(self) -> str:
        """The name of the current context."""
        return (await self("config", "current-context")).strip()

    async def apply(self, *objects: dict[str, Any]) -> None:
        await self("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    async def get(self, *arguments: str) -> Any:
        return json.loads(await self("get", *arguments, "-o", "json"))

    async def until(self, condition: Callable[[Any], bool], *arguments: str, seconds: float = 30) -> Any:
        """The objects that `get` finds, once the condition holds for them; what lacks a field that it asks for, such as
        the status of a new pod, does not meet it yet."""
        found: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = await self.get(*arguments)
                    with suppress(KeyError):
                        if condition(found):
                            return found
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"not in {seconds} s: {' '.join(arguments)}; last seen: {json.dumps(found, indent=1)}")


@pytest.fixture(scope="session")
def host_tools() -> toolchain.Toolchain:
    return asyncio.run(toolchain.ensure([*HOST_TOOLS, "kubectl"]))


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    return asyncio.run(toolchain.ensure(["helm"])).path("helm")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(
    host_tools: toolchain.Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedHost]:
    directory = tmp_path_factory.mktemp("host") / "host"
    async with EmbeddedHost.start(directory, host_tools.bin_dir) as running:
        yield running
    assert not directory.exists()


@pytest.fixture(scope="module")
def kubectl(host: EmbeddedHost, host_tools: toolchain.Toolchain) -> Kubectl:
    return Kubectl(host_tools.path("kubectl"), host.kubeconfig)
