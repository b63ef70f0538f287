"""The judge of recorded histories sees lost, doubled and late writes, and nothing where there is nothing."""

import pytest

from tests.integration.bigfleet.coordinator.linearizability import UNCLEAR, Operation, explained


def assign(called: float, answered: float, answer: str = "ok", shard: str = "a") -> Operation:
    return Operation("assign", called, answered, answer, shard)


def unassign(called: float, answered: float, answer: str = "ok") -> Operation:
    return Operation("unassign", called, answered, answer)


def read(at: float, saw: str) -> Operation:
    return Operation("read", at, at + 0.5, saw)


@pytest.mark.parametrize(
    "history",
    [
        [assign(0, 1), read(2, "a"), unassign(3, 4), read(5, "")],
        [assign(0, 1), assign(2, 3, "taken", "b"), read(4, "a")],
        [assign(0, 3), assign(1, 2, "taken", "b")],
        [assign(0, 1, UNCLEAR), read(2, "a")],
        [assign(0, 1, UNCLEAR), read(2, ""), read(3, "a")],
        [assign(0, 1, UNCLEAR), read(2, ""), read(3, "")],
        [assign(0, 1), unassign(2, 3, UNCLEAR), assign(4, 5, "ok", "b"), read(6, "b")],
    ],
)
def test_what_can_be_explained_is(history: list[Operation]) -> None:
    assert explained(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([assign(0, 1), read(2, "")], id="a lost write"),
        pytest.param([assign(0, 1), unassign(2, 3), read(4, ""), read(5, "a")], id="a write done again later"),
        pytest.param([assign(0, 1, UNCLEAR), read(2, "a"), unassign(3, 4), read(5, "a")], id="an unclear one doubled"),
        pytest.param([assign(0, 1), assign(2, 3, "ok", "b")], id="two owners"),
        pytest.param([assign(2, 3), read(0, "a")], id="seen before it was asked for"),
        pytest.param([assign(0, 1, "taken", "b"), read(2, "")], id="refused for no reason"),
    ],
)
def test_what_cannot_be_explained_is_not(history: list[Operation]) -> None:
    assert not explained(history)
