"""`make prevalidate`: one line for each check, a summary, and 1 at the end if any failed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.prevalidate import Check, checks_of, hot_check, preflight, run, scenario_check

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
        ({"value": 1}, None, False, "1 ms, it has no baseline"),
    ],
)
def test_a_regression_fails_a_hot_bench_and_so_does_nothing_to_compare_it_with(
    figure: dict[str, object], compared: dict[str, object] | None, passed: bool, detail: str
) -> None:
    check = hot_check(json.dumps({"shape": "5k", "case": "steady", "ms": figure, "of_baseline": compared}))
    assert check.name == "5k, steady"
    assert check.passed is passed
    assert detail in check.detail


@pytest.fixture
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Check]]:
    """What is made of a command with this source."""

    def look(source: str) -> list[Check]:
        (tmp_path / "scripted_rung.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return list(checks_of(scenario_check, "scripted_rung"))

    return look


def test_a_command_that_says_which_line_fails_has_said_it_all(looked: Callable[[str], list[Check]]) -> None:
    checks = looked("print('PASS  one'); print('FAIL  two  it leaks'); raise SystemExit(1)")
    assert [(check.passed, check.detail) for check in checks] == [(True, ""), (False, "it leaks")]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ValueError('a rung broke')", "ended with 1 after 0 lines, 0 of them failures: ValueError: a"),
        ("print('PASS  one'); raise ValueError('broke')", "ended with 1 after 1 lines, 0 of them failures: ValueError"),
        ("print('PASS  one'); raise SystemExit(1)", "ended with 1 after 1 lines, 0 of them failures: it said nothing"),
        ("print('FAIL  one'); raise SystemExit(3)", "ended with 3 after 1 lines, 1 of them failures"),
        ("pass", "ended with 0 after 0 lines"),
    ],
)
def test_a_command_that_breaks_down_or_looks_at_nothing_fails(
    source: str, told: str, looked: Callable[[str], list[Check]]
) -> None:
    last = looked(source)[-1]
    assert not last.passed
    assert told in last.detail


def test_what_a_broken_command_said_is_shown_once_and_its_last_line_again_at_the_end(
    looked: Callable[[str], list[Check]],
) -> None:
    code, said = told(*looked("raise ValueError('a rung broke')"))
    assert code == 1
    assert "Traceback (most recent call last)" in said[1]
    assert "Traceback" not in said[-1]
    assert said[-1].endswith("ValueError: a rung broke")
