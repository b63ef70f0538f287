"""What must go on is judged by its longest gap."""

from scaletest.judge.gates.windows import Stretch
from scaletest.judge.readings.gaps import gap_of, worst_gap

SOAK = Stretch(0.0, 100.0)
GOING_ON = [(float(at), float(at // 10)) for at in range(0, 101, 5)]


def test_a_counter_that_goes_on_has_short_gaps() -> None:
    since, until = gap_of([GOING_ON], SOAK)
    assert until - since == 10


def test_one_that_hangs_has_a_gap_to_the_end_of_the_window() -> None:
    hung = [(at, min(value, 4.0)) for at, value in GOING_ON]
    assert gap_of([hung], SOAK) == (40.0, 100.0)


def test_one_that_begins_late_has_a_gap_from_the_start() -> None:
    late = [(at, max(0.0, value - 6.0)) for at, value in GOING_ON]
    assert gap_of([late], SOAK) == (0.0, 70.0)


def test_a_member_that_was_never_seen_was_away_all_the_time() -> None:
    reading = worst_gap({"kwok-cluster-0": [GOING_ON]}, ["kwok-cluster-0", "kwok-cluster-1"], SOAK)
    assert reading.value == 100
    assert reading.detail.startswith("kwok-cluster-1, from 0 s to 100 s")
    assert reading.at == (0.0, 100.0)


def test_a_restarted_process_goes_on_in_another_series() -> None:
    first = [(at, value) for at, value in GOING_ON if at <= 50]
    second = [(at, value - 5) for at, value in GOING_ON if at > 50]
    since, until = gap_of([first, second], SOAK)
    assert until - since <= 15


def test_nobody_to_look_for_is_no_value() -> None:
    assert worst_gap({}, [], SOAK).value is None
