"""One container of a pod: started, probed, restarted with back-off, stopped."""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from bigfleet.kube import KubeError, Object
from scaletest.host.kubelet import probes
from scaletest.host.kubelet.events import EventKind
from scaletest.host.kubelet.logs import container_log, open_log
from scaletest.host.kubelet.references import Unresolvable
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.sandbox import Launch, Sandbox
from scaletest.host.kubelet.status import ContainerStatus, running, terminated, waiting
from scaletest.host.markers import CONTAINER_MARKER, POD_MARKER, kill_marked
from scaletest.host.processes import Process

_BACKOFF_START_SECONDS = 1.0
_BACKOFF_MAX_SECONDS = 30.0
_BACKOFF_RESET_SECONDS = 60.0
_CONFIG_RETRY_SECONDS = 1.0
_CANNOT_EXECUTE = 127

log = structlog.get_logger(__name__)


class Backoff:
    """How long to wait before the next restart: 1 s, doubled up to 30 s, from the start again after a minute's run."""

    def __init__(self) -> None:
        self._next = _BACKOFF_START_SECONDS

    def after(self, run_seconds: float) -> float:
        if run_seconds >= _BACKOFF_RESET_SECONDS:
            self._next = _BACKOFF_START_SECONDS
        delay = self._next
        self._next = min(delay * 2, _BACKOFF_MAX_SECONDS)
        return delay


def restarts(restart_policy: str, exit_code: int) -> bool:
    """Whether a container that ended like this is started again."""
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)


class Container:
    """A container and its current process, if any."""

    def __init__(
        self,
        runtime: Runtime,
        pod: Object,
        spec: dict[str, Any],
        sandbox: Sandbox,
        address: str,
        restart_policy: str,
        on_change: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._pod = pod
        self._spec = spec
        self._sandbox = sandbox
        self._address = address
        self._restart_policy = restart_policy
        self._on_change = on_change
        self._stopping = asyncio.Event()
        self._process: Process | None = None
        self.status = ContainerStatus(spec["name"], spec.get("image", ""))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.running

    async def run(self) -> None:
        """Run until the restart policy says that it is over, or until `terminate`."""
        backoff = Backoff()
        while not self._stopping.is_set():
            launch = await self._prepare()
            if launch is None or self._stopping.is_set():
                return
            began = datetime.now(UTC)
            code, message = await self._run_once(launch, began)
            ended = datetime.now(UTC)
            end = terminated(code, began, ended, message)
            if self._stopping.is_set() or not restarts(self._restart_policy, code):
                self._show(end)
                return
            delay = backoff.after((ended - began).total_seconds())
            self.status.last_state = end
            self._show(waiting("CrashLoopBackOff", f"back-off {delay:.0f}s restarting container {self.status.name}"))
            self._event("Warning", "BackOff", f"Container {self.status.name} ended; restarting it in {delay:.0f} s")
            if await self._stopped_within(delay):
                self._show(end)
                return
            self.status.restart_count += 1

    def terminate(self) -> None:
        """Start nothing more, and ask what runs to end."""
        self._stopping.set()
        if self._process:
            self._process.signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process:
            self._process.signal(signal.SIGKILL)

    async def _prepare(self) -> Launch | None:
        """How to start the container, as soon as everything that it refers to is there; None if it is not to start."""
        told = ""
        while not self._stopping.is_set():
            launching = asyncio.create_task(self._sandbox.launch(self._spec))
            try:
                return await self._unless_stopped(launching)
            except (Unresolvable, KubeError, OSError) as error:
                problem = str(error)
            if problem != told:
                told = problem
                self._show(waiting("CreateContainerConfigError", problem))
                self._event("Warning", "Failed", f"Container {self.status.name}: {problem}")
            await self._stopped_within(_CONFIG_RETRY_SECONDS)
        return None

    async def _run_once(self, launch: Launch, began: datetime) -> tuple[int, str]:
        name = self.status.name
        path = container_log(self._runtime.pod_logs_dir, self._pod, name, self.status.restart_count)
        with open_log(path) as output:
            try:
                process = self._runtime.spawner.spawn(launch.argv, env=launch.env, cwd=launch.cwd, output=output)
            except OSError as error:
                self._event("Warning", "Failed", f"Container {name}: {error}")
                return _CANNOT_EXECUTE, str(error)
        self._process = process
        self.status.process_id = process.pid
        self._show(running(began))
        self._event("Normal", "Started", f"Started container {name} as process {process.pid}")
        watch = asyncio.create_task(self._watch(launch, process))
        watch.add_done_callback(_log_failure)
        try:
            code = await process.wait()
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        # What the process left behind, even in another session, dies with it as in a container.
        kill_marked(**{POD_MARKER: self._pod["metadata"]["uid"], CONTAINER_MARKER: name})
        self.status.ready = self.status.started = False
        return code, ""

    async def _watch(self, launch: Launch, process: Process) -> None:
        """Keep `ready` and `started` current; end the process when it is found dead."""
        checker = probes.Checker(self._runtime, self._spec, self._address, launch)
        startup, readiness, liveness = (self._spec.get(f"{kind}Probe") for kind in ("startup", "readiness", "liveness"))
        if startup and not await probes.until_started(checker, startup, lambda why: self._unhealthy("Startup", why)):
            await self._end(process)
            return
        self.status.started = True
        self._set_ready(not readiness, "")
        async with asyncio.TaskGroup() as group:
            if readiness:
                group.create_task(probes.follow_readiness(checker, readiness, self._set_ready))
            if liveness:
                self._unhealthy("Liveness", await probes.until_dead(checker, liveness))
                await self._end(process)

    async def _end(self, process: Process) -> None:
        self._event("Normal", "Killing", f"Container {self.status.name} failed its probe and will be restarted")
        await process.stop(self._pod["spec"].get("terminationGracePeriodSeconds", 30))

    def _set_ready(self, ready: bool, why: str) -> None:
        self.status.ready = ready
        if why:
            self._unhealthy("Readiness", why)
        self._on_change()

    def _unhealthy(self, probe: str, why: str) -> None:
        self._event("Warning", "Unhealthy", f"{probe} probe of container {self.status.name} failed: {why}")

    def _show(self, state: dict[str, Any]) -> None:
        self.status.state = state
        self._on_change()

    def _event(self, kind: EventKind, reason: str, message: str) -> None:
        self._runtime.events.record(self._pod, kind, reason, message)

    async def _unless_stopped(self, task: asyncio.Task[Launch]) -> Launch | None:
        """The result of a task, or None if the container is told to stop before there is one."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if task.done():
            return task.result()
        task.cancel()
        return None

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("probing failed", exc_info=task.exception())
