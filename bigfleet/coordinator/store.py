"""The replicated state under `/bigfleet/`, written only by the recorded leader of the current term.

    /bigfleet/leader                      which coordinator leads, its address, since which Raft term of which group
    /bigfleet/shards/<id>                 address and time of registration
    /bigfleet/heartbeats/<id>             unix nanoseconds of the last persisted heartbeat
    /bigfleet/domains/<key>/<value>       id of the owning shard
    /bigfleet/released/<id>/<key>/<value> taken from a shard that has not yet said that it gave it up
    /bigfleet/withdrawn/<key>/<value>     taken from its shard by hand; only a hand gives it away again
    /bigfleet/moved/<key>/<value>         unix nanoseconds of the leader's last move of a domain, or try
    /bigfleet/clusters/<id>               id of the shard that the cluster belongs to, from its first contact on
    /bigfleet/quotas/<provider>/<region>  slots per shard
    /bigfleet/providers/<name>            address and region

Path segments are percent-encoded, because topology keys contain slashes.

StoreError
├── Deposed         another leader or term is recorded: nothing was read or written
├── Outdated        what we thought to be the state is not: nothing was written
└── Refusal         the state does not allow the command
    ├── UnknownShard
    ├── UnknownProvider
    └── DomainTaken
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec
from prometheus_client import Counter

from bigfleet.coordinator import etcd_client as etcd
from bigfleet.coordinator.etcd_client import Compare, EtcdClient, EtcdUnavailable, KeyValue, Operation, TxnResult
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.errors import BigFleetError

PREFIX = "/bigfleet/"
LEADER_KEY = f"{PREFIX}leader"
APPLY_OUTCOMES = ("success", "error", "fsm_error")

# etcd takes 128 operations per transaction; the leader's own record needs one. Even: pairs stay together.
_OPERATIONS_PER_TXN = 100
# Each is compared as well as written, and etcd takes 128 comparisons.
DOMAINS_PER_TXN = 50


class StoreError(BigFleetError):
    """A command that was not applied."""


class Deposed(StoreError):
    """Another coordinator leads, or a newer term has begun."""


class Outdated(StoreError):
    """The state is not what the command took it for; read it again."""


class Refusal(StoreError):
    """The state does not allow the command."""


class UnknownShard(Refusal):
    def __init__(self, shard_id: str) -> None:
        super().__init__(f"shard {shard_id!r} is not registered")


class UnknownProvider(Refusal):
    def __init__(self, name: str) -> None:
        super().__init__(f"provider {name!r} is not registered")


class DomainTaken(Refusal):
    def __init__(self, domain: Domain, owner: str) -> None:
        super().__init__(f"domain {domain.key}={domain.value} belongs to shard {owner!r}")


class LeaderClaim(msgspec.Struct, frozen=True):
    """The record of a leadership; a transaction holds only while exactly this is recorded."""

    member: int
    term: int
    cluster: int = 0
    """etcd's number of the Raft group. Another one, as after a restore, counts its terms from the start."""
    founded_unix_ns: int = 0
    """When that group was founded; orders the terms of different groups."""
    address: str = ""
    """Where the leader's RPCs are answered."""

    def record(self) -> bytes:
        return msgspec.json.encode(self)


@dataclass(frozen=True)
class ShardRecord:
    """A registered shard; `last_heartbeat_unix_ns` is the persisted one, up to ten seconds old."""

    id: str
    address: str
    registered_at_unix_ns: int
    last_heartbeat_unix_ns: int


@dataclass(frozen=True)
class Quota:
    """How many slots of a provider's region each shard may use."""

    provider: str
    region: str
    per_shard: Mapping[str, int]


@dataclass(frozen=True)
class ProviderRecord:
    """A known capacity provider."""

    name: str
    address: str
    region: str


class _ShardRecord(msgspec.Struct, frozen=True):
    address: str
    registered_at_unix_ns: int


class _ProviderRecord(msgspec.Struct, frozen=True):
    address: str
    region: str


_Record = TypeVar("_Record")


