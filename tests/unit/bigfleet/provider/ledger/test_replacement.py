"""Which machine made good for which loss: oldest first, never one for two, and no loss that needed none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.provider.fake.ledger.replacement import COVERED_SECONDS, CREDIT_SECONDS, Replacement


def test_an_arrival_answers_the_oldest_loss() -> None:
    replacement = Replacement()
    replacement.lost(10)
    replacement.lost(12)
    assert replacement.arrived(15) == 5
    assert (replacement.unreplaced, replacement.oldest_seconds(20)) == (1, 8)
    assert replacement.arrived(22) == 10
    assert (replacement.unreplaced, replacement.oldest_seconds(30)) == (0, 0)


def test_a_machine_that_nobody_waited_for_stands_in_for_the_next_loss_at_once() -> None:
    replacement = Replacement()
    assert replacement.arrived(1) is None
    replacement.lost(2)
    assert replacement.unreplaced == 0
    replacement.lost(3)
    assert replacement.unreplaced == 1


def test_one_that_comes_although_none_was_needed_is_timed_and_is_one_too_many_again() -> None:
    replacement = Replacement()
    replacement.arrived(1)
    replacement.lost(2)
    assert replacement.arrived(6) == 4
    assert replacement.credits(6) == 1
    assert replacement.arrived(7) is None


def test_what_comes_long_after_a_loss_that_was_covered_has_come_for_something_else() -> None:
    replacement = Replacement()
    replacement.arrived(1)
    replacement.lost(2)
    assert replacement.arrived(2 + COVERED_SECONDS + 1) is None, "a burst, for example"
    assert replacement.credits(20) == 1


def test_what_came_with_the_fill_stands_in_for_nobody_in_the_soak() -> None:
    replacement = Replacement()
    replacement.arrived(1)
    replacement.begin()
    replacement.lost(2)
    assert replacement.unreplaced == 1


def test_a_machine_that_stayed_is_needed_and_stands_in_for_nobody() -> None:
    replacement = Replacement()
    replacement.arrived(0)
    replacement.lost(CREDIT_SECONDS + 1)
    assert replacement.unreplaced == 1


def test_a_drain_gives_the_spare_machine_back() -> None:
    replacement = Replacement()
    replacement.arrived(0)
    replacement.drained(1)
    replacement.lost(2)
    assert replacement.unreplaced == 1


def test_a_drain_while_losses_wait_shows_that_they_needed_nobody() -> None:
    replacement = Replacement()
    replacement.lost(0)
    replacement.lost(1)
    replacement.drained(2)
    assert (replacement.unreplaced, replacement.excused, replacement.oldest_seconds(9)) == (0, 2, 0)


Happening = tuple[str, float]
HAPPENINGS = st.lists(
    st.tuples(st.sampled_from(("lost", "arrived", "drained")), st.floats(0, 60, allow_nan=False)), max_size=60
)


@given(HAPPENINGS)
def test_every_loss_has_one_end_and_no_time_is_negative(happenings: list[Happening]) -> None:
    replacement, now = Replacement(), 0.0
    losses = made_good = covered = 0
    struck: list[float] = []
    for kind, pause in happenings:
        now += pause
        spare, waiting = replacement.credits(now), replacement.unreplaced
        assert not (spare and waiting)
        match kind:
            case "lost":
                losses += 1
                covered += spare > 0
                if not spare:
                    struck.append(now)
                replacement.lost(now)
            case "arrived":
                seconds = replacement.arrived(now)
                assert seconds is None or seconds >= 0
                if waiting:
                    made_good += 1
                    assert seconds == pytest.approx(now - struck.pop(0))
            case _:
                replacement.drained(now)
                if not spare:
                    struck.clear()
        assert replacement.unreplaced == len(struck)
        assert replacement.oldest_seconds(now) == pytest.approx(now - struck[0] if struck else 0.0)
        assert losses == made_good + covered + replacement.excused + replacement.unreplaced
