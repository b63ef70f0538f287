"""One pod: its way from bound to running to gone."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from typing import Any

import structlog

from bigfleet.kube import KubeError, Object, key_of
from scaletest.host.kubelet import policy
from scaletest.host.kubelet.containers import Container
from scaletest.host.kubelet.events import EventKind, timestamp
from scaletest.host.kubelet.objects import PodObject
from scaletest.host.kubelet.references import Unresolvable
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.sandbox import Sandbox
from scaletest.host.kubelet.status import Conditions, phase_of, pod_status, waiting
from scaletest.host.kubelet.volumes import references_of, renewal_seconds
from scaletest.host.markers import POD_MARKER, kill_marked

_VANISHED_GRACE_SECONDS = 1.0
_REFRESH_RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Pod:
    """A pod that is bound to this node, from its first sight until nothing of it is left."""

    def __init__(
        self,
        runtime: Runtime,
        pod: Object,
        predecessor: "Pod | None",
        refusal_delay: float,
        on_gone: Callable[["Pod"], None],
    ) -> None:
        """`predecessor` has the same name and so the same address: it must be gone before this pod starts."""
        self.key = key_of(pod)
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.object = pod
        self.gone = asyncio.Event()
        self.vanished = False
        self._on_gone = on_gone
        self._runtime = runtime
        self._spec: dict[str, Any] = pod["spec"]
        self._api_object = PodObject(runtime.client, pod)
        self._address = runtime.addresses.of(self.key)
        self._sandbox = Sandbox(runtime, pod, self._address)
        self._began = timestamp()
        self._conditions = Conditions()
        self._refusal = policy.refusal(pod)
        self._references = references_of(pod)
        self._changed = asyncio.Event()
        self._stale = asyncio.Event()
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self._grace_seconds = 0.0
        self._owns_object = True
        restart_policy = self._spec["restartPolicy"]
        init_policy = "Never" if restart_policy == "Never" else "OnFailure"
        self._init = [self._container(one, init_policy) for one in self._spec.get("initContainers") or []]
        self._main = [self._container(one, restart_policy) for one in self._spec["containers"]]
        if not self._init:
            for container in self._main:
                container.status.state = waiting("ContainerCreating")
        self._task = asyncio.create_task(self._run(predecessor, refusal_delay))

    def container(self, name: str) -> Container | None:
        return next((one for one in self._containers if one.status.name == name), None)

    def update(self, pod: Object) -> None:
        """Take note of a new version of the object. Only its deletion matters: the spec of a pod does not change."""
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            self._end(metadata.get("deletionGracePeriodSeconds", 0))

    def vanish(self) -> None:
        """The object is gone. If the pod has not ended, someone did not want to wait."""
        self.vanished = True
        self._owns_object = False
        if self._ending.is_set():
            self._hurry.set()
        self._end(_VANISHED_GRACE_SECONDS)

    async def abandon(self, grace_seconds: float) -> None:
        """Stop, because the whole host stops; the object no longer matters."""
        self._owns_object = False
        self._end(min(grace_seconds, self._spec.get("terminationGracePeriodSeconds", grace_seconds)))
        await self.gone.wait()

    def source_changed(self, kind: str, name: str) -> None:
        """A ConfigMap or Secret of the pod's namespace changed."""
        if (kind, name) in self._references:
            self._stale.set()

    @property
    def _containers(self) -> list[Container]:
        return [*self._init, *self._main]

    def _container(self, spec: dict[str, Any], restart_policy: str) -> Container:
        return Container(
            self._runtime, self.object, spec, self._sandbox, self._address, restart_policy, self._changed.set
        )

    def _end(self, grace_seconds: float) -> None:
        if not self._ending.is_set():
            self._grace_seconds = grace_seconds
            self._ending.set()

    async def _run(self, predecessor: "Pod | None", refusal_delay: float) -> None:
        if predecessor:
            await predecessor.gone.wait()
        helpers = [asyncio.create_task(self._follow_status()), asyncio.create_task(self._follow_sources())]
        try:
            if self._refusal:
                await self._refuse(self._refusal, refusal_delay)
            else:
                await self._live()
        except Exception as error:
            log.exception("pod worker failed", pod=self.key)
            self._event("Warning", "KubeletError", f"{type(error).__name__}: {error}")
        await self._ending.wait()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self._leave()
        self.gone.set()
        self._on_gone(self)

    async def _refuse(self, why: str, delay: float) -> None:
        # A controller replaces a failed pod at once: without a pause, a refused template would make a storm.
        await self._within(self._ending, delay)
        self._event("Warning", "Refused", f"The embedded host cannot run this pod: {why}")
        await self._api_object.write_status({"phase": "Failed", "reason": "Refused", "message": why})

    async def _live(self) -> None:
        ignored = policy.unenforced(self.object)
        if ignored:
            self._event(
                "Normal", "NotEnforced", f"Accepted but not enforced by the embedded host: {', '.join(ignored)}"
            )
        work = asyncio.create_task(self._run_containers())
        await self._ending.wait()
        for container in self._containers:
            container.terminate()
        patience = asyncio.create_task(self._within(self._hurry, self._grace_seconds))
        await asyncio.wait({work, patience}, return_when=asyncio.FIRST_COMPLETED)
        patience.cancel()
        for container in self._containers:
            container.kill()
        await work

    async def _run_containers(self) -> None:
        for container in self._init:
            await container.run()
            if container.status.exit_code != 0:
                return
        await asyncio.gather(*(container.run() for container in self._main))

    async def _leave(self) -> None:
        """Take away what is left: processes, files and, unless it is gone or the host stops, the object."""
        kill_marked(**{POD_MARKER: self.uid})
        if self._owns_object:
            if not self._refusal:
                await self._api_object.write_status(self._status())
            await self._api_object.delete()
        await asyncio.to_thread(shutil.rmtree, self._sandbox.directory, ignore_errors=True)

    async def _follow_status(self) -> None:
        self._changed.set()
        while not self._refusal:
            await self._changed.wait()
            self._changed.clear()
            await self._api_object.write_status(self._status())

    def _status(self) -> Object:
        init = [container.status for container in self._init]
        main = [container.status for container in self._main]
        return pod_status(
            phase=phase_of(init, main, self._spec["restartPolicy"], ending=self._ending.is_set()),
            conditions=self._conditions,
            init=init,
            main=main,
            address=self._address,
            host_address=self._runtime.network.control_plane,
            began=self._began,
        )

    async def _follow_sources(self) -> None:
        """Rewrite the volumes when a source changes and before a token expires."""
        renewal = renewal_seconds(self.object)
        while True:
            await self._within(self._stale, renewal)
            self._stale.clear()
            try:
                await self._sandbox.refresh()
            except (Unresolvable, KubeError, OSError) as error:
                log.warning("volumes not refreshed, trying again", pod=self.key, error=str(error))
                await asyncio.sleep(_REFRESH_RETRY_SECONDS)
                self._stale.set()

    def _event(self, kind: EventKind, reason: str, message: str) -> None:
        self._runtime.events.record(self.object, kind, reason, message)

    @staticmethod
    async def _within(event: asyncio.Event, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
