"""A client-side rate limit, as client-go has it: `qps` on average, `burst` at once."""

import asyncio


class RateLimit:
    """A token bucket; callers wait in order of arrival, those in the background behind all others."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1 / qps
        self._burst = burst
        self._next_free = float("-inf")  # when the last place taken becomes free; lags `now` by an unused burst
        self._background = asyncio.Lock()

    async def take(self, *, background: bool = False) -> None:
        """Return when this request may go out.

        Background requests hold at most one place in the queue together, so a flood of them delays the others by
        one interval and no more.
        """
        if background:
            async with self._background:
                await self.take()
            return
        await asyncio.sleep(self.reserve(asyncio.get_running_loop().time()))

    def reserve(self, now: float) -> float:
        """Take the next place in the queue; returns how many seconds it is away."""
        self._next_free = max(self._next_free, now - self._burst * self._interval) + self._interval
        return max(0.0, self._next_free - now)
