"""The ground a run stands on: a Kubernetes API and a way to reach its pods. The substrate chooses it."""

import contextlib
import tempfile
from pathlib import Path
from typing import Protocol

from scaletest.host.embedded import EmbeddedHost
from scaletest.run.hostapi import HostApi


class Ground(Protocol):
    """What the lifecycle needs to know of the place that carries the run."""

    kubeconfig: Path
    kind: str
    # What tells this ground from others, for the diary.
    facts: dict[str, str]
    # For the runner's own keys (0700); it goes away with the ground, even when the runner is killed.
    private_dir: Path

    async def address(self, api: HostApi, pod: str, port: int) -> str:
        """`host:port` at which the runner reaches a pod."""
        ...

    async def stop(self, *, force: bool = False) -> None:
        """End it; raises Leftovers if something of it is still there. `force` is a second Ctrl-C."""
        ...


class EmbeddedGround:
    """This machine: a host of the run's own, which ends with it."""

    kind = "embedded"

    def __init__(self, host: EmbeddedHost, closing: contextlib.AsyncExitStack) -> None:
        self._host = host
        self._closing = closing
        self.kubeconfig = host.kubeconfig
        self.facts = {"host": host.id, "address": host.address, "directory": str(host.dir)}
        self.private_dir = host.dir / "runner"
        self.private_dir.mkdir(mode=0o700)

    async def address(self, api: HostApi, pod: str, port: int) -> str:
        return f"{await api.pod_ip(pod)}:{port}"

    async def stop(self, *, force: bool = False) -> None:
        await self._host.stop(force=force)
        await self._closing.aclose()


async def prepare_ground(bin_dir: Path) -> Ground:
    """Bring up the embedded host; the plan refuses every other substrate for now."""
    async with contextlib.AsyncExitStack() as starting:
        directory = Path(tempfile.mkdtemp(prefix="scaletest-host-"))
        host = await starting.enter_async_context(EmbeddedHost.start(directory, bin_dir))
        return EmbeddedGround(host, starting.pop_all())
