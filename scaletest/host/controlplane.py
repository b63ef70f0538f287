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
from scaletest.components import apiserver, controller_manager, scheduler
from scaletest.components.component import Component, Site
from scaletest.components.endpoints import Endpoints
from scaletest.components.pki import ETCD
from scaletest.errors import HostError
from scaletest.host import commands
from scaletest.host.addresses import Network
from scaletest.host.markers import HOST_MARKER
from scaletest.supervise.command import Command
from scaletest.supervise.spawner import Process, Spawner

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
        site: Site,
        network: Network,
        logs_dir: Path,
        bin_dir: Path,
        admin: KubeClient,
        http: aiohttp.ClientSession,
    ) -> None:
        self._spawner = spawner
        home = str(site.directory)
        self._env = {HOST_MARKER: host_id, "PATH": os.defpath, "HOME": home, "TMPDIR": home}
        self._site = site
        self._network = network
        self._logs_dir = logs_dir
        self._bin_dir = bin_dir
        self._admin = admin
        self._endpoints = Endpoints(site, http, seconds=_PROBE_SECONDS)
        self._processes: dict[str, Process] = {}
        self._guards: dict[str, asyncio.Task[None]] = {}

    async def start_api(self, deadline: float) -> None:
        """Bring up etcd and the apiserver. Raises HostError with the tail of the log of what did not come up."""
        self._logs_dir.mkdir(parents=True, exist_ok=True)
        await self._bring_up(commands.storage(self._site), deadline)
        await self._bring_up(commands.api(self._site, self._network), deadline)

    async def start_controllers(self, deadline: float) -> None:
        """Bring up the controller manager and the scheduler. Raises as `start_api` does."""
        async with asyncio.TaskGroup() as group:
            controllers = commands.controllers(self._site)
            group.create_task(self._bring_up(controllers, deadline, lambda: _has_accounts(self._admin)))
            group.create_task(self._bring_up(commands.scheduling(self._site), deadline))

    async def stop_controllers(self) -> None:
        """Stop what would answer the end of pods with new ones."""
        await asyncio.gather(self._stop(controller_manager.NAME), self._stop(scheduler.NAME))

    async def stop(self) -> None:
        await self.stop_controllers()
        await self._stop(apiserver.NAME)
        await self._stop(ETCD)

    async def _bring_up(
        self, component: Component, deadline: float, ready: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Start it and wait until its health endpoint, or `ready`, says yes."""
        ready = ready or partial(self._endpoints.healthy, component)
        command = component.command(str(self._bin_dir / component.name))
        loop = asyncio.get_running_loop()
        began = loop.time()
        process = self._spawn(command)
        while not await ready():
            if not process.running:
                raise self._failure(command.name, f"exited with code {await process.wait()} while starting")
            if loop.time() > deadline:
                raise self._failure(command.name, f"did not become ready within {loop.time() - began:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)
        self._guards[command.name] = asyncio.create_task(self._keep_alive(command))
        log.info("component ready", component=command.name, seconds=round(loop.time() - began, 2))

    def _spawn(self, command: Command) -> Process:
        env = {**self._env, **command.env}
        with self._log_of(command.name).open("ab") as output:
            try:
                process = self._spawner.spawn(command.argv, env=env, cwd=self._site.directory, output=output)
            except OSError as error:
                hint = f"is there a working {command.argv[0]}?"
                raise HostError(f"cannot start {command.name}: {error}", hint=hint) from error
        self._processes[command.name] = process
        return process

    async def _keep_alive(self, command: Command) -> None:
        while True:
            code = await self._processes[command.name].wait()
            log.error("component died, restarting it", component=command.name, exit_code=code)
            await asyncio.sleep(_RESTART_SECONDS)
            self._spawn(command)

    async def _stop(self, name: str) -> None:
        guard = self._guards.pop(name, None)
        if guard:
            guard.cancel()
            await asyncio.gather(guard, return_exceptions=True)
        process = self._processes.pop(name, None)
        if process:
            await process.stop(_STOP_SECONDS)

    def _failure(self, name: str, what: str) -> HostError:
        tail = "\n".join(last_lines(self._log_of(name))[-_LOG_TAIL_LINES:])
        return HostError(
            f"{name} {what}; the end of its log:\n{tail}",
            hint="a busy machine needs a longer start timeout; a wrong binary shows in the log above",
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
