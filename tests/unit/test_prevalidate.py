"""`make prevalidate`: one line for each check, a summary, and 1 at the end if any failed."""

from collections.abc import Iterator

import pytest

from tests.prevalidate import Check, hot_check, preflight, run

HELD = Check("one", True, "3 s")
BROKEN = Check("two", False, "it leaks")


def told(*checks: Check) -> tuple[int, list[str]]:
    said: list[str] = []
    code = run({"rung": lambda: iter(checks)}, said.append)
    return code, said


def test_every_check_has_a_line_and_the_summary_counts_them() -> None:
    code, said = told(HELD, HELD)
    assert code == 0
    assert [line.split() for line in said[:3]] == [["rung"], ["✓", "one", "3", "s"], ["✓", "one", "3", "s"]]
    assert said[3].startswith("PASS: 2 of 2 checks hold, 0 min ")


def test_one_failure_fails_all_and_is_repeated_at_the_end() -> None:
    code, said = told(HELD, BROKEN, HELD)
    assert code == 1
    assert said[4].startswith("FAIL: 2 of 3 checks hold")
    assert said[5] == "  ✗ two: it leaks"


def test_a_failure_does_not_keep_later_rungs_from_being_looked_at() -> None:
    looked: list[str] = []

    def later() -> Iterator[Check]:
        looked.append("later")
        yield HELD

    assert run({"one": lambda: iter([BROKEN]), "two": later}, lambda _: None) == 1
    assert looked == ["later"]


def test_every_shipped_profile_passes_preflight() -> None:
    checks = list(preflight())
    assert [check for check in checks if not check.passed] == []
    assert {"5m on example-fat-host", "smoke on embedded"} <= {check.name for check in checks}


@pytest.mark.parametrize(
    ("figure", "compared", "passed", "detail"),
    [
        ({"value": 1.5, "bar": 2, "met": True}, {"ratio": 1.1, "regressed": False}, True, "bar 2, 1.10 × its baseline"),
        ({"value": 3, "bar": 2, "met": False}, {"ratio": 1.0, "regressed": False}, True, "MISSES its bar of 2"),
        ({"value": 1, "bar": 2, "met": True}, {"ratio": 3.0, "regressed": True}, False, "3.00 × its baseline, a regr"),
        ({"value": 1}, None, True, "1 ms, no baseline"),
    ],
)
def test_only_a_regression_fails_a_hot_bench(
    figure: dict[str, object], compared: dict[str, object] | None, passed: bool, detail: str
) -> None:
    check = hot_check({"shape": "5k", "case": "steady", "ms": figure, "of_baseline": compared})
    assert check.name == "5k, steady"
    assert check.passed is passed
    assert detail in check.detail
