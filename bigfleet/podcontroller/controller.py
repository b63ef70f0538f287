"""Reconciles Pods with their CapacityRequests: creates, corrects and deletes requests."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

import structlog
from prometheus_client import CollectorRegistry, Counter

from bigfleet.kube import AlreadyExists, Informer, KubeClient, KubeError, NotFound, Object, WorkQueue, key_of
from bigfleet.kube.resources import CAPACITY_REQUESTS, EVENTS, PODS
from bigfleet.podcontroller.penalties import ANNOTATIONS, Defaults
from bigfleet.podcontroller.request import OWNED_BY_POD, is_claimed, request_name, request_of, translate

_CONCURRENCY = 16
_OUTCOMES = ("cr_created", "cr_exists", "cr_updated", "pod_gone", "pod_terminal", "error")
_POD_FIELDS = (
    "affinity",
    "containers",
    "initContainers",
    "nodeSelector",
    "overhead",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "resources",
    "topologySpreadConstraints",
)

log = structlog.get_logger(__name__)


def trim_pod(pod: Object) -> Object:
    """The parts that a request depends on: when they are equal, there is nothing to do."""
    metadata = pod["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in ANNOTATIONS}
    spec = {field: pod["spec"][field] for field in _POD_FIELDS if field in pod["spec"]}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_trim_container(item) for item in spec[field]]
    if volumes := [volume for volume in pod["spec"].get("volumes") or [] if is_claimed(volume)]:
        spec["volumes"] = volumes
    return {
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")} | {"annotations": annotations},
        "spec": spec,
        "status": {"phase": (pod.get("status") or {}).get("phase", "")},
        "leaving": "deletionTimestamp" in metadata,
    }


def _trim_container(container: Object) -> Object:
    kept: Object = {key: container[key] for key in ("resources", "restartPolicy") if key in container}
    host_ports = [{"hostPort": port["hostPort"]} for port in container.get("ports") or [] if port.get("hostPort")]
    return kept | {"ports": host_ports} if host_ports else kept


def trim_request(request: Object) -> Object:
    metadata = request["metadata"]
    kept = ("name", "namespace", "labels", "ownerReferences")
    return {"metadata": {key: metadata[key] for key in kept if key in metadata}, "spec": request["spec"]}


def pod_key_of(request: Object) -> str | None:
    """`namespace/name` of the Pod that a request was made for; None for requests that others made."""
    metadata = request["metadata"]
    if OWNED_BY_POD not in (metadata.get("labels") or {}):
        return None
    for owner in metadata.get("ownerReferences") or []:
        if owner["kind"] == "Pod":
            return f"{metadata['namespace']}/{owner['name']}"
    return None


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
        self.pods = Informer(kube, PODS, on_change=self._pod_changed, trim=trim_pod)
        self.requests = Informer(
            kube, CAPACITY_REQUESTS, labels=OWNED_BY_POD, on_change=self._request_changed, trim=trim_request
        )
        # Pod → its requests by name; ahead of the informer by what we wrote ourselves.
        self._requests_of: dict[str, dict[str, Object]] = {}
        self._queue = WorkQueue("pods", self._reconcile, concurrency=_CONCURRENCY)

    async def run(self) -> None:
        """Work until cancelled, once both informers have synced: before that, a missing request means nothing."""
        await self.pods.synced.wait()
        await self.requests.synced.wait()
        for pod in list(self._requests_of):
            self._queue.add(pod)
        await self._queue.run()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old != new and (pod := new or old):
            self._queue.add(key_of(pod))

    def _request_changed(self, old: Object | None, new: Object | None) -> None:
        request = new or old
        pod = pod_key_of(request) if request else None
        if request is None or pod is None:
            return
        name = request["metadata"]["name"]
        known = self._requests_of.get(pod, {}).get(name)
        if new is not None:
            self._remember(pod, new)
        else:
            self._forget(pod, name)
        # Not our own doing, or left over from a Pod that has gone.
        if known != new or self.pods.get(pod) is None:
            self._queue.add(pod)

    async def _reconcile(self, key: str) -> None:
        try:
            outcome = await self._bring_about(key)
        except Exception:
            self._outcomes.labels("error").inc()
            raise
        self._outcomes.labels(outcome).inc()

    async def _bring_about(self, key: str) -> str:
        pod = self.pods.get(key)
        # A Pod that is being deleted asks for nothing any more: its successor has a request of its own (docs/adr/0007).
        ended = pod is not None and (pod["leaving"] or pod["status"]["phase"] in ("Succeeded", "Failed"))
        wanted = request_name(pod) if pod is not None and not ended else None
        for name in list(self._requests_of.get(key, ())):
            if name != wanted:
                await self._delete(key, name)
        if pod is None:
            return "pod_gone"
        return "pod_terminal" if ended else await self._request_for(key, pod)

    async def _request_for(self, key: str, pod: Object) -> str:
        translation = translate(pod, self._defaults)
        name, namespace = request_name(pod), pod["metadata"]["namespace"]
        existing = self._requests_of.get(key, {}).get(name)
        if existing is None:
            try:
                created = await self._kube.create(CAPACITY_REQUESTS, request_of(pod, translation.spec), namespace)
            except AlreadyExists:
                return "cr_exists"  # its change is on the way to us, and brings us back here if it differs
            self._remember(key, trim_request(created))
            await self._tell(pod, translation.problems)
            return "cr_created"
        if existing["spec"] == translation.spec:
            return "cr_exists"
        removed = dict.fromkeys(existing["spec"].keys() - translation.spec.keys())
        resources = translation.spec["resources"]
        gone = dict.fromkeys(existing["spec"].get("resources", {}).keys() - resources.keys())
        changes = {**translation.spec, **removed, "resources": resources | gone}
        updated = await self._kube.patch(CAPACITY_REQUESTS, name, {"spec": changes}, namespace)
        self._remember(key, trim_request(updated))
        await self._tell(pod, translation.problems)
        return "cr_updated"

    async def _delete(self, key: str, name: str) -> None:
        with suppress(NotFound):  # the garbage collector was faster
            await self._kube.delete(CAPACITY_REQUESTS, name, key.partition("/")[0])
        self._forget(key, name)

    async def _tell(self, pod: Object, problems: Iterable[str]) -> None:
        """Leave an Event on the Pod. Named after what it says, so that saying it twice makes one."""
        message = "; ".join(problems)
        if not message:
            return
        metadata = pod["metadata"]
        digest = hashlib.sha256(f"{metadata['uid']}\0{message}".encode()).hexdigest()[:16]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name'][:230].rstrip('-.')}.{digest}", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod"}
            | {key: metadata[key] for key in ("name", "namespace", "uid")},
            "type": "Warning",
            "reason": "CapacityRequestIncomplete",
            "message": message,
            "source": {"component": "bigfleet-pod-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._kube.create(EVENTS, event, metadata["namespace"])
        except AlreadyExists:
            pass
        except KubeError as error:
            log.warning("could not write an event", pod=key_of(pod), error=str(error))

    def _remember(self, pod: str, request: Object) -> None:
        self._requests_of.setdefault(pod, {})[request["metadata"]["name"]] = request

    def _forget(self, pod: str, name: str) -> None:
        requests = self._requests_of.get(pod, {})
        requests.pop(name, None)
        if not requests:
            self._requests_of.pop(pod, None)
