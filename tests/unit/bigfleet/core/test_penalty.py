"""Penalty buckets and effective cost (docs/reference/engine.md#penalty-buckets)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core import penalty


@pytest.mark.parametrize(
    ("dollars", "bucket"),
    [
        (-1, penalty.ZERO),
        (0, penalty.ZERO),
        (0.01, penalty.HALF_DOLLAR),
        (0.5, penalty.HALF_DOLLAR),
        (0.51, 3),
        (1, 3),
        (1.01, 4),
        (2, 4),
        (8192, 16),
        (8_388_608, 26),
        (8_388_608.01, penalty.PINNED),
        (math.inf, penalty.PINNED),
    ],
)
def test_dollars_round_up_to_a_bucket(dollars: float, bucket: int) -> None:
    assert penalty.bucket_of(dollars) == bucket


def test_an_absent_penalty_is_worth_nothing_yet_is_not_the_bucket_of_zero() -> None:
    assert penalty.upper_bound(penalty.UNSPECIFIED) == penalty.upper_bound(penalty.ZERO) == 0
    assert penalty.bucket_of(0) != penalty.UNSPECIFIED


@given(st.floats(0, 1e9))
def test_a_bucket_is_worth_at_least_what_fell_into_it(dollars: float) -> None:
    assert penalty.upper_bound(penalty.bucket_of(dollars)) >= dollars


@pytest.mark.parametrize("bucket", [b for b in penalty.ALL_BUCKETS if b != penalty.UNSPECIFIED])
def test_a_buckets_worth_falls_back_into_it(bucket: int) -> None:
    assert penalty.bucket_of(penalty.upper_bound(bucket)) == bucket


def test_labels_are_dollars() -> None:
    labels = [penalty.label(bucket) for bucket in penalty.ALL_BUCKETS]
    assert labels[:5] == ["unspecified", "0", "0.5", "1", "2"]
    assert labels[-2:] == ["8388608", "pinned"]
    assert len(set(labels)) == 28


def test_effective_cost_adds_what_interruptions_are_expected_to_cost() -> None:
    assert penalty.effective_cost(1.0, 0.05, 100) == 6.0
    assert penalty.effective_cost(1.0, 0.05, -100) == 1.0
    assert penalty.effective_cost(1.0, 0.05, math.inf) == math.inf


def test_a_machine_that_is_never_interrupted_costs_its_price_even_to_pinned_work() -> None:
    # spec trap: probability 0 × PINNED is NaN in IEEE arithmetic, and NaN sorts anywhere.
    assert penalty.effective_cost(1.5, 0.0, math.inf) == 1.5
    assert penalty.effective_cost(1.5, 0.0, penalty.upper_bound(penalty.PINNED)) == 1.5


@given(st.floats(0, 1000), st.floats(0, 1), st.sampled_from(penalty.ALL_BUCKETS))
def test_an_effective_cost_can_always_be_compared(price: float, probability: float, bucket: int) -> None:
    cost = penalty.effective_cost(price, probability, penalty.upper_bound(bucket))
    assert cost >= price
