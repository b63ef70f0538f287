"""When the domains that no person gave away are given: those of the deployer's file, and those that the leader assigns.

Which shard gets a domain that nobody owns is decided in choose_owner.py.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import structlog

from bigfleet.coordinator.choose_owner import first_share, share_out
from bigfleet.coordinator.known import MOST_DOMAINS, SILENT_SECONDS, KnownShard
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.record import OwnershipRecord

# Not every shard's List comes at the same moment: until then, a new domain waits for all to list it.
_ALL_LIST_SECONDS = 30.0
# Nothing moves twice within this.
REST_SECONDS = 600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Wanted:
    """What the deployer wants of domains."""

    planned: Mapping[Domain, str] = field(default_factory=dict)
    """The file of domains."""
    assign_by: str = ""
    """The leader assigns the domains of this topology key; empty: none."""
    assign_after_seconds: float = SILENT_SECONDS
    """So long after their founding, coordinators assign nothing: shards of before may have what nobody knows of."""


@dataclass(frozen=True)
class _Move:
    owner: str
    to: str


class Placing:
    """Gives domains to shards as their reports come in. What it does is in the record before anybody is told."""

    def __init__(
        self,
        wanted: Wanted,
        record: OwnershipRecord,
        shards: Mapping[str, KnownShard],
        founded_unix_ns: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = wanted
        self._record = record
        self._shards = shards
        self._founded_unix_ns = founded_unix_ns
        self._monotonic = monotonic
        self._began = monotonic()
        self._all_heard = False
        self._removed_at: dict[str, float] = {}
        # Of the planned domains, those that nobody may have yet.
        self._left = set(wanted.planned)
        # Since when free domains that the leader assigns are listed.
        self._appeared: dict[Domain, float] = {}
        # What a shard was asked to give up for another. It stays in the record as its owner's until it has.
        self._moving: dict[Domain, _Move] = {}

    async def decided(self) -> bool:
        """Whether some shard has a domain, or is to be given one: then no shard owns everything."""
        return bool(self._wanted.planned or self._wanted.assign_by or (await self._record.read()).owners)

    def leaving(self, shard_id: str) -> set[Domain]:
        """What a shard was asked to give up for another."""
        return {domain for domain, move in self._moving.items() if move.owner == shard_id}

    def may_be_held(self, domain: Domain, shard_id: str, ownership: Ownership, now_unix_ns: int) -> bool:
        """Whether a shard that has not reported to this leader yet may have what another one is to be told of."""
        silent = self._monotonic() - SILENT_SECONDS
        unheard = {
            other
            for other in ownership.released.keys() | ownership.shards
            if other not in self._shards and other != shard_id and self._removed_at.get(other, self._began) > silent
        }
        if now_unix_ns - self._founded_unix_ns < SILENT_SECONDS * 1e9 and unheard & ownership.shards:
            return True  # after a restored snapshot, disks may say what the record does not
        return any(domain in ownership.released.get(other, ()) for other in unheard)

    def removed(self, shard_id: str) -> None:
        """A shard was removed. The file stands for one that comes back."""
        self._removed_at[shard_id] = self._monotonic()
        self._left = set(self._wanted.planned)

    async def refused(self, domain: Domain, now_unix_ns: int) -> None:
        """A shard keeps a domain that it was asked to give up for another."""
        if self._moving.pop(domain, None):
            await self._record.rest([domain], now_unix_ns)

    async def reported(
        self, shard_id: str, known: KnownShard, now_unix_ns: int
    ) -> tuple[dict[Domain, str], list[Domain]]:
        """After a report: the domains that shards were given now, and those that this one shall give up for another."""
        if known.owns is not None:
            await self._learn(shard_id, known)
        if not (self._left or self._wanted.assign_by):
            return {}, []
        ownership = await self._record.read()
        if not self._heard_all(ownership):
            return {}, []
        given = await self._follow_file(ownership)
        if not self._wanted.assign_by or now_unix_ns - self._founded_unix_ns < self._wanted.assign_after_seconds * 1e9:
            return given, []
        given |= await self._finish_moves(shard_id, known, now_unix_ns)
        given |= await self._share_out(ownership)
        return given, self._begin_moves(shard_id, known, ownership, now_unix_ns)

    async def _learn(self, shard_id: str, known: KnownShard) -> None:
        """Record what a shard has given up, and what it has and nobody was recorded for."""
        ownership = await self._record.read()
        if given_up := ownership.given_up(shard_id, known.held):
            await self._record.given_up(shard_id, given_up)
        if unrecorded := ownership.unrecorded(known.owns or frozenset()):
            log.warning("recording domains that a shard has and nobody knew of", shard=shard_id, count=len(unrecorded))
            await self._record.give(dict.fromkeys(unrecorded[:MOST_DOMAINS], shard_id))

    def _heard_all(self, ownership: Ownership) -> bool:
        """Whether nobody can be left who has a domain without our knowledge."""
        if not self._all_heard:
            awaited = ownership.shards.union(self._wanted.planned.values()) - self._shards.keys()
            self._all_heard = not awaited or self._monotonic() - self._began >= SILENT_SECONDS
            other = [one for one, shard in self._wanted.planned.items() if ownership.owners.get(one, shard) != shard]
            if self._all_heard and other:
                log.warning("the record wins over the file of domains", count=len(other), first=str(min(other)))
        return self._all_heard

    async def _follow_file(self, ownership: Ownership) -> dict[Domain, str]:
        self._left -= ownership.owners.keys()
        gone = self._gone(ownership)
        free = {one: self._wanted.planned[one] for one in self._left if ownership.free(one, gone)}
        return await self._record.give(free, gone)

    async def _share_out(self, ownership: Ownership) -> dict[Domain, str]:
        """Give away the free domains that all shards list, or that have been listed for long enough."""
        listings = {shard_id: known.listed for shard_id, known in self._live().items()}
        gone = self._gone(ownership)
        listed = {domain for listing in listings.values() for domain in listing} - ownership.owners.keys()
        self._appeared = {
            domain: self._appeared.get(domain, self._monotonic())
            for domain in listed - self._wanted.planned.keys()
            if ownership.free(domain, gone)
        }
        since = self._monotonic() - _ALL_LIST_SECONDS
        ready = {
            domain
            for domain, appeared in self._appeared.items()
            if appeared <= since or all(domain in listing for listing in listings.values())
        }
        if not ready:
            return {}
        given = await self._record.give(share_out(ready, listings, ownership.owners, ownership.clusters), gone)
        if given:
            log.info("domains assigned", count=len(given), to=sorted(set(given.values())))
        return given

    def _begin_moves(self, shard_id: str, known: KnownShard, ownership: Ownership, now_unix_ns: int) -> list[Domain]:
        """What this shard shall give up for one that has nothing."""
        live = self._live()
        for domain, move in list(self._moving.items()):
            if move.owner not in live or move.to not in live or ownership.owners.get(domain) != move.owner:
                del self._moving[domain]
        if known.owns == frozenset() and known.listed and not self._appeared and not self._moving:
            self._moving = self._first_share(shard_id, ownership, now_unix_ns)
        return sorted(
            domain
            for domain, move in self._moving.items()
            if move.owner == shard_id and domain in (known.owns or frozenset())
        )

    def _first_share(self, newcomer: str, ownership: Ownership, now_unix_ns: int) -> dict[Domain, _Move]:
        if ownership.given.get(newcomer):
            return {}  # it is told with this answer
        rested = now_unix_ns - int(REST_SECONDS * 1e9)
        resting = {domain for domain, at in ownership.moved_unix_ns.items() if at > rested}
        listings = {shard_id: known.listed for shard_id, known in self._live().items()}
        # Where the file put it, there it stays.
        taken = first_share(newcomer, listings, ownership.owners, resting | self._wanted.planned.keys())
        if taken:
            log.info("moving domains to a shard that has none", shard=newcomer, count=len(taken))
        return {domain: _Move(owner, newcomer) for domain, owner in taken.items()}

    async def _finish_moves(self, shard_id: str, known: KnownShard, now_unix_ns: int) -> dict[Domain, str]:
        """Record the next owners of what a shard has given up."""
        if known.owns is None:
            return {}
        done = {
            domain: (shard_id, move.to)
            for domain, move in self._moving.items()
            if move.owner == shard_id and domain not in known.held
        }
        for domain in done:
            del self._moving[domain]
        return await self._record.move(done, now_unix_ns)

    def _live(self) -> dict[str, KnownShard]:
        """Shards that we heard of lately and that say what they own."""
        silent = self._monotonic() - SILENT_SECONDS
        return {name: one for name, one in self._shards.items() if one.heard_at > silent and one.owns is not None}

    def _gone(self, ownership: Ownership) -> Collection[str]:
        """Shards that were removed and have been silent since: what they had to give up need not wait for them."""
        silent = self._monotonic() - SILENT_SECONDS
        return {
            shard_id
            for shard_id in ownership.released.keys() - ownership.shards
            if self._removed_at.get(shard_id, self._began) <= silent
        }
