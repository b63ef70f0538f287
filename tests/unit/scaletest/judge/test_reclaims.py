"""Counting reclaims: from the first quiet moment on, resets included."""

from scaletest.judge.gates.windows import Stretch
from scaletest.judge.readings.reclaims import count_reclaims

QUIET = [(float(at), 7.0) for at in range(0, 121, 5)]


def test_nothing_reclaimed_is_zero() -> None:
    assert count_reclaims([QUIET], 30.0).value == 0


def test_reclaims_after_a_quiet_while_are_counted_and_those_before_are_not() -> None:
    busy = [(at, {True: at / 5, False: 6.0}[at <= 30] + (3 if at >= 100 else 0)) for at, _ in QUIET]
    reading = count_reclaims([busy], 30.0)
    assert (reading.value, reading.problem) == (3, "")


def test_two_shards_are_quiet_together_or_not_at_all() -> None:
    restless = [(at, at // 20) for at, _ in QUIET]
    reading = count_reclaims([QUIET, restless], 30.0)
    assert "never paused" in reading.problem
    assert reading.value == 6


def test_a_restarted_shard_counts_on_from_zero() -> None:
    restarted = [(at, 7.0 if at < 60 else 2.0) for at, _ in QUIET]
    assert count_reclaims([restarted], 30.0).value == 2


def test_no_series_is_no_value() -> None:
    assert count_reclaims([], 30.0).value is None


def test_counting_never_begins_before_its_time() -> None:
    early = [(at, 0.0 if at < 60 else 4.0) for at, _ in QUIET]
    assert count_reclaims([early], 95.0).value == 0


def test_a_soak_that_ends_before_the_count_begins_has_no_value() -> None:
    assert count_reclaims([QUIET], 121.0).value is None


def test_what_has_to_go_after_a_shed_is_left_out() -> None:
    shed = [(at, 0.0 if at < 60 else 4.0 if at < 110 else 5.0) for at, _ in QUIET]
    steady = [Stretch(0.0, 55.0), Stretch(105.0, 120.0)]
    assert count_reclaims([shed], 30.0, steady).value == 1
    assert count_reclaims([shed], 30.0).value == 5
