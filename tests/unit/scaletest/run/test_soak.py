"""The soak: ended early when it is hopeless, and told what restarted meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaletest.judge.prometheus import Prometheus, Sample, Series
from scaletest.run.journal import RunJournal
from scaletest.run.steps.overview import FleetFigures
from scaletest.run.steps.soak import Soak, soak_figures
from scaletest.run.target.kube_api import KubeApi
from tests.unit.plans import smoke_plan


class Cycles(Prometheus):
    """Shards whose cycles take so long, seen often enough."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def value(self, query: str, at: float | None = None) -> float | None:
        return self._seconds if "cycle_duration" in query else 0.1

    async def series(self, query: str, start: float, end: float, step_seconds: float = 5) -> list[Series]:
        return []

    async def growth(self, counter: str, start: float, end: float) -> float | None:
        return 50.0

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        return [Sample({"le": "60"}, 1.0)]


class Nowhere(KubeApi):
    def __init__(self) -> None:
        """No connection."""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[RunJournal]:
    made = RunJournal(tmp_path / "events.jsonl", lambda event: None)
    yield made
    made.close()


def soak(seconds: float, journal: RunJournal) -> Soak:
    return Soak(smoke_plan(), Nowhere(), Cycles(seconds), journal)


def test_a_bar_that_is_missed_after_ten_minutes_ends_the_soak_with_its_reason(journal: RunJournal) -> None:
    reason = asyncio.run(soak(7.5, journal)._hopeless(0.0, 600.0))
    assert reason == "the soak was cut short after 10m00s: shardCycleDurationP99Seconds: 7.5 > 5"


def test_a_soak_that_may_still_pass_goes_on(journal: RunJournal) -> None:
    assert asyncio.run(soak(0.2, journal)._hopeless(0.0, 600.0)) == ""


def test_the_fleets_line_counts_one_as_one() -> None:
    one: FleetFigures = {"lost": 1.0, "bound": 1.0, "shortfalls": 1.0}
    assert soak_figures(one, 80) == "1 machine lost · 1 Pod bound (target 80) · 1 shortfall"
    none: FleetFigures = {"lost": None, "bound": 80.0, "shortfalls": 0.0}
    assert soak_figures(none, 80) == "0 machines lost · 80 Pods bound (target 80) · 0 shortfalls"
