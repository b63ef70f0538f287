"""A leader without etcd: a real tenure over a store that lives in memory and outlives it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.metrics import Metrics
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.store import DOMAINS_PER_TXN, LeaderClaim, DomainTaken, CoordinatorStore, UnknownShard
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

    async def unassign(self, domain: Domain) -> str | None:
        owner = self.kept.owners.get(domain)
        self.kept.unassign(domain)
        return owner

    async def remove_shard(self, shard_id: str) -> None:
        self.kept.remove_shard(shard_id)

    async def given_up(self, shard_id: str, domains: Collection[Domain]) -> None:
        self.kept.released[shard_id] -= set(domains)


class Leader:
    """A leader, of which each `successor` knows only what is in the store."""

    def __init__(
        self,
        *,
        planned: Mapping[Domain, str] | None = None,
        store: MemoryStore | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.store, self.clock, self.planned = store or MemoryStore(), clock or Clock(1000.0), planned or {}
        self.disks: dict[str, set[Domain] | None] = {}
        self._acks: dict[str, list[pb.InstructAck]] = {}
        self.tenure = self._tenure(term=1)

    def _tenure(self, term: int) -> Tenure:
        gauge = Metrics(CollectorRegistry()).pending_instructions
        return Tenure(
            LeaderClaim(member=1, term=term), cast(CoordinatorStore, self.store), gauge, planned=self.planned, monotonic=self.clock
        )

    def succeed(self) -> None:
        """The next leader takes over."""
        self.tenure = self._tenure(self.tenure.claim.term + 1)

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
        report = pb.ShardReport(shard_id=shard, domains=owned, instruction_acks=self._acks.pop(shard, []), **fields)
        return await self.tenure.report(report, now_unix_ns=0)

    async def beat(self, shard: str) -> None:
        """A shard reports, and does what it is asked to."""
        disk = self.disks.setdefault(shard, None)
        instructions = await self._report(shard, disk or (), everything=disk is None)
        if disk is None:
            if not await self.tenure.domains_assigned():
                return
            disk = self.disks[shard] = set()
        for instruction in instructions:
            what, _ = asked(instruction)
            payload = getattr(instruction, what)
            domain = Domain(payload.topology_key, payload.topology_value)
            (disk.add if what == "assign_domain" else disk.discard)(domain)
        self._acks[shard] = [
            pb.InstructAck(instruction_id=one.instruction_id, outcome=pb.InstructAck.ACCEPTED) for one in instructions
        ]


def asked(instruction: pb.CoordinatorInstruction) -> tuple[str, str]:
    payload = instruction.WhichOneof("payload")
    assert payload
    return payload, getattr(instruction, payload).topology_value
