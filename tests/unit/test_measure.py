"""Counting over a window: raw samples, resets included, nothing extrapolated."""

from hypothesis import given
from hypothesis import strategies as st

from scaletest.run.prometheus import _grown


def test_growth_is_last_minus_first() -> None:
    assert _grown([3, 3, 5, 9]) == 6


def test_a_restarted_counter_counts_from_zero() -> None:
    assert _grown([29, 35, 2, 10]) == 6 + 10


def test_one_sample_or_none_is_no_growth() -> None:
    assert _grown([7]) == _grown([]) == 0


@given(st.lists(st.integers(0, 1000), max_size=30))
def test_growth_is_never_negative(values: list[int]) -> None:
    assert _grown(values) >= 0
