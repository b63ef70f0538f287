"""When a figure counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaletest.judge.gates.windows import SoakWindow, Stretch
from scaletest.judge.readings.recoveries import KEPT_SHARE, SPARE_MACHINES, SPARE_SHARE
from scaletest.model.plan import Move
from tests.unit.plans import shipped_plan, smoke_plan

UP, DOWN = Move(30, 30, True, 8, "up"), Move(60, 90, False, 8, "down")


def test_a_step_downwards_has_a_window_of_its_own() -> None:
    soak = SoakWindow(1000, 1180, (UP, DOWN))
    assert soak.stretches("soak") == [Stretch(1000, 1180)]
    assert soak.stretches("steady") == [Stretch(1000, 1060), Stretch(1150, 1180)]
    assert soak.stretches("until the shed") == [Stretch(1000, 1060)]
    assert soak.of(UP) == Stretch(1030, 1060)


_MOVES = st.lists(
    st.builds(Move, st.floats(0, 500), st.floats(1, 200), st.booleans(), st.just(8), st.just("move")), max_size=4
)


@given(st.floats(10, 600), _MOVES)
def test_what_counts_lies_in_the_soak_and_never_in_a_shed(seconds: float, moves: list[Move]) -> None:
    soak = SoakWindow(1000.0, 1000.0 + seconds, tuple(moves))
    for kind in ("soak", "steady", "until the shed"):
        found = soak.stretches(kind)
        assert found
        assert all(soak.start <= one.start <= one.end <= soak.end for one in found)
    sheds = [move for move in moves if not move.up]
    steady = soak.stretches("steady")
    if steady != [Stretch(soak.start, soak.end)]:
        for one in steady:
            middle = (one.start + one.end) / 2 - soak.start
            assert not any(shed.at_seconds < middle < shed.ends_seconds for shed in sheds)


def test_a_soak_that_is_too_short_for_its_windows_leaves_the_burst_out() -> None:
    whole, minute = smoke_plan(160), smoke_plan(60)
    assert [(move.up, move.machines) for move in whole.moves] == [(True, 20), (False, 20)]
    assert minute.moves == ()
    assert [str(move) for move in minute.moves_left_out] == [
        "the burst of api after 15 s",
        "the end of the burst of api after 70 s",
    ]
    assert len(whole.load_profile.bursts) == 1
    assert minute.load_profile.bursts == (), "what is not judged does not happen"


@pytest.mark.parametrize("name", ["smoke", "dev-50"])
def test_what_moves_is_more_than_what_may_stay(name: str) -> None:
    plan = shipped_plan(name)
    spare = max(SPARE_MACHINES, SPARE_SHARE * plan.demand.total_machines)
    assert plan.moves and all(move.machines * KEPT_SHARE > spare for move in plan.moves), "the bar can be missed"


def test_only_what_the_profile_says_nothing_about_shortens_the_window() -> None:
    assert smoke_plan(1500).window_seconds == 1500
    assert shipped_plan("oscillation-5k", "example-fat-host").window_seconds == 300
