"""The control plane of a host: four processes started in order, restarted if they die, stopped in reverse."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import structlog

from bigfleet.kube import KubeClient, KubeError
from bigfleet.kube.resources import SERVICE_ACCOUNTS
from bigfleet.process.childprocess import last_lines
from scaletest.components import apiserver, controller_manager, etcd, scheduler
from scaletest.components.component import Component, Plane
from scaletest.components.endpoints import Endpoints
from scaletest.errors import HostError
from scaletest.host import commands
from scaletest.host.addresses import Network
from scaletest.host.markers import HOST_MARKER
from scaletest.supervise.child import Child, logged
from scaletest.supervise.children import ChildDied, Children, NotInTime
from scaletest.supervise.command import Command
from scaletest.supervise.spawner import Spawner

_POLL_SECONDS = 0.05
_RESTART_SECONDS = 1.0
_STOP_SECONDS = 5.0
_LOG_TAIL_LINES = 20
_PROBE_SECONDS = 2.0

log = structlog.get_logger(__name__)


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler of one host."""

    def __init__(
        self,
        spawner: Spawner,
        host_id: str,
        *,
        plane: Plane,
        network: Network,
        logs_dir: Path,
        bin_dir: Path,
        admin: KubeClient,
        http: aiohttp.ClientSession,
    ) -> None:
        self._spawner = spawner
        home = str(plane.directory)
        self._env = {HOST_MARKER: host_id, "PATH": os.defpath, "HOME": home, "TMPDIR": home}
        self._plane = plane
        self._network = network
        self._logs_dir = logs_dir
        self._bin_dir = bin_dir
        self._admin = admin
        self._endpoints = Endpoints(plane, http, seconds=_PROBE_SECONDS)
        self._children = Children(stop_grace_seconds=_STOP_SECONDS, survive=self._mend)
        self._running: dict[str, Child] = {}
        # What came up once is started again when it dies.
        self._kept: dict[str, Command] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}

    async def start_api(self, deadline: float) -> None:
        """Bring up etcd and the apiserver. Raises HostError with the tail of the log of what did not come up."""
        self._logs_dir.mkdir(parents=True, exist_ok=True)
        await self._bring_up(commands.storage(self._plane), deadline)
        await self._bring_up(commands.api(self._plane, self._network), deadline)

    async def start_controllers(self, deadline: float) -> None:
        """Bring up the controller manager and the scheduler. Raises as `start_api` does."""
        async with asyncio.TaskGroup() as group:
            controllers = commands.controllers(self._plane)
            group.create_task(self._bring_up(controllers, deadline, lambda: _has_accounts(self._admin)))
            group.create_task(self._bring_up(commands.scheduling(self._plane), deadline))

    async def stop_controllers(self) -> None:
        """Stop what would answer the end of pods with new ones."""
        await asyncio.gather(self._stop(controller_manager.NAME), self._stop(scheduler.NAME))

    async def stop(self) -> None:
        await self.stop_controllers()
        await self._stop(apiserver.NAME)
        await self._stop(etcd.NAME)

    async def _bring_up(
        self, component: Component, deadline: float, ready: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Start it and wait until its health endpoint, or `ready`, says yes."""
        asked = ready or partial(self._endpoints.healthy, component)
        command = component.command(str(self._bin_dir / component.name))
        name = command.name

        async def is_up() -> bool:
            if not await asked():
                return False
            self._kept[name] = command
            return True

        loop = asyncio.get_running_loop()
        began = loop.time()
        self._start(command)
        try:
            await self._children.until(is_up, f"{name} ready", deadline - began, _POLL_SECONDS)
        except ChildDied as death:
            raise self._failure(death.name, f"exited with code {death.status} while starting") from None
        except NotInTime:
            raise self._failure(name, f"did not become ready within {loop.time() - began:.0f} s") from None
        log.info("component ready", component=name, seconds=round(loop.time() - began, 2))

    def _start(self, command: Command) -> None:
        path, env = self._log_of(command.name), {**self._env, **command.env}
        with path.open("ab") as output:
            try:
                process = self._spawner.spawn(command.argv, env=env, cwd=self._plane.directory, output=output)
            except OSError as error:
                hint = f"is there a working {command.argv[0]}?"
                raise HostError(f"cannot start {command.name}: {error}", hint=hint) from error
        self._running[command.name] = self._children.watch(logged(command.name, process, path))

    def _mend(self, dead: Child) -> bool:
        """Whether the control plane goes on: its pods outlive a component, a KWOK cluster's container does not."""
        command = self._kept.get(dead.name)
        if command is None:
            return False
        log.error("component died, restarting it", component=dead.name, exit_code=dead.ended.result())
        del self._running[dead.name]
        self._restarts[dead.name] = asyncio.create_task(self._start_again(command))
        return True

    async def _start_again(self, command: Command) -> None:
        await asyncio.sleep(_RESTART_SECONDS)
        self._start(command)

    async def _stop(self, name: str) -> None:
        """One at a time: the pods end between the controllers and the API, so the group cannot end as one."""
        self._kept.pop(name, None)
        restart = self._restarts.pop(name, None)
        if restart:
            restart.cancel()
            await asyncio.gather(restart, return_exceptions=True)
        child = self._running.pop(name, None)
        if child:
            await self._children.retire(child)

    def _failure(self, name: str, what: str) -> HostError:
        tail = "\n".join(last_lines(self._log_of(name))[-_LOG_TAIL_LINES:])
        return HostError(
            f"{name} {what}; the end of its log:\n{tail}",
            hint="read the log above; on a busy machine set a longer start timeout",
        )

    def _log_of(self, name: str) -> Path:
        return self._logs_dir / f"{name}.log"


async def _has_accounts(admin: KubeClient) -> bool:
    """Whether the controllers work: the first thing that a fresh cluster gets from them is a ServiceAccount."""
    try:
        await admin.get(SERVICE_ACCOUNTS, "default", "default")
    except KubeError:
        return False
    return True
