"""One exit code out of many failures, in the order of ADR-19; summary.json lists them all."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaletest.exit_codes import ExitCode
from scaletest.judge.facts import RunFacts, summarise
from scaletest.judge.outcome import RunOutcome
from tests.unit.plans import smoke_plan

ORDER = [ExitCode(code) for code in (130, 8, 2, 4, 3, 6, 1, 5, 7)]


def test_nothing_wrong_is_zero() -> None:
    assert RunOutcome().passed
    assert RunOutcome().exit_code == 0


@pytest.mark.parametrize(("first", "second"), list(combinations(ORDER, 2)))
def test_the_graver_code_wins_whatever_came_first(first: ExitCode, second: ExitCode) -> None:
    outcome = RunOutcome()
    outcome.add(second, "lesser")
    outcome.add(first, "graver")
    assert outcome.exit_code == first
    assert outcome.headline == "graver"


@given(st.lists(st.tuples(st.sampled_from(ORDER), st.booleans()), max_size=8))
def test_a_failure_that_no_strain_can_cause_comes_before_void(found: list[tuple[ExitCode, bool]]) -> None:
    outcome = RunOutcome()
    ranks = []
    for number, (code, certain) in enumerate(found):
        outcome.add(code, f"{number}", certain=certain and code == 1)
        # 130, 8, 2, 4, 3, 1 by a gate that strain cannot cause, 6, 1, 5, 7, 0.
        ranks.append(ORDER.index(ExitCode.VOID) - 0.5 if certain and code == 1 else ORDER.index(code))
    first = min(ranks, default=None)
    expected = 0 if first is None else 1 if first == ORDER.index(ExitCode.VOID) - 0.5 else ORDER[int(first)]
    assert outcome.exit_code == expected


def test_a_certain_failure_on_a_void_run_is_its_headline() -> None:
    outcome = RunOutcome()
    outcome.add(ExitCode.VOID, "the load did not come")
    outcome.add(ExitCode.GATE_FAILED, "configure p99 is too long")
    outcome.add(ExitCode.GATE_FAILED, "two owners", certain=True)
    assert (outcome.exit_code, outcome.verdict, outcome.headline) == (1, "failed", "two owners")


def test_the_summary_lists_every_failure_and_uses_the_runbooks_keys() -> None:
    outcome = RunOutcome()
    outcome.add(ExitCode.GATE_FAILED, "shardShortfalls: 3 > 0")
    outcome.add(ExitCode.LEFTOVERS, "left behind: a process")
    summary: dict[str, Any] = summarise(RunFacts(smoke_plan(), "20261116-120000-smoke"), outcome).document()
    assert summary["exitCode"] == 1
    assert [failure["exitCode"] for failure in summary["failures"]] == [1, 7]
    assert summary["scale"]["kwokClusters"] == 2
    assert summary["scale"]["podsPerCluster"] == 40
    assert summary["scale"]["totalPods"] == 80
    assert summary["scale"]["machines"] == 20
    assert summary["passed"] is False
