"""How soon a step is covered, and how soon its excess is given back."""

from scaletest.judge.gates.windows import Stretch
from scaletest.judge.readings.recoveries import covered_after, returned_after

WINDOW = Stretch(100.0, 190.0)


def test_a_step_is_covered_when_no_cluster_lacks_capacity_any_more() -> None:
    reading = covered_after([(100.0, 0.0), (105.0, 4.0), (110.0, 9.0), (115.0, 0.0)], WINDOW)
    assert reading.value == 9
    assert covered_after([], WINDOW).value is None


def test_excess_is_given_back_when_no_more_are_held_than_before() -> None:
    before = [(at, 100.0) for at in (70.0, 80.0)]
    after = [(100.0, 120.0), (130.0, 119.0), (160.0, 111.0), (165.0, 110.0), (190.0, 104.0)]
    assert returned_after(before, after, WINDOW).value == 60, "half of it may stay"


def test_excess_that_is_still_there_fails_whatever_the_bar() -> None:
    reading = returned_after([(80.0, 100.0)], [(100.0, 120.0), (190.0, 118.0)], WINDOW)
    assert reading.problem == "118 machines are still held at its end, 100 were before"
    assert reading.value == 91


def test_without_a_figure_there_is_no_value() -> None:
    assert returned_after([], [(100.0, 1.0)], WINDOW).value is None
    assert returned_after([(80.0, 1.0)], [], WINDOW).value is None
