"""One exit code out of many failures, in the order of design.md §4; summary.json lists them all."""

from itertools import combinations

import pytest

from scaletest.judge.outcome import Outcome
from scaletest.judge.summary import RunFacts, summarise
from tests.unit.plans import smoke_plan

ORDER = [130, 8, 2, 4, 3, 6, 1, 5, 7]


def test_nothing_wrong_is_zero() -> None:
    assert Outcome().passed
    assert Outcome().exit_code == 0


@pytest.mark.parametrize(("first", "second"), list(combinations(ORDER, 2)))
def test_the_graver_code_wins_whatever_came_first(first: int, second: int) -> None:
    outcome = Outcome()
    outcome.add(second, "lesser")
    outcome.add(first, "graver")
    assert outcome.exit_code == first
    assert outcome.headline == "graver"


def test_the_summary_lists_every_failure_and_uses_the_runbooks_keys() -> None:
    outcome = Outcome()
    outcome.add(1, "shardShortfalls: 3 > 0")
    outcome.add(7, "left behind: a process")
    summary = summarise(RunFacts(smoke_plan(), "20261116-120000-smoke"), outcome)
    assert summary["exitCode"] == 1
    assert [failure["exitCode"] for failure in summary["failures"]] == [1, 7]
    assert summary["scale"]["kwokClusters"] == 2
    assert summary["scale"]["podsPerCluster"] == 40
    assert summary["scale"]["totalPods"] == 80
    assert summary["scale"]["machines"] == 20
    assert summary["passed"] is False
