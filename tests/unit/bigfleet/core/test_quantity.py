"""Kubernetes quantities become exact milli-units."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.quantity import QuantityError, format_milli, parse_milli

LARGEST = (2**63 - 1) * 1000


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("0", 0),
        ("4", 4000),
        ("+4", 4000),
        ("-4", -4000),
        ("500m", 500),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("1Ki", 1024 * 1000),
        ("1Gi", 1024**3 * 1000),
        ("1.5Gi", 1536 * 1024**2 * 1000),
        ("1k", 10**6),
        ("1M", 10**9),
        ("2e3", 2_000_000),
        ("2E3", 2_000_000),
        ("2E", 2 * 10**21),
        ("1Ei", 1024**6 * 1000),
        ("2e-3", 2),
    ],
)
def test_the_grammar_of_kubernetes_is_read(text: str, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize(("text", "milli"), [("0.1m", 1), ("100n", 1), ("1u", 1), ("1.0001", 1001), ("-0.1m", -1)])
def test_what_is_finer_than_a_milli_unit_rounds_away_from_zero(text: str, milli: int) -> None:
    assert parse_milli(text) == milli


@pytest.mark.parametrize(
    "text", ["", " ", "1 ", " 1", "1\n", "m", "Gi", "1e", "--1", "1KiB", "1K", "1ki", "NaN", "inf", "1_0", "٣", "0x1"]
)
def test_other_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_milli(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "1e30", "1e999999999", "1e" + "9" * 18, "9" * 300])
def test_more_than_kubernetes_can_hold_is_capped_without_building_a_giant_number(text: str) -> None:
    assert parse_milli(text) == LARGEST
    assert parse_milli("-" + text) == -LARGEST


@pytest.mark.parametrize("text", ["1e-999999999", "0." + "0" * 300 + "1"])
def test_next_to_nothing_still_counts_as_one_milli_unit(text: str) -> None:
    assert parse_milli(text) == 1


@given(st.integers(-LARGEST, LARGEST))
def test_formatting_and_parsing_are_inverse(milli: int) -> None:
    assert parse_milli(format_milli(milli)) == milli


@given(st.integers(0, 10**12), st.integers(0, 6), st.sampled_from(["", "Ki", "Mi", "Gi", "m", "k", "M"]))
def test_parsing_agrees_with_exact_arithmetic(number: int, decimals: int, suffix: str) -> None:
    factors = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1000, "M": 10**6}
    factor = Fraction(1, 1000) if suffix == "m" else Fraction(factors[suffix])
    exact = Fraction(number, 10**decimals) * factor * 1000
    text = f"{number // 10**decimals}.{number % 10**decimals:0{decimals}d}" if decimals else str(number)
    assert parse_milli(text + suffix) == min(LARGEST, math.ceil(exact))


def test_whole_units_are_written_without_a_suffix() -> None:
    assert [format_milli(milli) for milli in (0, 1, 1500, 2000, -500)] == ["0", "1m", "1500m", "2", "-500m"]
