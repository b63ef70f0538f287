"""A client-side rate limit, as client-go has it: `qps` on average, `burst` at once."""

import asyncio


class RateLimit:
    """A token bucket; callers wait in order of arrival."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1 / qps
        self._burst = burst
        self._next_free = 0.0  # when the bucket is full again, minus the burst, on the loop's clock

    async def take(self) -> None:
        """Return when this request may go out."""
        now = asyncio.get_running_loop().time()
        self._next_free = max(self._next_free, now - self._burst * self._interval) + self._interval
        if self._next_free > now:
            await asyncio.sleep(self._next_free - now)
