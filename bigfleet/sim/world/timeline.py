"""The virtual clock and its event queue: nothing waits, and equal seeds give equal histories."""

import heapq
from collections.abc import Callable
from enum import IntEnum
from itertools import count


class Rank(IntEnum):
    """Which event goes first at one instant: a cycle sees all that happened up to and at its own time."""

    PROVIDER = 0
    FAULT = 1
    WORKLOAD = 2
    ROLLUP = 3
    CYCLE = 4
    SAMPLE = 5


class Timeline:
    """Virtual seconds since the start of the run."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, Rank, int, Callable[[], None]]] = []
        self._serial = count()

    def at(self, when: float, rank: Rank, event: Callable[[], None]) -> None:
        """Let something happen at a time; what lies in the past happens now."""
        heapq.heappush(self._queue, (max(when, self.now), rank, next(self._serial), event))

    def after(self, seconds: float, rank: Rank, event: Callable[[], None]) -> None:
        self.at(self.now + seconds, rank, event)

    def run_until(self, end: float) -> None:
        """Everything up to and at `end`."""
        while self._queue and self._queue[0][0] <= end:
            self.now, _, _, event = heapq.heappop(self._queue)
            event()
        self.now = max(self.now, end)
