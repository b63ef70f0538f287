"""The locked formulas of preemption (docs/reference/engine.md#victims)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core import penalty
from bigfleet.core.machines import Assignment, Machine, MachineState
from bigfleet.core.victims import drain_grace_seconds, priority_gap, victim_score
from tests.oracle import phase2 as oracle

priorities = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("gap", "seconds"),
    [
        (900_001, 10),
        (900_000, 30),
        (500_001, 30),
        (500_000, 120),
        (100_001, 120),
        (100_000, 600),
        (1, 600),
        (0, 600),
    ],
)
def test_grace_by_gap(gap: int, seconds: int) -> None:
    assert drain_grace_seconds(gap) == oracle.drain_grace_seconds(gap) == seconds


def test_the_score_of_a_victim() -> None:
    assert victim_score(1000, 400, 2, 4) == pytest.approx(600 + 0.1 / 30 + 0.05 + 0.025)
    assert victim_score(1000, 1000, 0, 0) == pytest.approx(0.1 / 30 + 10 + 10)
    assert victim_score(1000, 2000, math.inf, math.inf) == pytest.approx(0.1 / 30)


@given(priorities, priorities, st.sampled_from(penalty.ALL_BUCKETS), st.sampled_from(penalty.ALL_BUCKETS))
def test_a_score_can_always_be_compared_and_is_the_oracles(
    preemptor: int, assigned: int, interruption: int, reclamation: int
) -> None:
    dollars = penalty.upper_bound(interruption), penalty.upper_bound(reclamation)
    victim = Machine("v", MachineState.CONFIGURED, assignment=Assignment(assigned, *dollars))
    score = victim_score(preemptor, assigned, *dollars)
    assert math.isfinite(score)
    assert score == oracle.victim_score(preemptor, victim)


def test_there_is_no_gap_to_the_better() -> None:
    assert priority_gap(1, 5) == 0
    assert priority_gap(5, -5) == 10
