"""Losses of one cluster and the machines that came for them, oldest loss first. Pure."""

from collections import deque

# An arrival that no loss waited for stands for a machine too many as long as BigFleet may keep one: the reclaim hold of
# 30 s, a cycle, and the grace of a drain. After that it is either given back or needed, and covers no loss.
CREDIT_SECONDS = 90.0
# A loss that a spare machine covers needs no other. If BigFleet replaces it all the same, it does so by the next cycle
# or two; a machine that comes later has come for something else, such as a burst.
COVERED_SECONDS = 15.0


class Replacement:
    """Which losses wait for another machine's node.

    An arrival answers the oldest loss. One that no loss waits for is a credit, which the next loss uses up: the
    cluster had a machine too many then, and none needs to replace it. If one comes for it at once all the same, that
    is timed too, and the cluster has its machine too many again. A drain takes a credit away. A drain without any
    excuses the losses that wait: a machine is given back only when none is missing, so they needed no other.
    """

    def __init__(self) -> None:
        # When each was struck, or came; both in order of time, and never both filled.
        self._waiting: deque[float] = deque()
        self._credits: deque[float] = deque()
        # Losses that a credit has covered, when each was struck: one may be replaced although it need not.
        self._covered: deque[float] = deque()
        self.excused = 0

    def begin(self) -> None:
        """What came until now was the fill: it replaces no lost machine."""
        self._credits.clear()
        self._covered.clear()

    @property
    def unreplaced(self) -> int:
        return len(self._waiting)

    def oldest_seconds(self, now: float) -> float:
        """The age of the oldest loss that waits; 0 when none does."""
        return max(0.0, now - self._waiting[0]) if self._waiting else 0.0

    def credits(self, now: float) -> int:
        while self._credits and self._credits[0] < now - CREDIT_SECONDS:
            self._credits.popleft()
        return len(self._credits)

    def lost(self, now: float) -> None:
        if self.credits(now):
            self._credits.popleft()
            self._covered.append(now)
        else:
            self._waiting.append(now)

    def arrived(self, now: float) -> float | None:
        """Seconds since the loss that this one makes good; None when there was none."""
        if self._waiting:
            return max(0.0, now - self._waiting.popleft())
        self._credits.append(now)
        while self._covered and self._covered[0] < now - COVERED_SECONDS:
            self._covered.popleft()
        return max(0.0, now - self._covered.popleft()) if self._covered else None

    def drained(self, now: float) -> None:
        if self.credits(now):
            self._credits.popleft()
        else:
            self.excused += len(self._waiting)
            self._waiting.clear()
