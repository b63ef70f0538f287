"""Pods leave at the asked rate, and only during the soak."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, cycle, islice, repeat
from typing import Any

import numpy as np
import pytest

from scaletest.cluster.load.churn import (
    Churn,
    ageing_per_tick,
    churn_per_second,
    churn_per_tick,
    planned_changes,
    planned_deletions,
)
from scaletest.cluster.load.run_watch import RunWatch
from scaletest.model.demand.draw import Ints, Numbers
from scaletest.model.demand.happenings import Course
from scaletest.model.documents.catalog import Archetype, Size
from scaletest.model.documents.loadprofile import LoadProfile
from tests.soaking import soak
from tests.unit.plans import shipped_plan
from tests.unit.virtual_time import in_no_time


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
    """A thousand Pods that are recreated at once, or not all of them; says when `count` have been deleted."""

    def __init__(self, count: int, alive: Iterator[int] | None = None) -> None:
        self.deleted: list[str] = []
        # How many went in each second of the loop's clock.
        self.seconds: Counter[int] = Counter()
        self.asked: set[str | None] = set()
        # The most, in seconds of the loop's clock.
        self.late = 0.0
        self.enough = asyncio.Event()
        self._count = count
        self._alive = alive or repeat(1000)

    def candidates(self, archetype: str | None) -> Sequence[str]:
        self.asked.add(archetype)
        return [f"pod-{index}" for index in range(next(self._alive))]

    async def delete(self, name: str, due: float) -> None:
        self.late = max(self.late, asyncio.get_running_loop().time() - due)
        self.deleted.append(name)
        self.seconds[int(asyncio.get_running_loop().time())] += 1
        if len(self.deleted) >= self._count:
            self.enough.set()


def test_dev_50_loses_one_pod_a_second_per_cluster() -> None:
    assert churn_per_second(profile(churn_per_minute=0.024)) == pytest.approx(1.0)


def ticks(load: LoadProfile, count: int, seed: int = 1) -> list[int]:
    return [
        int(number) for number in islice(chain(*islice(churn_per_tick(load, np.random.default_rng(seed)), 9)), count)
    ]


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


def pods_due(_archetype: str, at_seconds: Numbers) -> Ints:
    return np.full(len(at_seconds), 1000)


async def delete_some(load: LoadProfile, count: int, alive: Iterator[int] | None = None) -> tuple[Pods, float]:
    pods, watch = Pods(count, alive), RunWatch()
    task = asyncio.ensure_future(Churn(load, 0, pods_due, pods.candidates, pods.delete).run(watch))
    await asyncio.sleep(0)
    started = asyncio.get_running_loop().time()
    watch.on_change(None, soak())
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


def per_second(
    load: LoadProfile, seconds: int, alive: Iterator[int] | None = None, *, soaking_for: float | None = None
) -> list[int]:
    """How many Pods leave in each second; the soak begins when we do, or has been on for a while."""

    async def live() -> list[int]:
        pods, watch = Pods(10**9, alive), RunWatch()
        if soaking_for is not None:
            watch.on_change(None, soak(soaking_for))
        task = asyncio.ensure_future(Churn(load, 0, pods_due, pods.candidates, pods.delete).run(watch))
        await asyncio.sleep(0)
        watch.on_change(None, soak())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [pods.seconds[second] for second in range(seconds)]

    return in_no_time(live())


def test_the_schedule_is_the_seeds_whatever_lives_at_the_moment() -> None:
    load = profile(churn_per_minute=0.06, micro_burst_rate_per_minute=6, mean_lifetime_seconds=300)
    crowd = per_second(load, 60)
    assert sum(crowd) > 200
    assert per_second(load, 60, cycle((1, 1000, 7))) == crowd
    assert per_second(load.model_copy(update={"seed": 2}), 60) != crowd


def test_a_process_that_starts_in_the_soak_goes_on_with_the_schedule() -> None:
    load = profile(churn_per_minute=0.06, mean_lifetime_seconds=300)
    whole = per_second(load, 60)
    # The second in which it starts had begun; what is left of it is let be.
    assert per_second(load, 20, soaking_for=40) == [0, *whole[41:60]]


def test_ageing_follows_the_demand_that_is_due() -> None:
    archetype = profile(mean_lifetime_seconds=10).archetypes[0]
    batches = ageing_per_tick(archetype, lambda _, at: np.where(at < 100, 1000, 0), np.random.default_rng(1))
    numbers = chain.from_iterable(batches)
    first, then = list(islice(numbers, 100)), list(islice(numbers, 50))
    assert sum(first) / 100 == pytest.approx(100, rel=0.05)
    assert set(then) == {0}


async def test_archetypes_of_finite_life_lose_pods_of_their_own() -> None:
    pods, _ = await delete_some(profile(mean_lifetime_seconds=10), 10)
    assert pods.asked == {"web"}


async def test_nothing_leaves_before_the_soak() -> None:
    pods = Pods(1)
    churn = Churn(profile(churn_per_minute=500), 0, pods_due, pods.candidates, pods.delete)
    task = asyncio.ensure_future(churn.run(RunWatch()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert pods.deleted == [] and pods.asked == set()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class SoakSinceZero(RunWatch):
    """The soak began with the loop's clock."""

    @property
    def soak_seconds(self) -> float:
        return asyncio.get_running_loop().time()


