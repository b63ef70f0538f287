"""The engine and the oracle agree on every action, claim, shortfall, view, reason and hint, in every cycle.

A disagreement is made small, tells what happened, and ends with a line that repeats it.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings

from tests.agreement.blocks import LONG_TIMES, Block, every_block
from tests.agreement.histories import History, histories, minimised, random_history
from tests.agreement.world import Disagreement

FLEETS_PER_BLOCK, HISTORIES_PER_BLOCK, ODD_ONES = 250, 50, 500
odd = settings(database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def agree(history: History) -> None:
    """Play; a failure is told again with the smallest history that fails."""
    if _fails(history):
        minimised(history, _fails).play()


def _fails(history: History) -> bool:
    """An engine that breaks disagrees too."""
    try:
        history.play()
    except Exception:
        return True
    return False


@every_block
def test_engine_and_oracle_agree_on_a_fleet_they_see_for_the_first_time(block: Block) -> None:
    for seed in block.seeds("fleet", FLEETS_PER_BLOCK):
        agree(random_history(seed, most_events=0))


@every_block
def test_engine_and_oracle_agree_in_every_cycle_of_a_history(block: Block) -> None:
    for seed in block.seeds("history", HISTORIES_PER_BLOCK):
        agree(random_history(seed, most_events=20))


@settings(odd, derandomize=True, max_examples=ODD_ONES)
@given(histories(most_events=6))
def test_engine_and_oracle_agree_on_odd_histories(history: History) -> None:
    history.play()


@pytest.mark.long
@settings(odd, max_examples=ODD_ONES * LONG_TIMES)
@given(histories(most_events=6))
def test_engine_and_oracle_agree_on_many_odd_histories(history: History) -> None:
    history.play()


@pytest.mark.skipif("BIGFLEET_HISTORY" not in os.environ, reason="repeats the history of BIGFLEET_HISTORY")
def test_the_given_history_again() -> None:
    History.from_text(os.environ["BIGFLEET_HISTORY"]).play()


def test_a_history_is_the_same_when_read_from_its_text() -> None:
    history = random_history("text", most_events=5)
    again = History.from_text(history.text)
    assert again.text == history.text
    assert again.play().journal == history.play().journal


def test_a_disagreement_is_made_small_and_told() -> None:
    def has_many_machines(history: History) -> bool:
        return len(history.machines) >= 3

    small = minimised(random_history("small 1", most_events=5), has_many_machines)
    assert small.text.count(",") == 2
    assert not small.events
    assert not small.needs
    world, _ = small.begin()
    world.machines.popitem()
    with pytest.raises(Disagreement, match=r"fleet\.get"):
        world.step()
