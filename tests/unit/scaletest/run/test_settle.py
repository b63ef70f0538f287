"""Steady state as BF-0045 defines it: strict, consecutive, and with a sentence when it is not reached."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from scaletest.errors import KubeApiUnreachable, NotSteady
from scaletest.judge.prometheus import Prometheus, Sample
from scaletest.model.documents.profile import Profile
from scaletest.run.journal import Event, RunJournal
from scaletest.run.steps.settle import Settle
from scaletest.run.steps.steadiness import PLATEAU_POLLS, QUIET_POLLS, Poll, Steadiness
from scaletest.run.target.kube_api import KubeApi
from tests.unit.plans import smoke_plan

GOOD = Poll(
    clusters_ready=2, active=80, demand=6, shortfalls=0, acquisitions=29, reclaims=0, waiting=0, unfilled=0, bound=80
)


def after(*polls: Poll) -> Steadiness:
    state = Steadiness(clusters=2, pods=80)
    for poll in polls:
        state.observe(poll)
    return state


def test_three_quiet_polls_after_the_first_look_are_steady() -> None:
    assert not after(*[GOOD] * QUIET_POLLS).steady
    assert after(*[GOOD] * (QUIET_POLLS + 1)).steady


def test_any_miss_starts_the_count_anew() -> None:
    for miss in (
        replace(GOOD, clusters_ready=1),
        replace(GOOD, active=70),
        replace(GOOD, demand=0),
        replace(GOOD, shortfalls=1),
        replace(GOOD, waiting=2),
        replace(GOOD, unfilled=1),
        replace(GOOD, acquisitions=30),
        replace(GOOD, shortfalls=None),
        replace(GOOD, waiting=None),
        Poll(clusters_ready=2),
    ):
        state = after(GOOD, GOOD, GOOD, miss)
        assert state.quiet == 0, miss


def test_missing_series_are_never_steady() -> None:
    assert not after(*[Poll(clusters_ready=2)] * 20).steady


def test_a_standing_shortfall_that_nobody_works_on_is_a_plateau() -> None:
    short = replace(GOOD, shortfalls=3)
    assert not after(*[short] * PLATEAU_POLLS).plateaued
    assert after(*[short] * (PLATEAU_POLLS + 1)).plateaued
    assert not after(*[replace(short, acquisitions=n) for n in range(PLATEAU_POLLS + 1)]).plateaued


def test_the_reason_is_said_in_words() -> None:
    assert "not Ready" in after(replace(GOOD, clusters_ready=1)).why_not()
    assert "demand is not built: 12 of 79" in after(replace(GOOD, active=12)).why_not()
    assert "undersupply: 3 needs" in after(replace(GOOD, shortfalls=3)).why_not()
    assert "2 seeded machines still wait" in after(replace(GOOD, waiting=2)).why_not()
    assert "still acquiring: 30 acquisitions" in after(GOOD, replace(GOOD, acquisitions=30)).why_not()
    assert "oscillation: 30 acquisitions and 4" in after(GOOD, replace(GOOD, acquisitions=30, reclaims=4)).why_not()
    assert "no acquisitions series" in after(replace(GOOD, acquisitions=None)).why_not()
    assert "quiet for 0 of 3" in after(GOOD).why_not()
    assert "no shortfalls series" in after(replace(GOOD, shortfalls=None)).why_not()
    assert "2 clusters still wait for the first fill" in after(replace(GOOD, unfilled=2)).why_not()


def test_a_reason_about_one_of_something_says_so() -> None:
    for poll, words in (
        (replace(GOOD, clusters_ready=1), "1 of 2 clusters is not Ready"),
        (replace(GOOD, active=1, demand=1), "1 of 79 Pods is alive as demand, the shard knows 1 need"),
        (replace(GOOD, shortfalls=1), "undersupply: 1 need stands unmet"),
        (replace(GOOD, waiting=1), "1 seeded machine still waits for its node"),
        (replace(GOOD, unfilled=1), "1 cluster still waits for the first fill to be created and bound"),
        (replace(GOOD, unfilled=None), "the clusters still wait for the first fill to be created and bound"),
    ):
        assert after(poll).why_not().endswith(words)
    bought = replace(GOOD, acquisitions=1, reclaims=1)
    assert "oscillation: 1 acquisition and 1 reclaim, still" in after(GOOD, bought).why_not()


def test_each_reason_says_what_to_look_at() -> None:
    for poll, place in (
        (replace(GOOD, active=12), "load-driver"),
        (replace(GOOD, demand=0), "operator"),
        (replace(GOOD, shortfalls=3), "seed against catalog"),
        (replace(GOOD, acquisitions=30), "shard's log"),
    ):
        assert place in after(GOOD, poll).unmet[0].look_at


def test_conditions_of_the_harness_are_told_apart() -> None:
    state = after(GOOD, replace(GOOD, waiting=2, unfilled=1))
    assert [unmet.harness for unmet in state.unmet] == [True, True]
    assert after(GOOD, GOOD).unmet == []


def test_where_scarcity_is_wanted_a_shortfall_is_steady_and_no_plateau() -> None:
    short = replace(GOOD, shortfalls=3, unfilled=2)
    state = Steadiness(clusters=2, pods=80, scarce=True)
    for _ in range(PLATEAU_POLLS + 5):
        state.observe(short)
    assert state.steady
    assert not state.plateaued
    state.observe(replace(short, shortfalls=0))
    assert "the profile wants one" in state.why_not()


def profile_with(**fields: object) -> Profile:
    """Smoke with other fields."""
    return Profile.model_validate(smoke_plan().profile.model_dump(by_alias=True, exclude_unset=True) | fields)


def test_a_checkpoint_asks_for_something_within_the_ramp_budget() -> None:
    assert profile_with(abortCheckpoint={"atSeconds": 60, "fillFraction": 0.5}).abort_checkpoint is not None
    with pytest.raises(ValidationError, match="asks for nothing"):
        profile_with(abortCheckpoint={"atSeconds": 60})
    with pytest.raises(ValidationError, match="not within rampBudget 4m"):
        profile_with(abortCheckpoint={"atSeconds": 240, "fillFraction": 0.5})


class Sluggish(Prometheus):
    """A fleet of which half of the demand is there after any time, and whose cycles take a second."""

    def __init__(self) -> None:
        """No connection."""

    async def value(self, query: str, at: float | None = None) -> float | None:
        return 40.0 if "cr_active" in query else 1.0

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        return []


class ReadyClusters(KubeApi):
    def __init__(self) -> None:
        """No connection."""

    async def ready_pods(self, component: str) -> int:
        return 2


class Away(ReadyClusters):
    """An API that does not answer just now."""

    async def ready_pods(self, component: str) -> int:
        raise KubeApiUnreachable("the Kubernetes API does not answer: refused")


def test_an_api_that_does_not_answer_is_a_poll_that_is_not_steady(tmp_path: Path) -> None:
    events: list[Event] = []
    journal = RunJournal(tmp_path / "events.jsonl", events.append)
    plan = replace(smoke_plan(), ramp_budget_seconds=0.001)
    with pytest.raises(NotSteady, match="2 of 2 clusters are not Ready"):
        asyncio.run(Settle(plan, Away(), Sluggish(), journal).wait())
    journal.close()
    assert events[0].message == "the Kubernetes API does not answer: refused"


@pytest.mark.parametrize(
    ("checkpoint", "missed"),
    [
        ({"fillFraction": 0.75}, "50% of the demand is there, 75% were wanted"),
        ({"fillFraction": 0.5, "cycleP99Seconds": 0.5}, "the cycle p99 is 1 s, at most 0.5 s were wanted"),
    ],
)
def test_a_run_that_misses_its_checkpoint_is_given_up(
    checkpoint: dict[str, float], missed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaletest.run.steps.settle.POLL_SECONDS", 0.01)
    profile = profile_with(abortCheckpoint={"atSeconds": 0.001, **checkpoint})
    journal = RunJournal(tmp_path / "events.jsonl", lambda event: None)
    settle = Settle(replace(smoke_plan(), profile=profile), ReadyClusters(), Sluggish(), journal)
    with pytest.raises(NotSteady, match=f"checkpoint at .* was missed: {missed}") as raised:
        asyncio.run(settle.wait())
    journal.close()
    assert raised.value.hint == "look at the load-driver and the apiserver of the emptiest cluster"
