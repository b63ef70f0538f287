"""A clock that stands still while this process does not run: a stopped witness must not accuse others."""

import math
import time
from collections.abc import Callable

TICK_SECONDS = 1.0
# A tick that comes later than this was kept from coming.
_LATE_SECONDS = 1.0


class Sight:
    """Seconds during which this process could see, and those during which it was blind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.blind_seconds = 0.0
        self._clock = clock
        self._last = clock()
        # When the next tick should come; infinite before the first one, so that it cannot be late.
        self._due = math.inf

    def now(self) -> float:
        """Never goes back, and does not go on by the time for which a tick was late."""
        now = self._clock()
        if now > self._due + _LATE_SECONDS:
            self.blind_seconds += now - max(self._due, self._last)
            self._due = now
        self._last = now
        return now - self.blind_seconds

    def tick(self) -> float:
        """To be called every TICK_SECONDS."""
        now = self.now()
        self._due = self._last + TICK_SECONDS
        return now
