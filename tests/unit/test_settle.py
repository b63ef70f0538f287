"""Steady state as ADR-0045 defines it: strict, consecutive, and with a sentence when it is not reached."""

from dataclasses import replace

from scaletest.run.settle import PLATEAU_POLLS, QUIET_POLLS, Poll, Steadiness

GOOD = Poll(clusters_ready=2, active=80, demand=6, shortfalls=0, acquisitions=29, reclaims=0, waiting=0, bound=80)


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
    assert "oscillation" in after(GOOD).why_not()
    assert "no shortfalls series" in after(replace(GOOD, shortfalls=None)).why_not()
