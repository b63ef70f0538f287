"""A client-side rate limit, as client-go has it: `qps` on average, `burst` at once."""

import asyncio


class RateLimit:
    """A token bucket; callers wait in order of arrival, those in the background behind everyone else."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1 / qps
        self._burst = burst
        self._next_free = 0.0  # when the bucket is full again, minus the burst, on the loop's clock
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
        now = asyncio.get_running_loop().time()
        self._next_free = max(self._next_free, now - self._burst * self._interval) + self._interval
        if self._next_free > now:
            await asyncio.sleep(self._next_free - now)
