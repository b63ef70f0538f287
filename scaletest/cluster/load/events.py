"""Whether the load came as planned: deletions, their successors and changes of demand, each in time or late."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter

# What was due longer ago than this is late.
LATE_SECONDS = 5.0

_EVENTS = ("deletion", "successor", "change")
_OUTCOMES = ("in_time", "late")


class LoadEvents:
    """Counts events by how late they were."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._events = Counter(
            "scaletest_load_events",
            "What the load had to do, by whether it was done within 5 s of the moment at which it was due.",
            ["event", "outcome"],
            registry=registry,
        )
        for event in _EVENTS:
            for outcome in _OUTCOMES:
                self._events.labels(event, outcome)

    def note(self, event: str, late_seconds: float) -> None:
        self._events.labels(event, "late" if late_seconds > LATE_SECONDS else "in_time").inc()


@dataclass(eq=False)
class ExpectedPod:
    """A Pod that should come for one that the churn deletes."""

    workload: str
    # When the predecessor's deletion was done; None while it is asked for.
    deleted_at: float | None = None
    # It was late, and has been counted.
    missed: bool = False


class Successors:
    """The Pods that should replace those which the churn deleted: of each workload the first that comes is the first
    that was expected. `short_of` tells how many Pods a workload lacks now; None: it is not demanded any more."""

    def __init__(
        self,
        events: LoadEvents,
        short_of: Callable[[str], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events = events
        self._short_of = short_of
        self._clock = clock
        self._expected: dict[str, deque[ExpectedPod]] = {}

    def expect(self, workload: str) -> ExpectedPod:
        """To be called before the deletion is asked for: a successor may be seen before that has its answer."""
        expected = ExpectedPod(workload)
        self._expected.setdefault(workload, deque()).append(expected)
        return expected

    def deleted(self, expected: ExpectedPod) -> None:
        """The successor is due from now on."""
        expected.deleted_at = self._clock()

    def not_deleted(self, expected: ExpectedPod) -> None:
        """No Pod was deleted, so no successor is due."""
        queue = self._expected.get(expected.workload, deque())
        if expected in queue:
            queue.remove(expected)

    def came(self, workload: str) -> None:
        """A new Pod of the workload lives."""
        if not (queue := self._expected.get(workload)):
            return
        one = queue.popleft()
        if not one.missed:
            self._events.note("successor", 0.0 if one.deleted_at is None else self._clock() - one.deleted_at)

    def look(self) -> None:
        """Count those that stay away for too long, each once; to be called about once a second."""
        long_ago = self._clock() - LATE_SECONDS
        for workload, queue in list(self._expected.items()):
            self._expected[workload] = deque(one for one in queue if not self._settled(one, long_ago))
            if not self._expected[workload]:
                del self._expected[workload]

    def _settled(self, one: ExpectedPod, long_ago: float) -> bool:
        """Whether this successor need not be awaited any longer."""
        if one.deleted_at is None or one.deleted_at >= long_ago:
            return False
        short = self._short_of(one.workload)
        if not one.missed and short is not None:
            # If no Pod is missing, the Pod was deleted twice, and its one successor came before we expected any.
            self._events.note("successor", LATE_SECONDS + 1 if short > 0 else 0.0)
        one.missed = True
        return not short