class CoordinatorStore:
    """The state as one leader sees and writes it. Commands of one CoordinatorStore must not overlap."""

    def __init__(self, client: EtcdClient, claim: LeaderClaim, applied: Counter) -> None:
        self._client = client
        self._claim = claim
        self._applied = applied

    async def register(self, shard_id: str, address: str, now_unix_ns: int) -> None:
        """Record a shard, or its new address."""
        key = _path("shards", shard_id)
        with self._counted():
            (known,) = await self._read(etcd.read(key))
            registered_at = _decode(known[0], _ShardRecord).registered_at_unix_ns if known else now_unix_ns
            record = msgspec.json.encode(_ShardRecord(address, registered_at))
            await self._write([], [etcd.put(key, record), _heartbeat(shard_id, now_unix_ns)])

    async def persist_heartbeats(self, heartbeats: Mapping[str, int]) -> None:
        """Record when shards were last heard of, in unix nanoseconds."""
        with self._counted():
            await self._write_all([_heartbeat(shard_id, at) for shard_id, at in heartbeats.items()])

    async def assign(self, domain: Domain, shard_id: str) -> None:
        """Give a domain that no shard owns to a shard; a repeat is fine, a domain of another shard is refused."""
        key, shard_key = _path("domains", domain.key, domain.value), _path("shards", shard_id)
        with self._counted():
            result = await self._write(
                [etcd.exists(shard_key), etcd.absent(key)],
                [
                    etcd.put(key, shard_id.encode()),
                    etcd.delete(_released(shard_id, domain)),
                    etcd.delete(_withdrawn(domain)),
                ],
                [etcd.read(shard_key), etcd.read(key)],
            )
            if result.succeeded:
                return
            shard, owner = result.found
            if not shard:
                raise UnknownShard(shard_id)
            if (owned_by := owner[0].value.decode()) != shard_id:
                raise DomainTaken(domain, owned_by)

    async def assign_free(self, owners: Mapping[Domain, str]) -> None:
        """Give domains that nobody has to registered shards, all at once: at most `DOMAINS_PER_TXN`.

        Raises Outdated when one of the domains has an owner or one of the shards is not registered.
        """
        compare = [etcd.exists(_path("shards", shard_id)) for shard_id in sorted(set(owners.values()))]
        compare += [etcd.absent(_path("domains", domain.key, domain.value)) for domain in owners]
        writes = [
            etcd.put(_path("domains", domain.key, domain.value), shard_id.encode())
            for domain, shard_id in owners.items()
        ]
        with self._counted():
            if not (await self._write(compare, writes)).succeeded:
                raise Outdated("a domain has an owner, or a shard has gone, that this leader knows nothing of")

    async def move(self, moves: Mapping[Domain, tuple[str, str]], now_unix_ns: int) -> None:
        """Give domains that their owners have given up to other shards, all at once: domain → (owner, next owner).

        Raises Outdated when a domain has another owner or a next owner is not registered. At most `DOMAINS_PER_TXN`.
        """
        compare = [etcd.exists(_path("shards", shard_id)) for shard_id in sorted({to for _, to in moves.values()})]
        writes = []
        for domain, (owner, shard_id) in moves.items():
            key = _path("domains", domain.key, domain.value)
            compare.append(etcd.value_is(key, owner.encode()))
            writes += [etcd.put(key, shard_id.encode()), _moved(domain, now_unix_ns)]
        with self._counted():
            if not (await self._write(compare, writes)).succeeded:
                raise Outdated("a domain has another owner, or a shard has gone, that this leader knows nothing of")

    async def rest(self, domains: Collection[Domain], now_unix_ns: int) -> None:
        """The leader shall not try to move these for a while."""
        with self._counted():
            await self._write_all([_moved(domain, now_unix_ns) for domain in domains])

    async def bind(self, clusters: Collection[str], shard_id: str) -> None:
        """Record the shard of clusters that have none, all at once: at most `DOMAINS_PER_TXN`.

        Raises Outdated when one of them has a shard already, or the shard is not registered.
        """
        compare = [etcd.exists(_path("shards", shard_id)), *(etcd.absent(_path("clusters", one)) for one in clusters)]
        with self._counted():
            writes = [etcd.put(_path("clusters", one), shard_id.encode()) for one in clusters]
            if not (await self._write(compare, writes)).succeeded:
                raise Outdated("a cluster has a shard, or a shard has gone, that this leader knows nothing of")

    async def unassign(self, domain: Domain) -> str | None:
        """Take a domain from its shard by hand, and tell which one that was."""
        key = _path("domains", domain.key, domain.value)
        with self._counted():
            (found,) = await self._read(etcd.read(key))
            owner = found[0].value.decode() if found else None
            if owner:
                marks = [etcd.put(_released(owner, domain), b""), etcd.put(_withdrawn(domain), b"")]
                await self._write([], [etcd.delete(key), *marks])
        return owner

    async def remove_shard(self, shard_id: str) -> None:
        """Forget a shard, its domains and clusters. It goes last: a half-done removal can be asked for again."""
        with self._counted():
            known, domains, clusters = await self._read(
                etcd.read(_path("shards", shard_id)),
                etcd.read_prefix(_path("domains", "")),
                etcd.read_prefix(_path("clusters", "")),
            )
            if not known:
                raise UnknownShard(shard_id)
            # It may come back with all of them on its disk.
            freed = [
                operation
                for pair in domains
                if pair.value.decode() == shard_id
                for operation in (etcd.delete(pair.key), etcd.put(_released(shard_id, Domain(*_segments(pair))), b""))
            ]
            unbound = [etcd.delete(pair.key) for pair in clusters if pair.value.decode() == shard_id]
            await self._write_all(
                [*freed, *unbound, etcd.delete(_path("heartbeats", shard_id)), etcd.delete(_path("shards", shard_id))]
            )

    async def set_quota(self, provider: str, region: str, shard_id: str, slots: int) -> None:
        """Give a shard so many slots of a provider's region; none takes its slice away, also from one that has gone."""
        key = _path("quotas", provider, region)
        with self._counted():
            known, found = await self._read(etcd.read(_path("shards", shard_id)), etcd.read(key))
            if slots and not known:
                raise UnknownShard(shard_id)
            per_shard = (_decode(found[0], dict[str, int]) if found else {}) | {shard_id: slots}
            kept = {each: slots for each, slots in sorted(per_shard.items()) if slots}
            await self._write([], [etcd.put(key, msgspec.json.encode(kept)) if kept else etcd.delete(key)])

    async def set_provider(self, provider: ProviderRecord) -> None:
        """Record a provider, or its new address and region."""
        record = msgspec.json.encode(_ProviderRecord(provider.address, provider.region))
        with self._counted():
            await self._write([], [etcd.put(_path("providers", provider.name), record)])

    async def remove_provider(self, name: str) -> None:
        key = _path("providers", name)
        with self._counted():
            if not (await self._write([etcd.exists(key)], [etcd.delete(key)])).succeeded:
                raise UnknownProvider(name)

    async def shards(self) -> list[ShardRecord]:
        """All registered shards, sorted by id."""
        records, heartbeats = await self._read(
            etcd.read_prefix(_path("shards", "")), etcd.read_prefix(_path("heartbeats", ""))
        )
        last = {_segments(pair)[0]: int(pair.value) for pair in heartbeats}
        found = []
        for pair in records:
            shard_id, record = _segments(pair)[0], _decode(pair, _ShardRecord)
            found.append(ShardRecord(shard_id, record.address, record.registered_at_unix_ns, last.get(shard_id, 0)))
        return sorted(found, key=lambda shard: shard.id)

    async def domains(self) -> dict[Domain, str]:
        """The owner of every assigned domain, sorted by domain."""
        (pairs,) = await self._read(etcd.read_prefix(_path("domains", "")))
        return dict(sorted((Domain(*_segments(pair)), pair.value.decode()) for pair in pairs))

    async def ownership(self) -> Ownership:
        """Which shard owns which domain, and which shard has to give up which."""
        owners, released, withdrawn, moved, shards, clusters = await self._read(
            etcd.read_prefix(_path("domains", "")),
            etcd.read_prefix(_path("released", "")),
            etcd.read_prefix(_path("withdrawn", "")),
            etcd.read_prefix(_path("moved", "")),
            etcd.read_prefix(_path("shards", "")),
            etcd.read_prefix(_path("clusters", "")),
        )
        ownership = Ownership(
            withdrawn={Domain(*_segments(pair)) for pair in withdrawn},
            moved_unix_ns={Domain(*_segments(pair)): int(pair.value) for pair in moved},
            shards={_segments(pair)[0] for pair in shards},
            clusters={_segments(pair)[0]: pair.value.decode() for pair in clusters},
        )
        for pair in owners:
            ownership.assign(Domain(*_segments(pair)), pair.value.decode())
        for pair in released:
            shard_id, key, value = _segments(pair)
            ownership.released.setdefault(shard_id, set()).add(Domain(key, value))
        return ownership

    async def given_up(self, shard_id: str, domains: Collection[Domain]) -> None:
        """A shard no longer has what was taken from it."""
        with self._counted():
            await self._write_all([etcd.delete(_released(shard_id, domain)) for domain in domains])

    async def quotas(self) -> list[Quota]:
        """All quotas, sorted by provider and region."""
        (pairs,) = await self._read(etcd.read_prefix(_path("quotas", "")))
        found = []
        for pair in pairs:
            provider, region = _segments(pair)
            found.append(Quota(provider, region, _decode(pair, dict[str, int])))
        return sorted(found, key=lambda quota: (quota.provider, quota.region))

    async def providers(self) -> list[ProviderRecord]:
        """All known providers, sorted by name."""
        (pairs,) = await self._read(etcd.read_prefix(_path("providers", "")))
        found = []
        for pair in pairs:
            record = _decode(pair, _ProviderRecord)
            found.append(ProviderRecord(_segments(pair)[0], record.address, record.region))
        return sorted(found, key=lambda provider: provider.name)

    async def _read(self, *ranges: Operation) -> tuple[tuple[KeyValue, ...], ...]:
        """Ranges of one revision, read as the leader: a deposed one learns it here instead of telling old facts."""
        return (await self._write([], ranges)).found

    async def _write_all(self, operations: Sequence[Operation]) -> None:
        """Any number of operations in order, in as few transactions as etcd allows."""
        for start in range(0, len(operations), _OPERATIONS_PER_TXN):
            await self._write([], operations[start : start + _OPERATIONS_PER_TXN])

    async def _write(
        self, compare: Sequence[Compare], operations: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        """Run a transaction that holds only while our claim is the recorded one."""
        fence = etcd.value_is(LEADER_KEY, self._claim.record())
        result = await self._client.txn([fence, *compare], operations, [etcd.read(LEADER_KEY), *otherwise])
        if result.succeeded:
            return result
        recorded, *found = result.found
        if not recorded or recorded[0].value != self._claim.record():
            raise Deposed(f"term {self._claim.term} of this leader is over")
        return TxnResult(False, tuple(found))

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except Refusal:
            self._applied.labels("fsm_error").inc()
            raise
        except (Deposed, Outdated, EtcdUnavailable):
            self._applied.labels("error").inc()
            raise
        self._applied.labels("success").inc()


def _path(*segments: str) -> str:
    return PREFIX + "/".join(quote(segment, safe="") for segment in segments)


def _segments(pair: KeyValue) -> list[str]:
    """The path below the collection's name."""
    return [unquote(segment) for segment in pair.key.removeprefix(PREFIX).split("/")[1:]]


def _released(shard_id: str, domain: Domain) -> str:
    return _path("released", shard_id, domain.key, domain.value)


def _withdrawn(domain: Domain) -> str:
    return _path("withdrawn", domain.key, domain.value)


def _moved(domain: Domain, at_unix_ns: int) -> Operation:
    return etcd.put(_path("moved", domain.key, domain.value), str(at_unix_ns).encode())


def _heartbeat(shard_id: str, at_unix_ns: int) -> Operation:
    return etcd.put(_path("heartbeats", shard_id), str(at_unix_ns).encode())


def _decode(pair: KeyValue, kind: type[_Record]) -> _Record:
    return msgspec.json.decode(pair.value, type=kind)
