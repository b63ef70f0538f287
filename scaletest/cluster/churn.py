"""Pods that leave during the soak: a share of the target every minute, and those whose finite life is over."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import numpy as np

from scaletest.model.catalog import Archetype
from scaletest.model.loadprofile import LoadProfile

_TICK_SECONDS = 1.0

Delete = Callable[[str], Awaitable[None]]
# The keys of the Pods that could leave now: of one archetype, or of all.
Candidates = Callable[[str | None], Sequence[str]]


def churn_per_second(profile: LoadProfile) -> float:
    """Expected deletions per second in one cluster, between micro-bursts."""
    return profile.target * profile.churn_per_minute / 60


def churn_per_tick(profile: LoadProfile, rng: np.random.Generator) -> Iterator[int]:
    """How many Pods leave in each second of the soak, for ever: the same for the same seed (spec/harness.md §4.1)."""
    mean, owed = churn_per_second(profile), 0.0
    while True:
        if profile.jittered_churn:
            count = float(rng.poisson(mean))
        else:
            owed += mean
            count = owed // 1
            owed -= count
        burst = rng.random() < profile.micro_burst_rate_per_minute / 60
        yield round(count * profile.micro_burst_factor) if burst else int(count)


class Churn:
    """Deletes random Pods while the soak is on; the owners of the Pods recreate them."""

    def __init__(self, profile: LoadProfile, ordinal: int, candidates: Candidates, delete: Delete) -> None:
        self._profile = profile
        self._ordinal = ordinal
        self._candidates = candidates
        self._delete = delete

    async def run(self, soaking: asyncio.Event) -> None:
        """Delete for ever, whenever `soaking` is set."""
        async with asyncio.TaskGroup() as group:
            if self._profile.churn_per_minute:
                rng = self._random("churn")
                numbers = churn_per_tick(self._profile, rng)
                group.create_task(self._process(None, rng, lambda _: next(numbers), soaking))
            for archetype in self._profile.archetypes:
                if archetype.mean_lifetime_seconds > 0:
                    rng = self._random(f"age {archetype.name}")
                    group.create_task(self._process(archetype.name, rng, _ageing(archetype, rng), soaking))

    def _random(self, purpose: str) -> np.random.Generator:
        source = [self._profile.seed % 2**64, self._ordinal, *purpose.encode()]
        return np.random.Generator(np.random.PCG64(source))

    async def _process(
        self, archetype: str | None, rng: np.random.Generator, number: Callable[[int], int], soaking: asyncio.Event
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await soaking.wait()
            due = loop.time()
            # Due times add up, so that a slow apiserver delays deletions but does not lower their rate.
            while soaking.is_set():
                count = number(len(self._candidates(archetype)))
                for _ in range(count):
                    due += _TICK_SECONDS / count
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    await self._delete_one(archetype, rng, soaking)
                if not count:
                    due += _TICK_SECONDS
                    await asyncio.sleep(max(0.0, due - loop.time()))

    async def _delete_one(self, archetype: str | None, rng: np.random.Generator, soaking: asyncio.Event) -> None:
        candidates = self._candidates(archetype)
        if soaking.is_set() and candidates:
            await self._delete(candidates[int(rng.integers(len(candidates)))])


def _ageing(archetype: Archetype, rng: np.random.Generator) -> Callable[[int], int]:
    """Each Pod that lives ends in this second with the same small chance."""
    return lambda alive: int(rng.binomial(alive, min(1.0, _TICK_SECONDS / archetype.mean_lifetime_seconds)))
