"""Pods that leave during the soak: a share of the target every minute, and those whose finite life is over.

How many leave in which second is one random stream, which Pods they are is another. What lives at the moment has a say
in the second only, so that two runs with the same seed have the same schedule.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count, islice

import numpy as np

from scaletest.cluster.run_watch import RunWatch
from scaletest.model.catalog import Archetype
from scaletest.model.loadprofile import LoadProfile

_TICK_SECONDS = 1.0
# Who hears of the soak later than this had no part in its past: a new life of this process, most likely.
_MADE_UP_SECONDS = 10.0

Delete = Callable[[str], Awaitable[None]]
# The keys of the Pods that could leave now: of one archetype, or of all.
Candidates = Callable[[str | None], Sequence[str]]
# How many Pods of an archetype there should be, so many seconds into the soak.
PodsDue = Callable[[str, float], int]


def churn_per_second(profile: LoadProfile) -> float:
    """Expected deletions per second in one cluster, between micro-bursts."""
    return profile.target * profile.churn_per_minute / 60


def churn_per_tick(profile: LoadProfile, rng: np.random.Generator) -> Iterator[int]:
    """How many Pods leave in each second of the soak, for ever: the same for the same seed (spec/harness.md §4.1)."""
    mean, owed = churn_per_second(profile), 0.0
    while True:
        if profile.jittered_churn:
            number = float(rng.poisson(mean))
        else:
            owed += mean
            number = owed // 1
            owed -= number
        burst = rng.random() < profile.micro_burst_rate_per_minute / 60
        yield round(number * profile.micro_burst_factor) if burst else int(number)


def ageing_per_tick(archetype: Archetype, pods_due: PodsDue, rng: np.random.Generator) -> Iterator[int]:
    """The same for one archetype: each Pod that should be there ends in a second with the same small chance."""
    chance = min(1.0, _TICK_SECONDS / archetype.mean_lifetime_seconds)
    for tick in count():
        yield int(rng.binomial(pods_due(archetype.name, tick * _TICK_SECONDS), chance))


def first_tick(soak_seconds: float) -> int:
    """Where to begin. Of a tick that a former life of this process had begun, nobody knows what is left."""
    return math.ceil(soak_seconds / _TICK_SECONDS) if soak_seconds > _MADE_UP_SECONDS else 0


class Churn:
    """Deletes random Pods while the soak is on; the owners of the Pods recreate them."""

    def __init__(
        self, profile: LoadProfile, ordinal: int, pods_due: PodsDue, candidates: Candidates, delete: Delete
    ) -> None:
        self._profile = profile
        self._ordinal = ordinal
        self._pods_due = pods_due
        self._candidates = candidates
        self._delete = delete

    async def run(self, watch: RunWatch) -> None:
        """Delete for ever, whenever the soak is on; its past is made up for only if it is short."""
        async with asyncio.TaskGroup() as group:
            for purpose, archetype in self._purposes():
                group.create_task(self._process(purpose, archetype, watch))

    def _purposes(self) -> Iterator[tuple[str, Archetype | None]]:
        if self._profile.churn_per_minute:
            yield "churn", None
        for archetype in self._profile.archetypes:
            if archetype.mean_lifetime_seconds > 0:
                yield f"age {archetype.name}", archetype

    def _schedule(self, purpose: str, archetype: Archetype | None) -> Iterator[int]:
        rng = self._random(purpose)
        return ageing_per_tick(archetype, self._pods_due, rng) if archetype else churn_per_tick(self._profile, rng)

    def _random(self, purpose: str) -> np.random.Generator:
        source = [self._profile.seed % 2**64, self._ordinal, *purpose.encode()]
        return np.random.Generator(np.random.PCG64(source))

    async def _process(self, purpose: str, archetype: Archetype | None, watch: RunWatch) -> None:
        loop = asyncio.get_running_loop()
        choice = self._random(f"{purpose}: which")
        while True:
            await watch.soaking.wait()
            past = first_tick(watch.soak_seconds)
            # Due times add up, so that a slow apiserver delays deletions but does not lower their rate.
            due = loop.time() + past * _TICK_SECONDS - watch.soak_seconds
            for number in islice(self._schedule(purpose, archetype), past, None):
                for _ in range(number):
                    due += _TICK_SECONDS / number
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    await self._delete_one(archetype.name if archetype else None, choice, watch.soaking)
                if not number:
                    due += _TICK_SECONDS
                    await asyncio.sleep(max(0.0, due - loop.time()))
                if not watch.soaking.is_set():
                    break

    async def _delete_one(self, archetype: str | None, choice: np.random.Generator, soaking: asyncio.Event) -> None:
        candidates = self._candidates(archetype)
        if soaking.is_set() and candidates:
            await self._delete(candidates[int(choice.integers(len(candidates)))])
