"""The ownership as the leader has it in memory, changed in the store first."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.store import DOMAINS_PER_TXN, CoordinatorStore, Refusal

_Item = TypeVar("_Item", Domain, str)


class OwnershipRecord:
    """Only a leader writes, so what it has read stays true, except after a write of which it knows no end."""

    def __init__(self, store: CoordinatorStore, writing: asyncio.Lock) -> None:
        self._store = store
        self._writing = writing
        self._ownership: Ownership | None = None

    async def read(self) -> Ownership:
        if self._ownership is None:
            async with self._writing:
                self._ownership = self._ownership or await self._store.ownership()
        return self._ownership

    def registered(self, shard_id: str) -> None:
        """A shard has been written to the store."""
        if self._ownership:
            self._ownership.shards.add(shard_id)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Ownership]:
        """The ownership, to change in the store first; it is read again when that went wrong."""
        async with self._writing:
            self._ownership = self._ownership or await self._store.ownership()
            try:
                yield self._ownership
            except Refusal:
                raise
            except BaseException:
                self._ownership = None
                raise

    async def give(self, owners: Mapping[Domain, str], gone: Collection[str] = ()) -> dict[Domain, str]:
        """Give free domains to registered shards, many in one write; which ones that were."""
        given: dict[Domain, str] = {}
        for batch in _batches(owners):
            async with self.changing() as ownership:
                now = {
                    one: owners[one] for one in batch if ownership.free(one, gone) and owners[one] in ownership.shards
                }
                if not now:
                    continue
                await self._store.assign_free(now)
                for domain, shard_id in now.items():
                    ownership.assign(domain, shard_id)
            given |= now
        return given

    async def given_up(self, shard_id: str, domains: Collection[Domain]) -> None:
        """A shard no longer has what was taken from it."""
        async with self.changing() as ownership:
            await self._store.given_up(shard_id, domains)
            ownership.released[shard_id] -= set(domains)

    async def bind(self, clusters: Collection[str], shard_id: str) -> None:
        """Record the shard of clusters that have none."""
        for batch in _batches(clusters):
            async with self.changing() as ownership:
                now = [one for one in batch if one not in ownership.clusters] if shard_id in ownership.shards else []
                if now:
                    await self._store.bind(now, shard_id)
                    ownership.clusters |= dict.fromkeys(now, shard_id)

    async def move(self, moves: Mapping[Domain, tuple[str, str]], now_unix_ns: int) -> dict[Domain, str]:
        """Give domains, which their owners have given up, to other shards: domain → (owner, next owner)."""
        moved: dict[Domain, str] = {}
        for batch in _batches(moves):
            async with self.changing() as ownership:
                now = {
                    one: moves[one]
                    for one in batch
                    if ownership.owners.get(one) == moves[one][0] and moves[one][1] in ownership.shards
                }
                if not now:
                    continue
                await self._store.move(now, now_unix_ns)
                for domain, (_, shard_id) in now.items():
                    ownership.move(domain, shard_id, now_unix_ns)
            moved |= {domain: shard_id for domain, (_, shard_id) in now.items()}
        return moved

    async def rest(self, domains: Collection[Domain], now_unix_ns: int) -> None:
        """Do not try to move these for a while."""
        async with self.changing() as ownership:
            await self._store.rest(domains, now_unix_ns)
            ownership.moved_unix_ns |= dict.fromkeys(domains, now_unix_ns)


def _batches(items: Collection[_Item]) -> Iterator[list[_Item]]:
    """As many at a time as one write takes."""
    ordered = sorted(items)
    for start in range(0, len(ordered), DOMAINS_PER_TXN):
        yield ordered[start : start + DOMAINS_PER_TXN]
