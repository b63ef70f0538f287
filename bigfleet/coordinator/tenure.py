"""One leadership from claim to end: its fenced store, and the soft state that reports rebuild after a failover."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from prometheus_client import Gauge

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.store import CoordinatorStore, LeaderClaim, Refusal

# What a report may carry (docs/reference/wire.md#coordinator); a shard that sends more gets no more of our memory.
_MAX_SHORTFALLS = 100
_OUTCOMES = {number: name for name, number in pb.InstructAck.Outcome.items()}

log = structlog.get_logger(__name__)


@dataclass
class LastReport:
    """What a shard said last, and when we heard it."""

    received_at_unix_ns: int
    cycle: int
    summary: pb.ShardSummary
    shortfalls: list[pb.Shortfall]


@dataclass
class KnownShard:
    """A registered shard that has reported to this leader."""

    address: str
    report: LastReport
    instructions: dict[str, pb.CoordinatorInstruction] = field(default_factory=dict)
    """Not yet acknowledged, by id, in order of their sequence numbers; sent with every answer."""


class Tenure:
    """What a leader knows. It is dropped whole when the leadership ends."""

    def __init__(self, claim: LeaderClaim, store: CoordinatorStore, pending: Gauge) -> None:
        self.claim = claim
        self.store = store
        self.writing = asyncio.Lock()
        self.shards: dict[str, KnownShard] = {}
        self._unsaved_heartbeats: set[str] = set()
        self._pending = pending
        self._sequence = 0
        # Only a leader writes, so what it has read stays true, except after a write of which it knows no end.
        self._ownership: Ownership | None = None

    async def report(self, report: pb.ShardReport, now_unix_ns: int) -> list[pb.CoordinatorInstruction]:
        """Take a shard's report in; answers the instructions it has not acknowledged yet."""
        shortfalls = [_bare(shortfall) for shortfall in report.shortfalls[:_MAX_SHORTFALLS]]
        last = LastReport(now_unix_ns, report.cycle, report.summary, shortfalls)
        known = self.shards.get(report.shard_id)
        new = known is None
        if known is None or (report.shard_address and known.address != report.shard_address):
            known = await self._register(report, last)
        known.report = last
        self._unsaved_heartbeats.add(report.shard_id)
        for ack in report.instruction_acks:
            instruction = known.instructions.pop(ack.instruction_id, None)
            if instruction and ack.outcome != pb.InstructAck.ACCEPTED:
                outcome = _OUTCOMES.get(ack.outcome, ack.outcome)
                asked = instruction.WhichOneof("payload")
                log.warning("not done", shard=report.shard_id, asked=asked, outcome=outcome, reason=ack.reason)
        if report.HasField("domains"):
            await self._settle(report.shard_id, known, _domains(report.domains))
        elif new:
            # Which assignments our predecessor delivered, it does not say; it takes them twice gladly.
            for domain in (await self.ownership()).lacking(report.shard_id, held=set()):
                self._instruct_assign(report.shard_id, domain)
        self._count_pending(report.shard_id)
        return list(known.instructions.values())

    async def ownership(self) -> Ownership:
        if self._ownership is None:
            async with self.writing:
                self._ownership = self._ownership or await self.store.ownership()
        return self._ownership

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Ownership]:
        """The ownership, to change in the store first; it is read again when that went wrong."""
        async with self.writing:
            self._ownership = self._ownership or await self.store.ownership()
            try:
                yield self._ownership
            except Refusal:
                raise
            except BaseException:
                self._ownership = None
                raise

    async def assign(self, domain: Domain, shard_id: str) -> None:
        async with self._changing() as ownership:
            await self.store.assign(domain, shard_id)
            ownership.assign(domain, shard_id)
        self._instruct_assign(shard_id, domain)

    async def unassign(self, domain: Domain) -> None:
        async with self._changing() as ownership:
            owner = await self.store.unassign(domain)
            ownership.unassign(domain)
        if owner:
            self._instruct_unassign(owner, domain)

    async def remove_shard(self, shard_id: str) -> None:
        async with self._changing() as ownership:
            await self.store.remove_shard(shard_id)
            ownership.remove_shard(shard_id)
            self.forget(shard_id)

    async def _settle(self, shard_id: str, known: KnownShard, held: set[Domain]) -> None:
        """Instruct a shard to correct its domains to the assignments, also to those that a former leader made."""
        ownership = await self.ownership()
        if given_up := ownership.given_up(shard_id, held):
            async with self._changing() as ownership:
                await self.store.given_up(shard_id, given_up)
                ownership.released[shard_id] -= given_up
        expected = _after(known.instructions.values(), held)
        for domain in ownership.lacking(shard_id, expected):
            self._instruct_assign(shard_id, domain)
        for domain in ownership.excess(shard_id, expected):
            self._instruct_unassign(shard_id, domain)

    async def _register(self, report: pb.ShardReport, last: LastReport) -> KnownShard:
        async with self.writing:
            await self.store.register(report.shard_id, report.shard_address, last.received_at_unix_ns)
            known = self.shards.get(report.shard_id)
            if known is not None:
                known.address = report.shard_address
                return known
            known = self.shards[report.shard_id] = KnownShard(report.shard_address, last)
        return known

    async def save_heartbeats(self) -> None:
        """Persist the heartbeats of every shard that reported since the last time."""
        async with self.writing:
            unsaved, self._unsaved_heartbeats = self._unsaved_heartbeats, set()
            heartbeats = {shard_id: self.shards[shard_id].report.received_at_unix_ns for shard_id in sorted(unsaved)}
            if heartbeats:
                await self.store.persist_heartbeats(heartbeats)

    def _instruct_assign(self, shard_id: str, domain: Domain) -> None:
        payload = pb.AssignDomain(topology_key=domain.key, topology_value=domain.value)
        self._instruct(shard_id, pb.CoordinatorInstruction(assign_domain=payload))

    def _instruct_unassign(self, shard_id: str, domain: Domain) -> None:
        payload = pb.UnassignDomain(topology_key=domain.key, topology_value=domain.value)
        self._instruct(shard_id, pb.CoordinatorInstruction(unassign_domain=payload))

    def forget(self, shard_id: str) -> None:
        """Drop the soft state of a removed shard."""
        if self.shards.pop(shard_id, None):
            self._pending.remove(shard_id)
        self._unsaved_heartbeats.discard(shard_id)

    def end(self) -> None:
        """Leave no trace in the metrics of a leadership that is over."""
        for shard_id in list(self.shards):
            self.forget(shard_id)

    def _instruct(self, shard_id: str, instruction: pb.CoordinatorInstruction) -> None:
        known = self.shards.get(shard_id)
        if known is None:
            return  # its first report to us shows what it needs to be told
        self._sequence += 1
        instruction.coordinator_term = self.claim.term
        instruction.sequence_number = self._sequence
        instruction.instruction_id = f"{self.claim.term}-{self._sequence}"
        known.instructions[instruction.instruction_id] = instruction
        self._count_pending(shard_id)

    def _count_pending(self, shard_id: str) -> None:
        if known := self.shards.get(shard_id):
            self._pending.labels(shard_id).set(len(known.instructions))


def _bare(shortfall: pb.Shortfall) -> pb.Shortfall:
    """A shortfall without its requirements, which the leader does not keep (docs/reference/wire.md#coordinator)."""
    kept = pb.Shortfall()
    kept.CopyFrom(shortfall)
    kept.ClearField("requirements")
    return kept


def _domains(owned: pb.OwnedDomains) -> set[Domain]:
    return {Domain(domain.topology_key, domain.topology_value) for domain in owned.domains}


def _after(instructions: Iterable[pb.CoordinatorInstruction], held: set[Domain]) -> set[Domain]:
    """What a shard with these domains has once it has done what it was asked."""
    domains = set(held)
    for instruction in instructions:
        match instruction.WhichOneof("payload"):
            case "assign_domain":
                asked = instruction.assign_domain
                domains.add(Domain(asked.topology_key, asked.topology_value))
            case "unassign_domain":
                given_up = instruction.unassign_domain
                domains.discard(Domain(given_up.topology_key, given_up.topology_value))
    return domains
