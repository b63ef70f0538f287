"""Reconciles Pods with their CapacityRequests: creates, corrects and deletes requests."""

import hashlib
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter

from bigfleet.kube import AlreadyExists, KubeClient, NotFound, Object, ObjectMeta, Subset, TypedInformer, WorkQueue
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, PODS
from bigfleet.podcontroller.penalties import Defaults
from bigfleet.podcontroller.pods import Pod
from bigfleet.podcontroller.request import OWNED_BY_POD, request_name, request_of, translate

_CONCURRENCY = 16
_OUTCOMES = ("cr_created", "cr_exists", "cr_updated", "pod_gone", "pod_terminal", "error")
_OF_POD = "pod"


class OwnerReference(msgspec.Struct):
    kind: str
    name: str


class RequestMetadata(ObjectMeta):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)


class WrittenRequest(Subset):
    """A CapacityRequest as far as we wrote it."""

    metadata: RequestMetadata
    spec: dict[str, Any]

    @property
    def pod(self) -> str | None:
        """`namespace/name` of the Pod that it was made for; None for requests that others made."""
        if OWNED_BY_POD not in self.metadata.labels:
            return None
        names = (owner.name for owner in self.metadata.owner_references if owner.kind == "Pod")
        name = next(names, None)
        return f"{self.metadata.namespace}/{name}" if name else None


class PodController:
    """Level-triggered by Pod: whatever happened, bring the Pod's requests to what they should be."""

    def __init__(self, kube: KubeClient, defaults: Defaults, registry: CollectorRegistry) -> None:
        self._kube = kube
        self._defaults = defaults
        self._outcomes = Counter(
            "bigfleet_unschedulable_pod_controller_reconciles_total",
            "Looks at a Pod, by what they led to.",
            ["outcome"],
            registry=registry,
        )
        for outcome in _OUTCOMES:
            self._outcomes.labels(outcome)
        self.pods = TypedInformer(kube, PODS, Pod, on_change=self._pod_changed)
        # Ahead of its watch by what we wrote ourselves.
        self.requests = TypedInformer(
            kube,
            CAPACITY_REQUESTS,
            WrittenRequest,
            labels=OWNED_BY_POD,
            on_change=self._request_changed,
            indexes={_OF_POD: lambda request: request.pod},
        )
        # Pod → the Event that tells what its request does not say.
        self._told: dict[str, str] = {}
        self._queue = WorkQueue("pods", self._reconcile, concurrency=_CONCURRENCY)

    async def run(self) -> None:
        """Work until cancelled, once both informers have synced: before that, a missing request means nothing."""
        await self.pods.synced.wait()
        await self.requests.synced.wait()
        for request in self.requests:
            if request.pod:
                self._queue.add(request.pod)
        await self._queue.run()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old != new and (pod := new or old):
            self._queue.add(pod.key)

    def _request_changed(self, old: WrittenRequest | None, new: WrittenRequest | None) -> None:
        request = new or old
        pod = request.pod if request else None
        # Not our own doing, or left over from a Pod that has gone.
        if pod and (old != new or self.pods.get(pod) is None):
            self._queue.add(pod)

    async def _reconcile(self, key: str) -> None:
        try:
            pod = self.pods.get(key)
            if pod is None or pod.ended:
                await self._withdraw(key, except_for=None)
                self._told.pop(key, None)
                self._outcomes.labels("pod_gone" if pod is None else "pod_terminal").inc()
                return
            await self._withdraw(key, except_for=request_name(pod))
            translation = translate(pod, self._defaults)
            self._outcomes.labels(await self._ask_for(pod, translation.spec)).inc()
            await self._tell(pod, "; ".join(translation.problems))
        except Exception:
            self._outcomes.labels("error").inc()
            raise

    async def _withdraw(self, key: str, *, except_for: str | None) -> None:
        """Delete the requests of a Pod's former lives."""
        for request in self.requests.by(_OF_POD, key):
            if request.metadata.name != except_for:
                with suppress(NotFound):  # the garbage collector was faster
                    await self._kube.delete(CAPACITY_REQUESTS, request.metadata.name, request.metadata.namespace)
                self.requests.forget(request.key)

    async def _ask_for(self, pod: Pod, spec: Object) -> str:
        name, namespace = request_name(pod), pod.metadata.namespace
        existing = self.requests.get(f"{namespace}/{name}")
        if existing is None:
            try:
                created = await self._kube.create(CAPACITY_REQUESTS, request_of(pod, spec), namespace)
            except AlreadyExists:
                return "cr_exists"  # its change is on the way to us, and brings us back here if it differs
            self.requests.learn(msgspec.convert(created, WrittenRequest))
            return "cr_created"
        if existing.spec == spec:
            return "cr_exists"
        removed = dict.fromkeys(existing.spec.keys() - spec.keys())
        gone = dict.fromkeys(existing.spec.get("resources", {}).keys() - spec["resources"].keys())
        changes = {**spec, **removed, "resources": spec["resources"] | gone}
        updated = await self._kube.patch(CAPACITY_REQUESTS, name, {"spec": changes}, namespace)
        self.requests.learn(msgspec.convert(updated, WrittenRequest))
        return "cr_updated"

    async def _tell(self, pod: Pod, message: str) -> None:
        """Leave an Event on the Pod, once. Named after what it says, so that two lives of ours make one of it."""
        metadata = pod.metadata
        digest = hashlib.sha256(f"{metadata.uid}\0{message}".encode()).hexdigest()[:16]
        if not message or self._told.get(pod.key) == digest:
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        subject = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata.name[:230].rstrip('-.')}.{digest}", "namespace": metadata.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod"} | subject,
            "type": "Warning",
            "reason": "CapacityRequestIncomplete",
            "message": message,
            "source": {"component": "bigfleet-pod-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with suppress(AlreadyExists):
            await self._kube.create(EVENTS, event, metadata.namespace)
        self._told[pod.key] = digest
