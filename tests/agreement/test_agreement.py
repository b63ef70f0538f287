"""The engine and the oracle agree on every action, claim, shortfall, view, reason and hint, in every cycle.

    BIGFLEET_LONG=1 pytest tests/agreement      twenty times as many, and other ones each day

A disagreement is made small, tells what happened, and ends with a line that repeats it.
"""

import datetime
import os

import pytest
from hypothesis import HealthCheck, given, settings

from tests.agreement.histories import History, histories, minimised, random_history
from tests.agreement.world import Disagreement

LONG = bool(os.environ.get("BIGFLEET_LONG"))
TIMES = 20 if LONG else 1
SEED = f"{datetime.date.today()}" if LONG else "fixed"
BLOCKS = 10
FLEETS_PER_BLOCK, HISTORIES_PER_BLOCK = 250 * TIMES, 50 * TIMES
odd = settings(
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


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


@pytest.mark.parametrize("block", range(BLOCKS))
def test_engine_and_oracle_agree_on_a_fleet_they_see_for_the_first_time(block: int) -> None:
    for number in range(FLEETS_PER_BLOCK):
        agree(random_history(f"{SEED} fleet {block} {number}", most_events=0))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_engine_and_oracle_agree_in_every_cycle_of_a_history(block: int) -> None:
    for number in range(HISTORIES_PER_BLOCK):
        agree(random_history(f"{SEED} history {block} {number}", most_events=20))


@settings(odd, max_examples=500 * TIMES)
@given(histories(most_events=6))
def test_engine_and_oracle_agree_on_odd_histories(history: History) -> None:
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
