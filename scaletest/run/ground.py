"""The ground a run stands on: a Kubernetes API and a way to reach its pods. The substrate chooses it."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from scaletest.errors import HostError, Leftovers, ScaletestError
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.owners import Owner
from scaletest.host.registry import new_host
from scaletest.run.contexts import ContextRecord, copy_context, new_stage_dir
from scaletest.run.hostapi import HostApi

Result = TypeVar("Result")


class Ground(Protocol):
    """What the lifecycle needs to know of the place that carries the run."""

    kubeconfig: Path
    kind: str
    # What tells this ground from others, for the diary.
    facts: dict[str, str]
    # For the runner's own keys (0700); it goes away with the ground, even when the runner is killed.
    private_dir: Path

    @property
    def alive(self) -> bool:
        """Whether there is still something to talk to."""
        ...

    async def ended(self) -> HostError:
        """Wait until the ground is gone, which nobody wanted, and return what to say then."""
        ...

    async def address(self, api: HostApi, pod: str, port: int) -> str:
        """`host:port` at which the runner reaches a pod."""
        ...

    async def outlive_us(self) -> None:
        """Stay when the runner dies."""
        ...

    async def hand_over(self) -> None:
        """Stay, on purpose: from now on `down` ends it."""
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
        self.private_dir = runner_dir(host.dir)
        self.private_dir.mkdir(mode=0o700)

    @property
    def alive(self) -> bool:
        return self._host.alive

    async def ended(self) -> HostError:
        return await self._host.ended()

    async def address(self, api: HostApi, pod: str, port: int) -> str:
        return f"{await api.pod_ip(pod)}:{port}"

    async def outlive_us(self) -> None:
        await self._host.outlive_us()

    async def hand_over(self) -> None:
        await self._host.hand_over()

    async def stop(self, *, force: bool = False) -> None:
        await self._host.stop(force=force)
        await self._closing.aclose()


class ContextGround:
    """A cluster that somebody else runs: the kube context that was current when the run began."""

    kind = "context"

    def __init__(self, record: ContextRecord, directory: Path) -> None:
        self._record = record
        self.private_dir = directory
        self.kubeconfig = directory / "kubeconfig"
        self.facts = {"context": record.context, "directory": str(directory)}
        self._record.write(directory)

    @property
    def alive(self) -> bool:
        return True

    async def ended(self) -> HostError:
        await asyncio.Event().wait()
        raise RuntimeError("nobody ends a cluster that is not ours")

    async def address(self, api: HostApi, pod: str, port: int) -> str:  # noqa: ARG002
        raise HostError(f"{pod}:{port} of a kube context can only be reached by kubectl port-forward")

    async def outlive_us(self) -> None:
        """It does anyway."""

    async def hand_over(self) -> None:
        self._record = replace(self._record, owner=None)
        self._record.write(self.private_dir)

    async def stop(self, *, force: bool = False) -> None:
        """The cluster stays; our notes about it go, unless something of the run is still on it."""
        if not force:
            remove_notes(self.private_dir)


def runner_dir(host_directory: Path) -> Path:
    """Where a host keeps what belongs to the runner: its identity in the run, and the values that it installed."""
    return host_directory / "runner"


def remove_notes(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise Leftovers(f"{directory} could not be removed")


async def prepare_embedded(bin_dir: Path, run_id: str, namespace: str) -> Ground:
    """A host of its own for the run."""
    async with contextlib.AsyncExitStack() as starting:
        host_id, directory = new_host()
        host = await starting.enter_async_context(
            EmbeddedHost.start(directory, bin_dir, host_id=host_id, run_id=run_id, namespace=namespace)
        )
        return EmbeddedGround(host, starting.pop_all())


async def prepare_context(kubectl: Path, context: str, run_id: str, namespace: str) -> Ground:
    """The kube context, by a copy of how to reach it: whatever the user selects meanwhile, the run stays there."""
    directory = new_stage_dir(run_id)
    record = ContextRecord(context=context, since=time.time(), owner=Owner.me(), run_id=run_id, namespace=namespace)
    ground = ContextGround(record, directory)
    try:
        await copy_context(kubectl, context, ground.kubeconfig)
    except BaseException:
        await ground.stop()
        raise
    return ground


async def while_it_stands(ground: Ground, work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work, unless the ground breaks away under it: then say that, and not what follows from it."""
    working = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(ground.ended())
    try:
        await asyncio.wait({working, ended}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            try:
                return working.result()
            except ScaletestError:
                if ground.alive:
                    raise
        raise await ended
    finally:
        working.cancel()
        ended.cancel()
        await asyncio.gather(working, ended, return_exceptions=True)
