"""The lowest and highest value of a figure in the recent past."""

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.process.watermarks import Watermarks


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_dip_between_two_scrapes_is_remembered_for_the_window() -> None:
    clock = Clock()
    marks = Watermarks(80, window_seconds=10, clock=clock)
    clock.now = 1.0
    marks.set(78)
    clock.now = 1.3
    marks.set(80)
    clock.now = 6.0
    assert (marks.lowest, marks.highest) == (78, 80)
    clock.now = 11.5
    assert (marks.lowest, marks.highest) == (80, 80)


_STEPS = st.lists(st.tuples(st.floats(0, 5), st.integers(-5, 5)), max_size=40)


@given(_STEPS)
def test_it_agrees_with_a_list_of_all_that_ever_was(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    marks = Watermarks(0, window_seconds=7, clock=clock)
    # (value, since, until)
    history: list[tuple[float, float]] = []
    value = 0.0
    for pause, change in steps:
        clock.now += pause
        if change:
            history.append((clock.now, value))
            value += change
            marks.set(value)
        held = [value, *(was for until, was in history if until >= clock.now - 7)]
        assert (marks.lowest, marks.highest) == (min(held), max(held))
