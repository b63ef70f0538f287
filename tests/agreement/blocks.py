"""How much is tried: a little always, the same each time; in long mode twenty times as much, other each day.

SCALETEST_LONG=1 pytest -m long tests/agreement
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

LONG_TIMES = 20
_BLOCKS = 10


@dataclass(frozen=True)
class Block:
    """A part of what is tried, with histories of its own."""

    number: int
    long: bool

    def seeds(self, kind: str, usual: int) -> Iterator[str]:
        """The seeds of its histories of a kind; `usual` is how many there are when nobody asks for long."""
        seed = f"{datetime.date.today()}" if self.long else "fixed"
        for number in range(usual * LONG_TIMES if self.long else usual):
            yield f"{seed} {kind} {self.number} {number}"


every_block = pytest.mark.parametrize(
    "block",
    [
        *(pytest.param(Block(number, long=False), id=f"{number}") for number in range(_BLOCKS)),
        *(
            pytest.param(Block(number, long=True), id=f"long-{number}", marks=pytest.mark.long)
            for number in range(_BLOCKS)
        ),
    ],
)
