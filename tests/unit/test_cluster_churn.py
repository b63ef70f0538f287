"""Pods leave at the asked rate, and only during the soak."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from scaletest.cluster.churn import Churn, churn_per_second, churn_per_tick
from scaletest.model.catalog import Archetype, Size
from scaletest.model.loadprofile import LoadProfile


def profile(
    *, churn_per_minute: float = 0.0, mean_lifetime_seconds: float = 0.0, seed: int = 1, **others: Any
) -> LoadProfile:
    archetype = Archetype(
        name="web",
        instance_types=("m6i.large",),
        zones=("zone-a",),
        sizes=(Size(resources={"cpu": "1"}),),
        mean_lifetime_seconds=mean_lifetime_seconds,
    )
    return LoadProfile(target=2500, churn_per_minute=churn_per_minute, seed=seed, archetypes=(archetype,), **others)


class Pods:
    """A thousand Pods that are recreated at once; says when `count` have been deleted."""

    def __init__(self, count: int) -> None:
        self.deleted: list[str] = []
        self.asked: set[str | None] = set()
        self.enough = asyncio.Event()
        self._count = count

    def candidates(self, archetype: str | None) -> Sequence[str]:
        self.asked.add(archetype)
        return [f"pod-{index}" for index in range(1000)]

    async def delete(self, name: str) -> None:
        self.deleted.append(name)
        if len(self.deleted) >= self._count:
            self.enough.set()


def test_dev_50_loses_one_pod_a_second_per_cluster() -> None:
    assert churn_per_second(profile(churn_per_minute=0.024)) == pytest.approx(1.0)


def ticks(load: LoadProfile, count: int, seed: int = 1) -> list[int]:
    return list(islice(churn_per_tick(load, np.random.default_rng(seed)), count))


def test_with_jitter_the_seconds_vary_around_the_mean() -> None:
    numbers = ticks(profile(churn_per_minute=0.06), 2000)  # 2.5 a second
    assert sum(numbers) / 2000 == pytest.approx(2.5, rel=0.1)
    assert np.var(numbers) == pytest.approx(2.5, rel=0.15), "as a Poisson process does"


def test_without_jitter_no_second_differs_by_more_than_one() -> None:
    numbers = ticks(profile(churn_per_minute=0.06, jittered_churn=False), 100)
    assert set(numbers) == {2, 3}
    assert sum(numbers) == 250


def test_micro_bursts_multiply_some_seconds() -> None:
    steady = profile(churn_per_minute=0.24, jittered_churn=False)
    bursting = steady.model_copy(update={"micro_burst_rate_per_minute": 6.0, "micro_burst_factor": 7.0})
    numbers = ticks(bursting, 3000)
    assert set(numbers) == {10, 70}
    assert numbers.count(70) == pytest.approx(300, rel=0.25), "a tenth of the seconds"


def test_the_same_seed_gives_the_same_seconds() -> None:
    load = profile(churn_per_minute=0.24, micro_burst_rate_per_minute=6)
    assert ticks(load, 50) == ticks(load, 50) != ticks(load, 50, seed=2)


async def delete_some(load: LoadProfile, count: int) -> tuple[Pods, float]:
    pods, soaking = Pods(count), asyncio.Event()
    task = asyncio.ensure_future(Churn(load, 0, pods.candidates, pods.delete).run(soaking))
    started = asyncio.get_running_loop().time()
    soaking.set()
    async with asyncio.timeout(30):
        await pods.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return pods, asyncio.get_running_loop().time() - started


async def test_the_expected_number_leaves_in_a_given_time() -> None:
    rate = 400.0
    load = profile(churn_per_minute=rate * 60 / 2500)
    _, seconds = await delete_some(load, 400)
    # The number of the first second is drawn around 400 with a fixed seed; a slow machine only adds to the time.
    assert seconds > 0.85


async def test_the_same_seed_picks_the_same_pods_and_another_one_does_not() -> None:
    first, _ = await delete_some(profile(churn_per_minute=50), 20)
    again, _ = await delete_some(profile(churn_per_minute=50), 20)
    other, _ = await delete_some(profile(churn_per_minute=50, seed=2), 20)
    assert first.deleted[:20] == again.deleted[:20] != other.deleted[:20]


async def test_archetypes_of_finite_life_lose_pods_of_their_own() -> None:
    pods, _ = await delete_some(profile(mean_lifetime_seconds=10), 10)
    assert pods.asked == {"web"}


async def test_nothing_leaves_before_the_soak() -> None:
    pods, soaking = Pods(1), asyncio.Event()
    task = asyncio.ensure_future(Churn(profile(churn_per_minute=500), 0, pods.candidates, pods.delete).run(soaking))
    for _ in range(20):
        await asyncio.sleep(0)
    assert pods.deleted == [] and pods.asked == set()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
