"""Pods and their CapacityRequests: which of them have no counterpart, and which requests say something wrong."""

from collections import Counter
from collections.abc import Callable

import structlog

from scaletest.cluster.witness.ages import Ages
from scaletest.cluster.witness.expected import FIELDS, OWNER, Expected
from scaletest.cluster.witness.seen import SeenPod, SeenRequest

# Differences that are shown in the log; beyond that they are only counted.
_SHOWN = 10

log = structlog.get_logger(__name__)


class Acknowledgements:
    """Requests whose phase does not say yet that BigFleet knows them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.waiting = Ages()
        # How often one was told again what it had been told, or that it is not acknowledged any more.
        self.again = 0
        # Requests that were seen without an acknowledgement and then with one.
        self.answered = 0

    def on_change(self, old: SeenRequest | None, new: SeenRequest | None) -> None:
        """Follow requests."""
        if old and (new is None or new.uid != old.uid):
            self.waiting.end(old.uid)
        if new is None:
            return
        if old and old.uid == new.uid and old.acknowledged and old.acknowledged_at != new.acknowledged_at:
            self.again += 1
        if old and old.uid == new.uid and new.acknowledged and not old.acknowledged:
            self.answered += 1
        if new.acknowledged or new.leaving:
            self.waiting.end(new.uid)
        else:
            self.waiting.begin(new.uid, self._clock())


class Pairs:
    """Each living Pod has exactly one request, and each request one living Pod; they find each other by the Pod's uid.

    A Pod's life ends with its deletion timestamp (ADR-7): from then on its request is one without a Pod.
    """

    def __init__(self, expected: Expected, clock: Callable[[], float]) -> None:
        self._expected = expected
        self._clock = clock
        self._pods: dict[str, SeenPod] = {}
        # Pod's uid → its requests: the first of them is the one that it should have.
        self._requests: dict[str, list[SeenRequest]] = {}
        self.pods_alone = Ages()
        self.requests_alone = Ages()
        # Field → requests in which it was wrong.
        self.wrong: Counter[str] = Counter(dict.fromkeys(FIELDS, 0))

    def pod_came(self, pod: SeenPod) -> None:
        uid = pod.uid
        self._pods[uid] = pod
        requests = self._requests.get(uid)
        if not requests:
            self.pods_alone.begin(uid, self._clock())
            return
        self.requests_alone.end(requests[0].uid)
        for request in requests:
            self._compare(pod, request)

    def pod_went(self, uid: str) -> None:
        del self._pods[uid]
        self.pods_alone.end(uid)
        for request in self._requests.get(uid, ()):
            self.requests_alone.begin(request.uid, self._clock())

    def on_request(self, old: SeenRequest | None, new: SeenRequest | None) -> None:
        """Follow requests; one that names no Pod has none."""
        before = old if old and not old.leaving else None
        now = new if new and not new.leaving else None
        if before and now and before.uid == now.uid and before.pod == now.pod:
            self._request_changed(before, now)
            return
        if before:
            self._request_went(before)
        if now:
            self._request_came(now)

    def _request_came(self, request: SeenRequest) -> None:
        requests = self._requests.setdefault(_pod_of(request), [])
        requests.append(request)
        pod = self._pods.get(request.pod)
        if pod and len(requests) == 1:
            self.pods_alone.end(pod.uid)
        else:
            self.requests_alone.begin(request.uid, self._clock())
        if pod:
            self._compare(pod, request)

    def _request_went(self, request: SeenRequest) -> None:
        uid = _pod_of(request)
        requests = [one for one in self._requests.pop(uid, ()) if one.uid != request.uid]
        self.requests_alone.end(request.uid)
        if requests:
            self._requests[uid] = requests
            if uid in self._pods:
                self.requests_alone.end(requests[0].uid)
        elif uid in self._pods:
            self.pods_alone.begin(uid, self._clock())

    def _request_changed(self, before: SeenRequest, now: SeenRequest) -> None:
        """Its phase, most of the time."""
        requests = self._requests[_pod_of(now)]
        requests[:] = [now if one.uid == now.uid else one for one in requests]
        pod = self._pods.get(now.pod)
        if pod and (now.spec is not before.spec or now.owner != before.owner):
            self._compare(pod, now)

    def _compare(self, pod: SeenPod, request: SeenRequest) -> None:
        fields = self._expected.differences(pod.workload, request.spec)
        if request.owner != pod.name:
            fields = (*fields, OWNER)
        for field in fields:
            if self.wrong.total() < _SHOWN:
                said = request.owner if field == OWNER else request.spec
                log.warning("a CapacityRequest differs from the draw", pod=pod.name, field=field, said=said)
            self.wrong[field] += 1


def _pod_of(request: SeenRequest) -> str:
    """The key of its Pod. A request without a Pod has a key of its own, or all of them would seem to be one Pod's."""
    return request.pod or request.uid
