"""The target that a run goes to: a Kubernetes API and a way to reach its pods. The substrate chooses it."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from bigfleet.process.racing import first_of
from scaletest.errors import HostError, Leftovers, ScaletestError
from scaletest.host.embedded import EmbeddedHost
from scaletest.host.owners import Owner
from scaletest.host.registry import new_host
from scaletest.model.names import PROMETHEUS_POD, PROMETHEUS_PORT
from scaletest.run.target.contexts import ContextRecord, copy_context, new_context_dir
from scaletest.run.target.kube_api import KubeApi
from scaletest.run.target.occupancy import refuse_occupied
from scaletest.run.target.port_forward import PortForward
from scaletest.run.target.rights import refuse_without_rights

_HTTPS_PORT = 443

Result = TypeVar("Result")


class Target(Protocol):
    """What the lifecycle needs to know of the place that carries the run."""

    kubeconfig: Path
    kind: str
    # What tells this target from others, for the diary.
    facts: dict[str, str]
    # For the runner's own keys (0700); it goes away with the target, even when the runner is killed.
    private_dir: Path

    @property
    def alive(self) -> bool:
        """Whether there is still something to talk to."""
        ...

    async def ended(self) -> HostError:
        """Wait until the target is gone although the runner did not stop it, and return what to say then."""
        ...

    async def address(self, api: KubeApi, pod: str, port: int) -> str:
        """`host:port` at which the runner reaches a pod."""
        ...

    async def close_ways(self) -> None:
        """Give up what `address` opened."""
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

    async def address(self, api: KubeApi, pod: str, port: int) -> str:
        return f"{await api.pod_ip(pod)}:{port}"

    async def close_ways(self) -> None:
        """There are none: the pods are on this machine."""

    async def outlive_us(self) -> None:
        await self._host.outlive_us()

    async def hand_over(self) -> None:
        await self._host.hand_over()

    async def stop(self, *, force: bool = False) -> None:
        await self._host.stop(force=force)
        await self._closing.aclose()


class ContextGround:
    """An existing cluster: a kube context, as it was when the run began."""

    kind = "context"

    def __init__(
        self, record: ContextRecord, directory: Path, kubectl: Path, say: Callable[[str], object], prometheus_url: str
    ) -> None:
        self._record = record
        self._kubectl = (str(kubectl), f"--kubeconfig={directory / 'kubeconfig'}", f"--namespace={record.namespace}")
        self._say = say
        self._prometheus_url = prometheus_url
        self._ways: dict[tuple[str, int], tuple[PortForward, str]] = {}
        self.private_dir = directory
        self.kubeconfig = directory / "kubeconfig"
        self.facts = {"context": record.context, "directory": str(directory)}
        self._record.write(directory)

    @property
    def alive(self) -> bool:
        return True

    async def ended(self) -> HostError:
        await asyncio.Event().wait()
        raise RuntimeError("a run does not end a cluster that it did not start")

    async def address(self, api: KubeApi, pod: str, port: int) -> str:  # noqa: ARG002
        """This end of a port-forward, or what the user says: there, too, the snapshots are one port further."""
        if self._prometheus_url and pod == PROMETHEUS_POD:
            return address_of(self._prometheus_url, port - PROMETHEUS_PORT)
        if (pod, port) not in self._ways:
            way = PortForward(self._kubectl, pod, port, self._say)
            self._ways[pod, port] = way, await way.open()
        return self._ways[pod, port][1]

    async def close_ways(self) -> None:
        ways, self._ways = self._ways, {}
        await asyncio.gather(*(way.close() for way, _ in ways.values()))

    async def outlive_us(self) -> None:
        """It does anyway."""

    async def hand_over(self) -> None:
        await self.close_ways()
        self._record = replace(self._record, owner=None)
        self._record.write(self.private_dir)

    async def stop(self, *, force: bool = False) -> None:
        """The cluster stays; our notes about it go, unless something of the run is still on it."""
        await self.close_ways()
        if not force:
            remove_notes(self.private_dir)


def runner_dir(host_directory: Path) -> Path:
    """Where a host keeps what belongs to the runner: its identity in the run, and the values that it installed."""
    return host_directory / "runner"


def remove_notes(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        raise Leftovers(f"{directory} could not be removed")


async def prepare_embedded(bin_dir: Path, run_id: str, namespace: str) -> Target:
    """A host of its own for the run."""
    async with contextlib.AsyncExitStack() as starting:
        host_id, directory = new_host()
        host = await starting.enter_async_context(
            EmbeddedHost.start(directory, bin_dir, host_id=host_id, run_id=run_id, namespace=namespace)
        )
        return EmbeddedGround(host, starting.pop_all())


async def prepare_context(
    kubectl: Path, context: str, run_id: str, namespace: str, say: Callable[[str], object], prometheus_url: str = ""
) -> Target:
    """The kube context, by a copy of how to reach it: whatever the user selects meanwhile, the run stays there.

    Raises KubeApiError where the cluster does not answer, or does not let us do what a run does; UsageError where
    the namespace is taken.
    """
    directory = new_context_dir(run_id)
    record = ContextRecord(context=context, since=time.time(), owner=Owner.me(), run_id=run_id, namespace=namespace)
    target = ContextGround(record, directory, kubectl, say, prometheus_url)
    try:
        await copy_context(kubectl, context, target.kubeconfig)
        api = KubeApi(target.kubeconfig, namespace, run_id, directory)
        await refuse_without_rights(api, context, forwards=not prometheus_url)
        await refuse_occupied(api, f"scaletest-runner gc --context {context}")
    except BaseException:
        await target.stop()
        raise
    return target


def address_of(url: str, further: int) -> str:
    """`host:port` of an https URL, so many ports further."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{(parts.port or _HTTPS_PORT) + further}"


async def while_it_stands(target: Target, work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work, unless the target breaks away under it: then say that, and not what follows from it."""
    worked, broke = await first_of(work, target.ended())
    if worked:
        try:
            return worked.result()
        except ScaletestError:
            if target.alive:
                raise
    raise broke.result() if broke else await target.ended()
