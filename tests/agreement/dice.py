"""Choices read from bytes: hypothesis draws and shrinks the bytes, and the same bytes always mean the same."""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Dice:
    """Each choice takes one byte; zero is the first, plainest choice, and so is everything past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def below(self, limit: int) -> int:
        byte = self._data[self._next] if self._next < len(self._data) else 0
        self._next += 1
        return byte % limit

    def of(self, choices: Sequence[_T]) -> _T:
        return choices[self.below(len(choices))]

    def one_in(self, times: int) -> bool:
        """False for a zero byte."""
        return self.below(times) == times - 1
