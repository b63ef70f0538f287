"""Objects by key, and by what indexes make of them."""

from collections.abc import Callable, Iterator, KeysView, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
# The group that an object belongs to, None for none.
Index = Callable[[T], str | None]


class Store(Generic[T]):
    """Keeps its indexes while objects come and go, so that no question has to walk through all of them."""

    def __init__(self, indexes: Mapping[str, Index[T]]) -> None:
        self._items: dict[str, T] = {}
        self._indexes = dict(indexes)
        # Index → group → key → object.
        self._groups: dict[str, dict[str, dict[str, T]]] = {name: {} for name in self._indexes}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def keys(self) -> KeysView[str]:
        return self._items.keys()

    def get(self, key: str) -> T | None:
        return self._items.get(key)

    def by(self, index: str, group: str) -> list[T]:
        """The objects of one group."""
        return list(self._groups[index].get(group, {}).values())

    def put(self, key: str, item: T) -> T | None:
        """Add or replace; returns what was there."""
        old = self._items.get(key)
        for name, index in self._indexes.items():
            group = index(item)
            if old is not None and (before := index(old)) != group:
                self._leave(name, before, key)
            if group is not None:
                self._groups[name].setdefault(group, {})[key] = item
        self._items[key] = item
        return old

    def pop(self, key: str) -> T | None:
        """Remove; returns what was there."""
        old = self._items.pop(key, None)
        if old is not None:
            for name, index in self._indexes.items():
                self._leave(name, index(old), key)
        return old

    def _leave(self, name: str, group: str | None, key: str) -> None:
        if group is None:
            return
        groups = self._groups[name]
        del groups[group][key]
        if not groups[group]:
            del groups[group]
