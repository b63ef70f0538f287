"""The test stand: a fleet comes to rest, each case disturbs it as it says, and it comes back."""

import pytest

from bigfleet.engine.decisions import ActionKind
from tests.bench.engine.cases import CASES
from tests.bench.engine.fleets import Shape, SyntheticFleet
from tests.bench.engine.stand import Stand

SMALL = Shape("small", clusters=3, machines=2_000, rows=60, plain_machines=60)


@pytest.fixture
def stand() -> Stand:
    stand = Stand(SyntheticFleet(SMALL))
    stand.load()
    stand.settle()
    return stand


def decided(stand: Stand, case: str, turn: int = 1) -> dict[ActionKind, int]:
    CASES[case](stand, turn)
    decisions, seconds, cpu_seconds = stand.cycle()
    assert seconds > 0 and cpu_seconds > 0
    kinds = [action.kind for action in decisions.actions]
    assert stand.act(decisions.actions) == len(kinds)
    return {kind: kinds.count(kind) for kind in ActionKind if kind in kinds}


def test_at_rest_nothing_is_decided_and_everything_asked_for_is_there(stand: Stand) -> None:
    assert len(stand.bound) > 3 * SMALL.plain_machines / 2
    assert decided(stand, "steady") == {}
    decisions, *_ = stand.cycle()
    assert all(view.satisfied for view in decisions.views)


def test_churn_replaces_what_failed(stand: Stand) -> None:
    bound = len(stand.bound)
    acquired = decided(stand, "2 % churn")
    # All but those of needs that hold more than they ask for, for the sake of their spread.
    assert acquired[ActionKind.BOOTSTRAP] >= 0.75 * round(0.02 * bound)


def test_a_burst_only_acquires(stand: Stand) -> None:
    assert decided(stand, "10 % burst").keys() <= {ActionKind.BOOTSTRAP, ActionKind.PROVISION}


def test_urgent_demand_preempts(stand: Stand) -> None:
    assert decided(stand, "preemption")[ActionKind.PREEMPT] > 0


def test_cold_takes_every_machine_anew(stand: Stand) -> None:
    bound = len(stand.bound)
    acquired = decided(stand, "cold")
    assert acquired[ActionKind.BOOTSTRAP] + acquired.get(ActionKind.PROVISION, 0) >= 0.9 * bound


@pytest.mark.parametrize("case", CASES)
def test_after_every_case_the_fleet_comes_back_to_rest_with_all_its_machines(stand: Stand, case: str) -> None:
    bound = len(stand.bound)
    decided(stand, case)
    stand.recover()
    assert decided(stand, "steady") == {}
    assert stand.machines == SMALL.machines
    assert len(stand.bound) == pytest.approx(bound, rel=0.1)


def test_the_stands_own_notes_can_be_put_aside(stand: Stand) -> None:
    bound = stand.bound
    with stand.notes_aside():
        assert stand.bound == []
    assert stand.bound == bound


def test_the_same_turn_is_the_same_disturbance() -> None:
    histories = []
    for _ in range(2):
        stand = Stand(SyntheticFleet(SMALL))
        stand.load()
        stand.settle()
        histories.append((decided(stand, "2 % churn", turn=3), stand.bound))
    assert histories[0] == histories[1]
