"""Walks of shards through the whole inventory, List by List, and the machines that one of them left out. Pure."""

from collections.abc import Iterator


class Walks:
    """When each machine was last told, and since when each shard's last whole walk has gone on.

    A walk begins with a List from the start, goes on at the revision of each answer that has more to come, and ends
    with one that has not: by then every machine must have been told. Times are those at which a List was asked, on one
    clock.
    """

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        # Shard → revision at which it will go on → when that walk began. Of a walk that is given up one entry stays.
        self._open: dict[str, dict[bytes, float]] = {}
        # Shard → when its last walk that has ended began.
        self._ended: dict[str, float] = {}

    def tell(self, machine_id: str, asked_at: float) -> None:
        # Answers may overtake each other.
        self._told[machine_id] = max(asked_at, self._told.get(machine_id, asked_at))

    def forget(self, machine_id: str) -> None:
        """The machine is no longer there."""
        self._told.pop(machine_id, None)

    def step(self, shard: str, since: bytes, revision: bytes, *, whole: bool, more: bool, asked_at: float) -> bool:
        """A List was answered, `whole` if it began from the start: whether a walk has ended with it."""
        walks = self._open.setdefault(shard, {})
        if whole:
            walks.clear()  # two at once are not told apart: the first is judged when it is begun again
        began = asked_at if whole else walks.pop(since, None)
        if began is None:
            return False  # news since some revision, no walk
        if more:
            walks[revision] = began
            return False
        self._ended[shard] = began
        return True

    def left_out(self) -> Iterator[str]:
        """Machines that were told once, and by no shard's last walk: none, unless some shard has yet to end its first.

        Shards may have different machines, so all of them must have walked before one can be called left out.
        """
        if self._open.keys() != self._ended.keys():
            return
        since = min(self._ended.values())
        yield from (machine_id for machine_id, at in self._told.items() if at < since)
