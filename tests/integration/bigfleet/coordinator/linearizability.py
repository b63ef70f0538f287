"""Judges a recorded history of one domain's owner: is there an order of its operations that explains every answer?

Each operation took effect at one moment between its call and its answer, or, if it has no clear answer, at any moment
after its call, or never. A write that is lost, done twice or done late leaves an answer that no order explains.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

UNCLEAR = "unclear"


@dataclass(frozen=True)
class Operation:
    """`answer` of a read is the owner it saw ("" for none); of a write "ok", "taken" or UNCLEAR."""

    kind: Literal["assign", "unassign", "read"]
    called: float
    answered: float
    answer: str
    shard: str = ""


def explained(history: list[Operation]) -> bool:
    """Whether some order of the operations, each within its time, gives every answer (Wing and Gong's search)."""
    operations = tuple(sorted(history, key=lambda one: one.called))
    ends = tuple(math.inf if one.answer == UNCLEAR else one.answered for one in operations)
    clear = frozenset(index for index, one in enumerate(operations) if one.answer != UNCLEAR)

    @cache
    def possible(done: frozenset[int], owner: str) -> bool:
        if clear <= done:
            return True
        left = [index for index in range(len(operations)) if index not in done]
        # Whatever goes next must have been called before the first of the rest was answered.
        first_answer = min(ends[index] for index in left)
        for index in left:
            if operations[index].called > first_answer:
                break
            for after in _outcomes(operations[index], owner):
                if possible(done | {index}, after):
                    return True
        return False

    return possible(frozenset(), "")


def _outcomes(operation: Operation, owner: str) -> list[str]:
    """The owner afterwards, for each way in which the answer fits; none if it does not fit."""
    if operation.kind == "read":
        return [owner] if operation.answer == owner else []
    if operation.kind == "unassign":
        return [""]
    free = owner in ("", operation.shard)
    if operation.answer == "ok":
        return [operation.shard] if free else []
    if operation.answer == "taken":
        return [] if free else [owner]
    return [operation.shard if free else owner]
