"""Fencing: a shard's older self must not move a machine that its newer self has touched (spec/engine.md §3.17)."""

from typing import NamedTuple

from bigfleet.provider.kit.errors import Fenced


class Token(NamedTuple):
    """What a shard stamps on each mutating call."""

    shard_id: str = ""
    epoch: int = 0
    sequence: int = 0


UNFENCED = Token()


class Fences:
    """The newest (epoch, sequence) seen per shard and machine."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str], tuple[int, int]] = {}

    def admit(self, token: Token, machine_id: str) -> None:
        """Take note of a token that is strictly newer than the last; raise Fenced for any other.

        The empty token bypasses fencing. The mark advances even if the call fails later on.
        """
        if token == UNFENCED:
            return
        key = (token.shard_id, machine_id)
        stamp = (token.epoch, token.sequence)
        mark = self._marks.get(key)
        if mark is not None and stamp <= mark:
            raise Fenced(
                f"shard {token.shard_id!r} sent epoch {stamp[0]} sequence {stamp[1]} for machine {machine_id!r}, "
                f"but epoch {mark[0]} sequence {mark[1]} was seen before"
            )
        self._marks[key] = stamp
