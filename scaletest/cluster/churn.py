"""Pods that leave during the soak: a share of the target every minute, and those whose finite life is over."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from scaletest.model.catalog import Archetype
from scaletest.model.loadprofile import LoadProfile

# How long a process without anything to delete waits before it looks again.
_IDLE_SECONDS = 1.0

Delete = Callable[[str], Awaitable[None]]
# The keys of the Pods that could leave now: of one archetype, or of all.
Candidates = Callable[[str | None], Sequence[str]]


def churn_per_second(profile: LoadProfile) -> float:
    """Expected deletions per second in one cluster."""
    return profile.target * profile.churn_per_minute / 60


class Churn:
    """Poisson processes that delete random Pods while the soak is on; the owners of the Pods recreate them."""

    def __init__(self, profile: LoadProfile, cluster_id: str, candidates: Candidates, delete: Delete) -> None:
        self._profile = profile
        self._cluster_id = cluster_id
        self._candidates = candidates
        self._delete = delete

    async def run(self, soaking: asyncio.Event) -> None:
        """Delete for ever, whenever `soaking` is set."""
        async with asyncio.TaskGroup() as group:
            if rate := churn_per_second(self._profile):
                group.create_task(self._process("churn", None, lambda _: rate, soaking))
            for archetype in self._profile.archetypes:
                if archetype.mean_lifetime_seconds > 0:
                    group.create_task(self._process("age", archetype, _ageing(archetype), soaking))

    async def _process(
        self, kind: str, archetype: Archetype | None, rate: Callable[[int], float], soaking: asyncio.Event
    ) -> None:
        name = archetype.name if archetype else None
        rng = random.Random(f"{kind}/{self._profile.seed}/{self._cluster_id}/{name}")
        loop = asyncio.get_running_loop()
        while True:
            await soaking.wait()
            due = loop.time()
            # Due times add up, so that a slow apiserver delays deletions but does not lower their rate.
            while soaking.is_set():
                per_second = rate(len(self._candidates(name)))
                due += rng.expovariate(per_second) if per_second > 0 else _IDLE_SECONDS
                await asyncio.sleep(max(0.0, due - loop.time()))
                candidates = self._candidates(name)
                if soaking.is_set() and candidates and per_second > 0:
                    await self._delete(rng.choice(candidates))


def _ageing(archetype: Archetype) -> Callable[[int], float]:
    return lambda alive: alive / archetype.mean_lifetime_seconds
