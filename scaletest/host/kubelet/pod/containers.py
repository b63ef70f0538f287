"""One container of a pod: started, probed, restarted with back-off, stopped."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from bigfleet.kube import KubeError, Object
from bigfleet.process import childprocess
from bigfleet.process.racing import first_of
from scaletest.host.kubelet.events import EventKind
from scaletest.host.kubelet.logs.logs import container_log, last_words, open_log
from scaletest.host.kubelet.pod.actions import ActionFailed, Actions
from scaletest.host.kubelet.pod.backoff import RestartBackoff, restarts
from scaletest.host.kubelet.pod.probes import Prober
from scaletest.host.kubelet.pod.sandbox import Launch, Sandbox
from scaletest.host.kubelet.pod.status import ContainerStatus, running, terminated, waiting
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.spec.references import Unresolvable
from scaletest.host.markers import CONTAINER_MARKER, POD_MARKER, kill_marked
from scaletest.supervise.spawner import Process

_RETRY_SECONDS = 5.0
_CANNOT_START = 128
# What a hook that used up all the grace leaves to the container itself, as kubelets have it.
_LEAST_GRACE_SECONDS = 2.0

log = structlog.get_logger(__name__)


class KubeletContainer:
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
        *,
        sidecar: bool = False,
    ) -> None:
        self._runtime = runtime
        self._pod = pod
        self._spec = spec
        self._sandbox = sandbox
        self._address = address
        self._restart_policy = restart_policy
        self._on_change = on_change
        self._stopping = asyncio.Event()
        self._source_changed = asyncio.Event()
        self._at_work = False
        self._idle = asyncio.Event()
        self._process: Process | None = None
        self._hooking: asyncio.Task[bool] | None = None
        self.launch: Launch | None = None
        self.status = ContainerStatus(spec["name"], spec.get("image", ""), sidecar=sidecar)
        # Set while the container is up: its startup probe succeeded, its postStart hook is done.
        self.started = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.running

    async def run(self) -> None:
        """Run until the restart policy says that it is over, or until `stop`."""
        self._idle.clear()
        self._at_work = True
        try:
            await self._run()
        finally:
            self._at_work = False
            self._idle.set()

    async def stop(self, grace_seconds: float) -> None:
        """Start nothing more, end what runs, gently within the grace, and wait until it has ended."""
        asked_before = self._stopping.is_set()
        self._stopping.set()
        process = self._process
        if process and process.running and not asked_before:
            self._event("Normal", "Killing", f"Stopping container {self.status.name}")
            await self._end(process, grace_seconds)
        elif process and process.running:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await process.wait()
            self.kill()
        if self._at_work:
            await self._idle.wait()

    def kill(self) -> None:
        self._stopping.set()
        if self._hooking:
            self._hooking.cancel()
        if self._process:
            self._process.send_signal(signal.SIGKILL)

    def try_again(self) -> None:
        """Something that the container may have waited for has changed."""
        self._source_changed.set()

    async def _run(self) -> None:
        backoff = RestartBackoff()
        while not self._stopping.is_set():
            launch = await self._prepare()
            if launch is None or self._stopping.is_set():
                return
            began = datetime.now(UTC)
            end = await self._run_once(launch, began)
            code: int = end["terminated"]["exitCode"]
            if self._stopping.is_set() or not restarts(self._restart_policy, code):
                self._show(end)
                return
            delay = backoff.after((datetime.now(UTC) - began).total_seconds())
            if delay and await self._back_off(delay, end):
                self._show(end)
                return
            self.status.last_state = end
            self.status.restart_count += 1

    async def _back_off(self, delay: float, end: dict[str, Any]) -> bool:
        """Wait before the next start; whether the container was told to stop meanwhile."""
        metadata, name = self._pod["metadata"], self.status.name
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        self.status.last_state = end
        self._show(waiting("CrashLoopBackOff", f"back-off {delay:.0f}s restarting failed container={name} pod={pod}"))
        self._event("Warning", "BackOff", f"Back-off restarting failed container {name} in pod {pod}")
        return await self._stopped_within(delay)

    async def _prepare(self) -> Launch | None:
        """How to start the container, as soon as everything that it refers to is there; None if it is not to start."""
        told = ""
        while not self._stopping.is_set():
            self._source_changed.clear()
            try:
                launch, _ = await first_of(self._sandbox.launch(self._spec), self._stopping.wait())
                return launch.result() if launch else None
            except (Unresolvable, KubeError, OSError) as error:
                problem = error
            if str(problem) != told:
                told = str(problem)
                kind = problem if isinstance(problem, Unresolvable) else Unresolvable
                self._show(waiting(kind.waiting_reason, told))
                prefix = "Error: " if kind.event_reason == "Failed" else ""
                self._event("Warning", kind.event_reason, f"{prefix}{told}")
            await self._until_changed()
        return None

    async def _run_once(self, launch: Launch, began: datetime) -> dict[str, Any]:
        """Run the container to its end; the state that it leaves."""
        name = self.status.name
        path = container_log(self._runtime.pod_logs_dir, self._pod, name, self.status.restart_count)
        self._event(
            "Normal", "Pulled", f'Image "{self.status.image}" is not pulled: the command runs from this machine'
        )
        with open_log(path) as output:
            try:
                process = self._runtime.spawner.spawn(
                    launch.command(launch.argv), env=launch.env, cwd=launch.cwd, output=output
                )
            except OSError as error:
                self._event("Warning", "Failed", f"Error: {error.strerror or error}")
                return terminated(_CANNOT_START, began, began, error.strerror or str(error), "StartError")
        self._runtime.log_times.begin(path)
        self.launch, self._process = launch, process
        self.status.process_id = process.pid
        self._show(running(began))
        self._event("Normal", "Created", f"Created container: {name}")
        self._event("Normal", "Started", f"Started container {name}")
        watch = asyncio.create_task(self._watch(launch, process))
        watch.add_done_callback(_log_failure)
        try:
            code = await process.wait()
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        # What the process left behind, even in another session, dies with it as in a container.
        kill_marked(**{POD_MARKER: self._pod["metadata"]["uid"], CONTAINER_MARKER: name})
        self._runtime.log_times.end(path)
        self.started.clear()
        self.status.ready = self.status.started = False
        return terminated(code, began, datetime.now(UTC), self._message(launch, path, code))

    def _message(self, launch: Launch, output: Path, code: int) -> str:
        """What the container left as its last words."""
        said = last_words(launch.message)
        if not said and code != 0 and self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            said = last_words(output, max_bytes=2048)
        return said

    async def _watch(self, launch: Launch, process: Process) -> None:
        """Keep `ready` and `started` current; end the process when it is found dead."""
        actions = Actions(self._runtime, self._spec, self._address, launch)
        hook = (self._spec.get("lifecycle") or {}).get("postStart")
        if hook and not await self._hook("PostStart", actions, hook, seconds=None):
            await self._end(process, self._grace_seconds())
            return
        startup, readiness, liveness = (self._prober(kind, actions) for kind in ("startup", "readiness", "liveness"))
        if startup and not await startup.until_started():
            await self._end_unhealthy(process, "startup")
            return
        self.status.started = True
        self.started.set()
        self._set_ready(readiness is None)
        async with asyncio.TaskGroup() as group:
            if readiness:
                group.create_task(readiness.follow(self._set_ready))
            if liveness:
                await liveness.until_dead()
                await self._end_unhealthy(process, "liveness")

    def _prober(self, kind: str, actions: Actions) -> Prober | None:
        probe = self._spec.get(f"{kind}Probe")
        what = f"{kind.capitalize()} probe failed"
        return probe and Prober(actions, probe, lambda why: self._event("Warning", "Unhealthy", f"{what}: {why}"))

    async def _end_unhealthy(self, process: Process, kind: str) -> None:
        self._event("Normal", "Killing", f"Container {self.status.name} failed {kind} probe, will be restarted")
        own = self._spec[f"{kind}Probe"].get("terminationGracePeriodSeconds")
        await self._end(process, self._grace_seconds() if own is None else own)

    async def _end(self, process: Process, grace_seconds: float) -> None:
        """Run the preStop hook, ask the process to end, and insist when the grace is over."""
        began = asyncio.get_running_loop().time()
        hook = (self._spec.get("lifecycle") or {}).get("preStop")
        if hook and grace_seconds > 0 and self.launch:
            actions = Actions(self._runtime, self._spec, self._address, self.launch)
            self._hooking = asyncio.create_task(self._hook("PreStop", actions, hook, grace_seconds))
            await first_of(self._hooking, process.wait())
            self._hooking.cancel()
            grace_seconds -= asyncio.get_running_loop().time() - began
            grace_seconds = max(grace_seconds, _LEAST_GRACE_SECONDS)
        await childprocess.stop(partial(_signal, process), process.wait, grace_seconds)

    async def _hook(self, kind: str, actions: Actions, hook: Mapping[str, Any], seconds: float | None) -> bool:
        try:
            await actions.perform(hook, seconds)
        except ActionFailed as failure:
            self._event("Warning", f"Failed{kind}Hook", f"{kind}Hook failed: {failure}")
            return False
        return True

    def _grace_seconds(self) -> float:
        return float(self._pod["spec"].get("terminationGracePeriodSeconds", 30))

    def _set_ready(self, ready: bool) -> None:
        self.status.ready = ready
        self._on_change()

    def _show(self, state: dict[str, Any]) -> None:
        self.status.state = state
        self._on_change()

    def _event(self, kind: EventKind, reason: str, message: str) -> None:
        self._runtime.events.record(self._pod, kind, reason, message)

    async def _until_changed(self) -> None:
        """Wait for news of the ConfigMaps and Secrets, for the end, or for a while."""
        await first_of(self._source_changed.wait(), self._stopping.wait(), seconds=_RETRY_SECONDS)

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()


def _signal(process: Process, number: int) -> None:
    """Ask the container's first process alone, as on any node; what it started is its own affair. Kill them all."""
    if number == signal.SIGKILL:
        process.send_signal(number)
    elif process.running:
        os.kill(process.pid, number)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("probing failed", exc_info=task.exception())
