"""Sequences whose elements are made when they are first read."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

Element = TypeVar("Element", covariant=True)


class Lazy(Sequence[Element], Generic[Element]):
    """A sequence of known length; `make` builds all elements, once, at the first look."""

    def __init__(self, length: int | None, make: Callable[[], list[Element]]) -> None:
        self._length = length
        self._make: Callable[[], list[Element]] | None = make
        self._made: list[Element] = []

    def _elements(self) -> list[Element]:
        if self._make is not None:
            self._made = self._make()
            self._make = None
        return self._made

    def __len__(self) -> int:
        return len(self._elements()) if self._length is None else self._length

    def __iter__(self) -> Iterator[Element]:
        return iter(self._elements())

    @overload
    def __getitem__(self, index: int) -> Element: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Element]: ...
    def __getitem__(self, index: int | slice) -> Element | Sequence[Element]:
        return self._elements()[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == yours for mine, yours in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self._elements()))

    def __repr__(self) -> str:
        return repr(tuple(self._elements()))
