"""Pods that leave during the soak: a share of the target every minute, and those whose finite life is over.

How many leave in which second is one random stream, which Pods they are is another. What lives at the moment has a say
in the second only, so that two runs with the same seed have the same schedule.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain, count, islice

import numpy as np

from scaletest.cluster.load.run_watch import RunWatch
from scaletest.model.demand.draw import Ints, Numbers
from scaletest.model.demand.happenings import Course, happenings
from scaletest.model.documents.catalog import Archetype
from scaletest.model.documents.loadprofile import LoadProfile

_TICK_SECONDS = 1.0
# Seconds that are drawn at once.
_CHUNK_TICKS = 512
# A process that learns of the soak later than this skips the deletions that were due until then: most likely it was
# restarted, and the former process made them.
_MADE_UP_SECONDS = 10.0

# Deletes a Pod that should have left at a moment of the loop's clock.
Delete = Callable[[str, float], Awaitable[None]]
# The keys of the Pods that could leave now: of one archetype, or of all.
Candidates = Callable[[str | None], Sequence[str]]
# How many Pods of an archetype there should be, so many seconds into the soak.
PodsDue = Callable[[str, Numbers], Ints]


def churn_per_second(profile: LoadProfile) -> float:
    """Expected deletions per second in one cluster, between micro-bursts."""
    return profile.target * profile.churn_per_minute / 60


def churn_per_tick(profile: LoadProfile, rng: np.random.Generator) -> Iterator[Ints]:
    """How many Pods leave in each second of the soak, for ever, a batch of seconds at a time: the same for the same
    seed (docs/reference/harness.md#churn)."""
    mean = churn_per_second(profile)
    for ticks in _chunks():
        if profile.jittered_churn:
            numbers = rng.poisson(mean, len(ticks))
        else:
            numbers = np.floor((ticks + 1) * mean) - np.floor(ticks * mean)
        bursts = rng.random(len(ticks)) < profile.micro_burst_rate_per_minute / 60
        yield np.where(bursts, np.rint(numbers * profile.micro_burst_factor), numbers).astype(np.int64)


def ageing_per_tick(archetype: Archetype, pods_due: PodsDue, rng: np.random.Generator) -> Iterator[Ints]:
    """The same for one archetype: each Pod that should be there ends in a second with the same small chance."""
    chance = min(1.0, _TICK_SECONDS / archetype.mean_lifetime_seconds)
    for ticks in _chunks():
        yield rng.binomial(pods_due(archetype.name, ticks * _TICK_SECONDS), chance)


def _chunks() -> Iterator[Numbers]:
    """The numbers of all ticks."""
    for chunk in count():
        yield np.arange(chunk * _CHUNK_TICKS, (chunk + 1) * _CHUNK_TICKS, dtype=np.float64)


class Schedule:
    """How many Pods of one cluster leave in which second, for every reason that it has."""

    def __init__(self, profile: LoadProfile, ordinal: int, pods_due: PodsDue) -> None:
        self._profile = profile
        self._ordinal = ordinal
        self._pods_due = pods_due

    def purposes(self) -> Iterator[tuple[str, Archetype | None]]:
        """Churn of all Pods, and the ageing of each archetype whose Pods end."""
        if self._profile.churn_per_minute:
            yield "churn", None
        for archetype in self._profile.archetypes:
            if archetype.mean_lifetime_seconds > 0:
                yield f"age {archetype.name}", archetype

    def ticks(self, purpose: str, archetype: Archetype | None) -> Iterator[int]:
        return (int(number) for number in chain.from_iterable(self._batches(purpose, archetype)))

    def random(self, purpose: str) -> np.random.Generator:
        source = [self._profile.seed % 2**64, self._ordinal, *purpose.encode()]
        return np.random.Generator(np.random.PCG64(source))

    def due_before(self, seconds: float) -> int:
        """Deletions due between soak start and so many seconds later; those of a tick are spread over it, up to its
        end."""
        last = math.ceil(seconds / _TICK_SECONDS) - 1
        if last < 0:
            return 0
        fraction = seconds / _TICK_SECONDS - last
        due = 0
        for purpose in self.purposes():
            numbers = np.concatenate([*islice(self._batches(*purpose), last // _CHUNK_TICKS + 1)])
            due += int(numbers[:last].sum()) + max(0, math.ceil(numbers[last] * fraction) - 1)
        return due

    def _batches(self, purpose: str, archetype: Archetype | None) -> Iterator[Ints]:
        rng = self.random(purpose)
        return ageing_per_tick(archetype, self._pods_due, rng) if archetype else churn_per_tick(self._profile, rng)


def planned_deletions(profile: LoadProfile, ordinal: int, seconds: float) -> int:
    """Pods that a cluster's churn and ageing delete before so many seconds of the soak are over."""
    return Schedule(profile, ordinal, _due_later(profile, ordinal)).due_before(seconds)


def planned_changes(profile: LoadProfile, ordinal: int, seconds: float) -> int:
    """Bursts, sheds and steps of a cluster before so many seconds of the soak are over; a burst that ends is two."""
    return sum(one.at_seconds < seconds for one in happenings(profile, ordinal))


def _due_later(profile: LoadProfile, ordinal: int) -> PodsDue:
    """Draws the course at the first call: only archetypes whose Pods age need it."""
    course: Course | None = None

    def pods_due(archetype: str, at_seconds: Numbers) -> Ints:
        nonlocal course
        course = course or Course(profile, ordinal)
        return course.pods_due(archetype, at_seconds)

    return pods_due


def first_tick(soak_seconds: float) -> int:
    """Where to begin. A tick that a former process had begun is skipped: what is left of it is unknown."""
    return math.ceil(soak_seconds / _TICK_SECONDS) if soak_seconds > _MADE_UP_SECONDS else 0


class Churn:
    """Deletes random Pods while the soak is on; the owners of the Pods recreate them."""

    def __init__(
        self, profile: LoadProfile, ordinal: int, pods_due: PodsDue, candidates: Candidates, delete: Delete
    ) -> None:
        self._schedule = Schedule(profile, ordinal, pods_due)
        self._candidates = candidates
        self._delete = delete

    async def run(self, watch: RunWatch) -> None:
        """Delete for ever, whenever the soak is on; its past is made up for only if it is short."""
        async with asyncio.TaskGroup() as group:
            for purpose, archetype in self._schedule.purposes():
                group.create_task(self._process(purpose, archetype, watch))

    async def _process(self, purpose: str, archetype: Archetype | None, watch: RunWatch) -> None:
        loop = asyncio.get_running_loop()
        choice = self._schedule.random(f"{purpose}: which")
        while True:
            await watch.soaking.wait()
            past = first_tick(watch.soak_seconds)
            # Due times add up, so that a slow apiserver delays deletions but does not lower their rate.
            due = loop.time() + past * _TICK_SECONDS - watch.soak_seconds
            for number in islice(self._schedule.ticks(purpose, archetype), past, None):
                for _ in range(number):
                    due += _TICK_SECONDS / number
                    await asyncio.sleep(max(0.0, due - loop.time()))
                    await self._delete_one(archetype.name if archetype else None, choice, watch.soaking, due)
                if not number:
                    due += _TICK_SECONDS
                    await asyncio.sleep(max(0.0, due - loop.time()))
                if not watch.soaking.is_set():
                    break

    async def _delete_one(
        self, archetype: str | None, choice: np.random.Generator, soaking: asyncio.Event, due: float
    ) -> None:
        candidates = self._candidates(archetype)
        if soaking.is_set() and candidates:
            await self._delete(candidates[int(choice.integers(len(candidates)))], due)
