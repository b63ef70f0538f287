"""A figure with the lowest and the highest value that it had lately, so that no dip between two scrapes is lost."""

import time
from collections import deque
from collections.abc import Callable

# Longer than a scrape interval: two scrapes in a row always overlap.
WINDOW_SECONDS = 10.0
EDGES = ("lowest", "highest")


class Watermarks:
    """Follows one figure; a change costs O(1) on average, however often it comes."""

    def __init__(
        self, value: float = 0.0, window_seconds: float = WINDOW_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.value = value
        self._window_seconds = window_seconds
        self._clock = clock
        # (until when the value held, the value): values that a later one has outdone are dropped.
        self._lows: deque[tuple[float, float]] = deque()
        self._highs: deque[tuple[float, float]] = deque()

    def set(self, value: float) -> None:
        if value == self.value:
            return
        now = self._clock()
        while self._lows and self._lows[-1][1] >= self.value:
            self._lows.pop()
        while self._highs and self._highs[-1][1] <= self.value:
            self._highs.pop()
        for marks in (self._lows, self._highs):
            self._drop_old(marks)  # reading drops them too, but reads may be far apart
            marks.append((now, self.value))
        self.value = value

    def add(self, amount: float) -> None:
        self.set(self.value + amount)

    @property
    def lowest(self) -> float:
        return min(self.value, self._outermost(self._lows))

    @property
    def highest(self) -> float:
        return max(self.value, self._outermost(self._highs))

    def _outermost(self, marks: deque[tuple[float, float]]) -> float:
        """The extreme value that still held within the window; the marks are in order of time and of extremity."""
        self._drop_old(marks)
        return marks[0][1] if marks else self.value

    def _drop_old(self, marks: deque[tuple[float, float]]) -> None:
        since = self._clock() - self._window_seconds
        while marks and marks[0][0] < since:
            marks.popleft()