@pytest.mark.parametrize("seconds", [1, 2, 40.5, 59.99, 60])
def test_the_plan_counts_what_the_churn_will_delete(seconds: float) -> None:
    """Those due at the very end of the time are none of it: the soak is over by then."""
    load = profile(churn_per_minute=0.06, micro_burst_rate_per_minute=6, mean_lifetime_seconds=300)
    course = Course(load, 0)

    async def deleted() -> int:
        pods, watch = Pods(10**9), SoakSinceZero()
        churn = Churn(load, 0, course.pods_due, pods.candidates, pods.delete)
        task = asyncio.ensure_future(churn.run(watch))
        await asyncio.sleep(0)
        watch.on_change(None, soak())
        await asyncio.sleep(seconds - 1e-6)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(pods.deleted)

    assert planned_deletions(load, 0, seconds) == in_no_time(deleted()) > 0


def test_the_plan_of_a_long_soak_has_the_asked_rate() -> None:
    load = shipped_plan("dev-50").load_profile
    deletions = [planned_deletions(load, ordinal, 5000) for ordinal in range(3)]
    assert len(set(deletions)) == 3, "each cluster has a schedule of its own"
    assert planned_deletions(load, 0, 0) == 0 < planned_deletions(load, 0, 600) < deletions[0]
    churn_alone = load.model_copy(
        update={"archetypes": tuple(one.model_copy(update={"mean_lifetime_seconds": 0}) for one in load.archetypes)}
    )
    assert planned_deletions(churn_alone, 0, 5000) == pytest.approx(5000 * churn_per_second(load), rel=0.05)


def test_the_plan_counts_the_changes_that_are_due() -> None:
    load = shipped_plan("oscillation-5k", "example-fat-host").load_profile
    moments = [one.at_seconds for one in Course(load, 0).happenings]
    assert planned_changes(load, 0, moments[0]) == 0
    assert planned_changes(load, 0, moments[0] + 1) >= 1
    assert planned_changes(load, 0, moments[-1] + 1) == len(moments)


def test_deletions_know_when_they_were_due() -> None:
    async def live() -> float:
        pods, watch = Pods(10**9), RunWatch()
        task = asyncio.ensure_future(
            Churn(profile(churn_per_minute=0.6), 0, pods_due, pods.candidates, pods.delete).run(watch)
        )
        watch.on_change(None, soak(seconds_ago=7))  # the news of the soak came late, but not too late to make up for
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return pods.late

    assert in_no_time(live()) == pytest.approx(7, abs=1)
