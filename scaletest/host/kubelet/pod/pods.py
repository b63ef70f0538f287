"""One pod: its way from bound to running to gone."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from bigfleet.kube import KubeError, Object, key_of
from bigfleet.process.racing import first_of
from scaletest.host.kubelet.events import EventKind, timestamp
from scaletest.host.kubelet.logs.logs import pod_logs
from scaletest.host.kubelet.pod.containers import KubeletContainer
from scaletest.host.kubelet.pod.sandbox import Sandbox
from scaletest.host.kubelet.pod.status import Conditions, conditions_of, phase_of, pod_status, waiting
from scaletest.host.kubelet.runtime import Runtime
from scaletest.host.kubelet.spec.objects import PodObject
from scaletest.host.kubelet.spec.references import Unresolvable
from scaletest.host.kubelet.volumes.volumes import references_of, renewal_seconds, shows_itself
from scaletest.host.markers import POD_MARKER, kill_marked

_VANISHED_GRACE_SECONDS = 1.0
_REFRESH_RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class KubeletPod:
    """A pod that is bound to this node, from its first sight until nothing of it is left."""

    def __init__(
        self,
        runtime: Runtime,
        pod: Object,
        *,
        predecessor: "KubeletPod | None",
        refusals: Sequence[str],
        refusal_delay: float,
        unenforced: Sequence[str],
        on_gone: Callable[["KubeletPod"], None],
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
        self.address = runtime.addresses.of(self.key)
        self._sandbox = Sandbox(runtime, pod, self.address)
        self._began = timestamp()
        self._conditions = Conditions()
        self._refusals = refusals
        self._unenforced = unenforced
        self._references = references_of(pod)
        self._changed = asyncio.Event()
        self._stale = asyncio.Event()
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self._grace_seconds = 0.0
        self._expired = False
        self._owns_object = True
        policy = self._spec["restartPolicy"]
        init_policy = "Never" if policy == "Never" else "OnFailure"
        self._init = [self._container(one, init_policy) for one in self._spec.get("initContainers") or []]
        self._main = [self._container(one, policy) for one in self._spec["containers"]]
        if not self._init:
            for container in self._main:
                container.status.state = waiting("ContainerCreating")
        self._task = asyncio.create_task(self._run(predecessor, refusal_delay))

    def container(self, name: str) -> KubeletContainer | None:
        return next((one for one in self._containers if one.status.name == name), None)

    def update(self, pod: Object) -> None:
        """Take note of a new version of the object: its deletion, new labels, open readiness gates."""
        metadata, known = pod["metadata"], self.object["metadata"]
        debugging = pod["spec"].get("ephemeralContainers") != self.object["spec"].get("ephemeralContainers")
        self.object = self._sandbox.pod = pod
        if "deletionTimestamp" in metadata:
            self._end(metadata.get("deletionGracePeriodSeconds", 0))
        if debugging:
            self._event("Warning", "Refused", "The embedded host does not run ephemeral containers; use kubectl exec")
        renamed = any(metadata.get(part) != known.get(part) for part in ("labels", "annotations"))
        if renamed and shows_itself(pod):
            self._stale.set()
        if self._spec.get("readinessGates"):
            self._changed.set()

    def vanish(self) -> None:
        """The object is gone. If the pod has not ended, the object was deleted by force."""
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
        for container in self._containers:
            container.try_again()

    def names_changed(self) -> None:
        """The address of a Service or pod may have changed: write the hosts file again."""
        self._sandbox.refresh_hosts()

    @property
    def _containers(self) -> list[KubeletContainer]:
        return [*self._init, *self._main]

    @property
    def _sidecars(self) -> list[KubeletContainer]:
        return [one for one in self._init if one.status.sidecar]

    def _container(self, spec: dict[str, Any], restart_policy: str) -> KubeletContainer:
        sidecar = spec.get("restartPolicy") == "Always"
        return KubeletContainer(
            self._runtime,
            self.object,
            spec,
            self._sandbox,
            self.address,
            "Always" if sidecar else restart_policy,
            self._changed.set,
            sidecar=sidecar,
        )

    def _end(self, grace_seconds: float) -> None:
        if not self._ending.is_set():
            self._grace_seconds = grace_seconds
            self._ending.set()

    async def _run(self, predecessor: "KubeletPod | None", refusal_delay: float) -> None:
        if predecessor:
            await predecessor.gone.wait()
        helpers = [asyncio.create_task(self._follow_status()), asyncio.create_task(self._follow_sources())]
        try:
            if self._refusals:
                await self._refuse(refusal_delay)
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

    async def _refuse(self, delay: float) -> None:
        # A controller replaces a failed pod at once: without a pause, a refused template would make a storm.
        await self._within(self._ending, delay)
        why = "; ".join(self._refusals)
        self._event("Warning", "Refused", f"The embedded host cannot run this pod: {why}")
        await self._api_object.write_status({"phase": "Failed", "reason": "Refused", "message": why})

    async def _live(self) -> None:
        if self._unenforced:
            self._event(
                "Normal",
                "NotEnforced",
                f"Accepted but not enforced by the embedded host: {', '.join(self._unenforced)}",
            )
        work = asyncio.create_task(self._run_containers())
        limit = self._spec.get("activeDeadlineSeconds")
        if limit is not None and not await self._over_within(work, limit):
            self._expired = True
            self._event("Normal", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            await self._stop(work, self._spec.get("terminationGracePeriodSeconds", 30))
            self._changed.set()
        await self._ending.wait()
        await self._stop(work, self._grace_seconds)

    async def _over_within(self, work: asyncio.Task[None], seconds: float) -> bool:
        """Whether the containers have ended, or the pod is told to, before the time is up."""
        return any(await first_of(work, self._ending.wait(), seconds=seconds))

    async def _run_containers(self) -> None:
        """Init containers one after the other, sidecars from their place in that order on, then all the others."""
        sidecars: list[asyncio.Task[None]] = []
        try:
            if await self._initialize(sidecars):
                await asyncio.gather(*(container.run() for container in self._main))
        finally:
            if not self._ending.is_set() and not self._expired:
                for container in reversed(self._sidecars):
                    await container.stop(self._spec.get("terminationGracePeriodSeconds", 30))
            await asyncio.gather(*sidecars)

    async def _initialize(self, sidecars: list[asyncio.Task[None]]) -> bool:
        """Whether the main containers may start."""
        for container in self._init:
            if container.status.sidecar:
                sidecars.append(asyncio.create_task(container.run()))
                await first_of(sidecars[-1], container.started.wait(), self._ending.wait())
            else:
                await container.run()
            if not container.status.lets_others_start:
                return False
        return True

    async def _stop(self, work: asyncio.Task[None], grace_seconds: float) -> None:
        """End all containers, sidecars after the others and in reverse order, within one grace."""
        ordered = asyncio.create_task(self._stop_in_order(grace_seconds))
        await first_of(ordered, self._hurry.wait())
        if self._hurry.is_set():
            for container in self._containers:
                container.kill()
        await ordered
        await work

    async def _stop_in_order(self, grace_seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + grace_seconds
        others = [one for one in self._containers if not one.status.sidecar]
        await asyncio.gather(*(container.stop(grace_seconds) for container in others))
        for container in reversed(self._sidecars):
            await container.stop(max(deadline - asyncio.get_running_loop().time(), 0))

    async def _leave(self) -> None:
        """Take away what is left: processes, files and, unless it is gone or the host stops, the object."""
        kill_marked(**{POD_MARKER: self.uid})
        if self._owns_object:
            if not self._refusals:
                await self._api_object.write_status(self._status())
            await self._api_object.delete()
        self._runtime.events.forget(self.uid)
        self._runtime.log_times.forget(pod_logs(self._runtime.pod_logs_dir, self.object))
        await self._sandbox.remove()

    async def _follow_status(self) -> None:
        self._changed.set()
        while not self._refusals:
            await self._changed.wait()
            self._changed.clear()
            await self._api_object.write_status(self._status())

    def _status(self) -> Object:
        init = [container.status for container in self._init]
        main = [container.status for container in self._main]
        ending = self._ending.is_set()
        phase = "Failed" if self._expired else phase_of(init, main, self._spec["restartPolicy"], ending=ending)
        return pod_status(
            phase=phase,
            conditions=self._conditions.update(conditions_of(phase, init, main, self._gates(), ending)),
            init=init,
            main=main,
            address=self.address,
            host_address=self._runtime.network.control_plane,
            began=self._began,
            reason="DeadlineExceeded" if self._expired else "",
            message="Pod was active on the node longer than the specified deadline" if self._expired else "",
        )

    def _gates(self) -> dict[str, bool]:
        conditions = self.object.get("status", {}).get("conditions") or []
        holding = {one["type"] for one in conditions if one["status"] == "True"}
        gates = [gate["conditionType"] for gate in self._spec.get("readinessGates") or []]
        return {gate: gate in holding for gate in gates}

    async def _follow_sources(self) -> None:
        """Rewrite the volumes when a source changes and before a token expires."""
        renewal = renewal_seconds(self.object)
        while True:
            await self._within(self._stale, renewal)
            self._stale.clear()
            try:
                await self._sandbox.refresh()
            except Unresolvable as error:  # a source was taken away: its last content stays
                log.info("volumes not refreshed", pod=self.key, error=str(error))
            except (KubeError, OSError) as error:
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
