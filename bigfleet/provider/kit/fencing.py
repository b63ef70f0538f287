"""Fencing: a shard's older self must not move a machine that its newer self has touched.

See docs/reference/wire.md#fencing.
"""

from collections.abc import Container, Iterator

from bigfleet.provider.kit.entries import Mark
from bigfleet.provider.kit.errors import Fenced
from bigfleet.provider.kit.store import RecordStore
from bigfleet.rpc.fencing import UNFENCED, FencingToken

# Marks for machine ids that the provider does not know: kept, but no more than this many.
_MOST_STRANGERS = 10_000


class Fences:
    """The newest (epoch, sequence) seen per shard and machine."""

    def __init__(self, store: RecordStore, known: Container[str] = ()) -> None:
        self._store = store
        self._known = known
        self._marks: dict[tuple[str, str], tuple[int, int]] = {}
        self._strangers: dict[tuple[str, str], tuple[int, int]] = {}

    def admit(self, token: FencingToken, machine_id: str) -> None:
        """Take note of a token that is strictly newer than the last; raise Fenced for any other.

        The empty token bypasses fencing. The mark advances even if the call fails later on.
        """
        if token == UNFENCED:
            return
        key = (token.shard_id, machine_id)
        stamp = (token.epoch, token.sequence)
        mark = self._marks.get(key) or self._strangers.get(key)
        if mark is not None and stamp <= mark:
            raise Fenced(
                f"shard {token.shard_id!r} sent epoch {stamp[0]} sequence {stamp[1]} for machine {machine_id!r}, "
                f"but epoch {mark[0]} sequence {mark[1]} was seen before"
            )
        self._advance(key, stamp)
        self._store.stage(Mark(*key, *stamp))

    def restore(self, entry: Mark) -> None:
        self._advance((entry.shard_id, entry.machine_id), (entry.epoch, entry.sequence))

    def entries(self) -> Iterator[Mark]:
        """The marks as they are at this moment."""
        held = [*self._strangers.items(), *self._marks.items()]
        return (Mark(*key, *stamp) for key, stamp in held)

    def _advance(self, key: tuple[str, str], stamp: tuple[int, int]) -> None:
        for marks in (self._marks, self._strangers):
            marks.pop(key, None)
        if key[1] in self._known:
            self._marks[key] = stamp
            return
        self._strangers[key] = stamp
        if len(self._strangers) > _MOST_STRANGERS:
            del self._strangers[next(iter(self._strangers))]
