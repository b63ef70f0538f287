"""The control plane of a host: four processes started in order, restarted if they die, stopped in reverse."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp
import structlog

from bigfleet.kube import KubeClient, KubeError
from bigfleet.kube.resources import SERVICE_ACCOUNTS
from bigfleet.process.childprocess import last_lines
from scaletest.errors import HostError
from scaletest.host import addresses, commands
from scaletest.host.credentials import Credentials
from scaletest.host.markers import HOST_MARKER
from scaletest.supervise.spawner import Process, Spawner

_POLL_SECONDS = 0.05
_RESTART_SECONDS = 1.0
_STOP_SECONDS = 5.0
_LOG_TAIL_LINES = 20
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=2)

log = structlog.get_logger(__name__)


class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler of one host."""

    def __init__(
        self,
        spawner: Spawner,
        host_id: str,
        *,
        directory: Path,
        logs_dir: Path,
        bin_dir: Path,
        credentials: Credentials,
        admin: KubeClient,
        http: aiohttp.ClientSession,
    ) -> None:
        self._spawner = spawner
        self._env = {HOST_MARKER: host_id, "PATH": os.defpath, "HOME": str(directory), "TMPDIR": str(directory)}
        self._directory = directory
        self._logs_dir = logs_dir
        self._bin_dir = bin_dir
        self._credentials = credentials
        self._admin = admin
        self._http = http
        self._processes: dict[str, Process] = {}
        self._guards: dict[str, asyncio.Task[None]] = {}

    async def start_api(self, deadline: float) -> None:
        """Bring up etcd and the apiserver. Raises HostError with the tail of the log of what did not come up."""
        self._logs_dir.mkdir(parents=True, exist_ok=True)
        made = self._credentials
        tls = ssl.create_default_context(cafile=str(made.etcd_ca))
        tls.load_cert_chain(made.etcd_client.certificate, made.etcd_client.key)
        argv = commands.etcd(made, self._bin_dir, self._directory / "etcd")
        await self._bring_up("etcd", argv, self._serves(addresses.ETCD_CLIENT_PORT, "/health", tls), deadline)
        argv = commands.apiserver(made, self._bin_dir)
        await self._bring_up("kube-apiserver", argv, lambda: _is_ready(self._admin), deadline)

    async def start_controllers(self, deadline: float) -> None:
        """Bring up the controller manager and the scheduler. Raises as `start_api` does."""
        made = self._credentials
        tls = ssl.create_default_context(cafile=str(made.ca))
        managing = commands.controller_manager(made, self._bin_dir)
        scheduling = commands.scheduler(made, self._bin_dir)
        scheduler_serves = self._serves(addresses.SCHEDULER_PORT, "/readyz", tls)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                self._bring_up("kube-controller-manager", managing, lambda: _has_accounts(self._admin), deadline)
            )
            group.create_task(self._bring_up("kube-scheduler", scheduling, scheduler_serves, deadline))

    async def stop_controllers(self) -> None:
        """Stop what would answer the end of pods with new ones."""
        await asyncio.gather(self._stop("kube-controller-manager"), self._stop("kube-scheduler"))

    async def stop(self) -> None:
        await self.stop_controllers()
        await self._stop("kube-apiserver")
        await self._stop("etcd")

    async def _bring_up(
        self, name: str, argv: Sequence[str], ready: Callable[[], Awaitable[bool]], deadline: float
    ) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        process = self._spawn(name, argv)
        while not await ready():
            if not process.running:
                raise self._failure(name, f"exited with code {await process.wait()} while starting")
            if loop.time() > deadline:
                raise self._failure(name, f"did not become ready within {loop.time() - began:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)
        self._guards[name] = asyncio.create_task(self._keep_alive(name, argv))
        log.info("component ready", component=name, seconds=round(loop.time() - began, 2))

    def _spawn(self, name: str, argv: Sequence[str]) -> Process:
        with self._log_of(name).open("ab") as output:
            try:
                process = self._spawner.spawn(argv, env=self._env, cwd=self._directory, output=output)
            except OSError as error:
                raise HostError(f"cannot start {name}: {error}", hint=f"is there a working {argv[0]}?") from error
        self._processes[name] = process
        return process

    async def _keep_alive(self, name: str, argv: Sequence[str]) -> None:
        while True:
            code = await self._processes[name].wait()
            log.error("component died, restarting it", component=name, exit_code=code)
            await asyncio.sleep(_RESTART_SECONDS)
            self._spawn(name, argv)

    async def _stop(self, name: str) -> None:
        guard = self._guards.pop(name, None)
        if guard:
            guard.cancel()
            await asyncio.gather(guard, return_exceptions=True)
        process = self._processes.pop(name, None)
        if process:
            await process.stop(_STOP_SECONDS)

    def _serves(self, port: int, path: str, tls: ssl.SSLContext) -> Callable[[], Awaitable[bool]]:
        url = f"https://{self._credentials.network.control_plane}:{port}{path}"

        async def check() -> bool:
            try:
                async with self._http.get(url, ssl=tls, timeout=_PROBE_TIMEOUT) as response:
                    return response.status == 200
            except (aiohttp.ClientError, OSError, TimeoutError):
                return False

        return check

    def _failure(self, name: str, what: str) -> HostError:
        tail = "\n".join(last_lines(self._log_of(name))[-_LOG_TAIL_LINES:])
        return HostError(
            f"{name} {what}; the end of its log:\n{tail}",
            hint="a busy machine needs a longer start timeout; a wrong binary shows in the log above",
        )

    def _log_of(self, name: str) -> Path:
        return self._logs_dir / f"{name}.log"


async def _is_ready(admin: KubeClient) -> bool:
    try:
        await admin.raw("GET", "/readyz")
    except KubeError:
        return False
    return True


async def _has_accounts(admin: KubeClient) -> bool:
    """Whether the controllers work: the first thing that a fresh cluster gets from them is a ServiceAccount."""
    try:
        await admin.get(SERVICE_ACCOUNTS, "default", "default")
    except KubeError:
        return False
    return True
