"""A leader without etcd: a real tenure over a store that lives in memory and outlives it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.handing_out import Wanted
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.store import DOMAINS_PER_TXN, CoordinatorStore, DomainTaken, LeaderClaim, UnknownShard
from bigfleet.coordinator.tenure import Tenure
from tests.unit.shard_world import Clock

ZONE_A, ZONE_B, ZONE_C = (Domain("topology.kubernetes.io/zone", f"zone-{letter}") for letter in "abc")


class MemoryStore:
    """What bigfleet.coordinator.store keeps in etcd."""

    def __init__(self) -> None:
        self.kept = Ownership()
        self.writes = 0

    async def register(self, shard_id: str, _address: str, _now_unix_ns: int) -> None:
        self.kept.shards.add(shard_id)

    async def ownership(self) -> Ownership:
        """A copy, as a leader reads one."""
        copy = Ownership(withdrawn=set(self.kept.withdrawn), shards=set(self.kept.shards))
        for domain, shard_id in self.kept.owners.items():
            copy.assign(domain, shard_id)
        copy.clusters = dict(self.kept.clusters)
        copy.moved_unix_ns = dict(self.kept.moved_unix_ns)
        copy.released = {shard_id: set(domains) for shard_id, domains in self.kept.released.items()}
        return copy

    async def assign(self, domain: Domain, shard_id: str) -> None:
        if shard_id not in self.kept.shards:
            raise UnknownShard(shard_id)
        if (owner := self.kept.owners.get(domain, shard_id)) != shard_id:
            raise DomainTaken(domain, owner)
        self.kept.assign(domain, shard_id)

    async def assign_free(self, owners: Mapping[Domain, str]) -> None:
        assert len(owners) <= DOMAINS_PER_TXN
        assert not owners.keys() & self.kept.owners.keys()
        assert self.kept.shards.issuperset(owners.values())
        self.writes += 1
        for domain, shard_id in owners.items():
            self.kept.assign(domain, shard_id)

    async def move(self, moves: Mapping[Domain, tuple[str, str]], now_unix_ns: int) -> None:
        assert len(moves) <= DOMAINS_PER_TXN
        self.writes += 1
        for domain, (owner, shard_id) in moves.items():
            assert self.kept.owners[domain] == owner
            self.kept.move(domain, shard_id, now_unix_ns)

    async def bind(self, clusters: Collection[str], shard_id: str) -> None:
        assert not self.kept.clusters.keys() & set(clusters)
        self.kept.clusters |= dict.fromkeys(clusters, shard_id)

    async def rest(self, domains: Collection[Domain], now_unix_ns: int) -> None:
        self.kept.moved_unix_ns |= dict.fromkeys(domains, now_unix_ns)

    async def unassign(self, domain: Domain) -> str | None:
        owner = self.kept.owners.get(domain)
        self.kept.unassign(domain)
        return owner

    async def remove_shard(self, shard_id: str) -> None:
        self.kept.remove_shard(shard_id)

    async def given_up(self, shard_id: str, domains: Collection[Domain]) -> None:
        self.kept.released[shard_id] -= set(domains)


class Leader:
    """A leader, of which each successor knows only what is in the store, and the shards that report to it."""

    def __init__(
        self,
        *,
        planned: Mapping[Domain, str] | None = None,
        assign_by: str = "",
        store: MemoryStore | None = None,
        clock: Clock | None = None,
        founded_at: float = 0.0,
    ) -> None:
        self._founded_unix_ns = int(founded_at * 1e9)
        self.store, self.clock = store or MemoryStore(), clock or Clock(1000.0)
        self.wanted = Wanted(planned or {}, assign_by)
        # What is on each shard's disk; None: it owns everything.
        self.disks: dict[str, set[Domain] | None] = {}
        # What each provider lists, and every shard with it: machines, and how many serve which cluster.
        self.listed: dict[Domain, tuple[int, dict[str, int]]] = {}
        # Shards that have not listed anything yet.
        self.unlisted: set[str] = set()
        self._acks: dict[str, list[pb.InstructAck]] = {}
        self.tenure = self._tenure(term=1)

    def _tenure(self, term: int) -> Tenure:
        gauge = Metrics(CollectorRegistry()).pending_instructions
        claim = LeaderClaim(member=1, term=term, founded_unix_ns=self._founded_unix_ns)
        store = cast(CoordinatorStore, self.store)
        return Tenure(
            claim, store, gauge, self.wanted, monotonic=self.clock, now_unix_ns=lambda: int(self.clock.now * 1e9)
        )

    def succeed(self) -> None:
        """The next leader takes over."""
        self.tenure = self._tenure(self.tenure.claim.term + 1)

    async def sent_away(self, shard: str, *clusters: str) -> dict[str, str]:
        """A shard reports sessions with clusters; which of them belong to another one."""
        report = pb.ShardReport(shard_id=shard, clusters=clusters)
        await self.tenure.report(report, now_unix_ns=int(self.clock.now * 1e9))
        return await self.tenure.clusters_elsewhere(report)

    async def says(self, shard: str, *owns: Domain, everything: bool = False, **fields: Any) -> list[tuple[str, str]]:
        """A shard reports what is on its disk; what it is asked to do, as (what, topology value)."""
        return [asked(one) for one in await self._report(shard, owns, everything, **fields)]

    async def _report(
        self, shard: str, owns: Collection[Domain], everything: bool = False, **fields: Any
    ) -> Sequence[pb.CoordinatorInstruction]:
        owned = pb.OwnedDomains(
            everything=everything,
            domains=[pb.TopologyDomain(topology_key=one.key, topology_value=one.value) for one in owns],
        )
        listed = [
            pb.DomainHoldings(
                topology_key=domain.key,
                topology_value=domain.value,
                machines=[pb.MachineCount(instance_type="m", state="IDLE", count=machines)],
                bound=bound,
            )
            for domain, (machines, bound) in self.listed.items()
            if shard not in self.unlisted
        ]
        report = pb.ShardReport(
            shard_id=shard, domains=owned, listed=listed, instruction_acks=self._acks.pop(shard, []), **fields
        )
        return await self.tenure.report(report, now_unix_ns=int(self.clock.now * 1e9))

    async def beat(self, shard: str) -> None:
        """A shard reports, and does what it is asked to."""
        disk = self.disks.setdefault(shard, None)
        instructions = await self._report(shard, disk or (), everything=disk is None)
        if disk is None:
            if not await self.tenure.placing.decided():
                return
            disk = self.disks[shard] = set()
        for instruction in instructions:
            outcome = pb.InstructAck.ACCEPTED
            what, _ = asked(instruction)
            payload = getattr(instruction, what)
            domain = Domain(payload.topology_key, payload.topology_value)
            if what == "assign_domain":
                disk.add(domain)
            elif payload.unless_bound and self.listed[domain][1]:
                outcome = pb.InstructAck.FAILED
            else:
                disk.discard(domain)
            ack = pb.InstructAck(instruction_id=instruction.instruction_id, outcome=outcome)
            self._acks.setdefault(shard, []).append(ack)

    async def beats(self, rounds: int = 1) -> None:
        """Every shard reports, every ten seconds."""
        for _ in range(rounds):
            self.clock.now += 10
            for shard in sorted(self.disks):
                await self.beat(shard)


def asked(instruction: pb.CoordinatorInstruction) -> tuple[str, str]:
    payload = instruction.WhichOneof("payload")
    assert payload
    return payload, getattr(instruction, payload).topology_value
