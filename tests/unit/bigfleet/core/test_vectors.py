"""Vectors: absent dimensions are zero, subtraction stops at zero (docs/reference/engine.md#vectors)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.quantity import QuantityError
from bigfleet.core.vectors import (
    add,
    covers,
    format_vector,
    is_zero,
    largest,
    parse_vector,
    positive,
    scaled,
    subtract,
)

vectors = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 10**15))


def test_quantities_become_a_vector_and_back() -> None:
    assert parse_vector({"cpu": "500m", "memory": "1Ki"}) == {"cpu": 500, "memory": 1_024_000}
    assert format_vector({"cpu": 500, "memory": 1_024_000}) == {"cpu": "500m", "memory": "1024"}


def test_one_bad_quantity_refuses_the_vector() -> None:
    with pytest.raises(QuantityError, match="lots"):
        parse_vector({"cpu": "1", "memory": "lots"})


def test_covers_looks_only_at_what_is_asked_for() -> None:
    assert covers({"cpu": 4, "memory": 1}, {"cpu": 4})
    assert not covers({"cpu": 3, "memory": 9}, {"cpu": 4})
    assert not covers({"memory": 9}, {"cpu": 1})
    assert covers({}, {"cpu": 0})
    assert covers({}, {})


def test_zero_is_the_lack_of_a_positive_dimension() -> None:
    assert is_zero({})
    assert is_zero({"cpu": 0, "memory": -1})
    assert not is_zero({"cpu": 0, "memory": 1})


def test_positive_drops_what_asks_for_nothing() -> None:
    assert positive({"cpu": 0, "memory": 2, "pods": -1}) == {"memory": 2}


@given(vectors, vectors)
def test_a_sum_covers_its_parts(left: dict[str, int], right: dict[str, int]) -> None:
    assert covers(add(left, right), left)
    assert covers(add(left, right), right)
    assert add(left, right) == add(right, left)


@given(vectors, vectors)
def test_subtraction_never_goes_below_zero_and_leaves_nothing_when_covered(
    left: dict[str, int], right: dict[str, int]
) -> None:
    rest = subtract(left, right)
    assert all(milli >= 0 for milli in rest.values())
    assert is_zero(rest) == covers(right, left)
    assert covers(add(rest, right), left)


@given(vectors, vectors)
def test_the_largest_of_two_is_the_smallest_that_covers_both(left: dict[str, int], right: dict[str, int]) -> None:
    most = largest(left, right)
    assert covers(most, left)
    assert covers(most, right)
    assert all(milli in (left.get(name, 0), right.get(name, 0)) for name, milli in most.items())


@given(vectors, st.integers(1, 50))
def test_scaling_is_repeated_addition(vector: dict[str, int], factor: int) -> None:
    total: dict[str, int] = {}
    for _ in range(factor):
        total = add(total, vector)
    assert scaled(vector, factor) == total
