"""One leadership from claim to end: its fenced store, and the soft state that reports rebuild after a failover."""

import asyncio
from dataclasses import dataclass, field

import structlog
from prometheus_client import Gauge

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.store import Claim, Domain, Store

# What a report may carry (spec/engine.md §2.4); a shard that sends more gets no more of our memory.
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

    def __init__(self, claim: Claim, store: Store, pending: Gauge) -> None:
        self.claim = claim
        self.store = store
        self.writing = asyncio.Lock()
        self.shards: dict[str, KnownShard] = {}
        self._unsaved_heartbeats: set[str] = set()
        self._pending = pending
        self._sequence = 0

    async def report(self, report: pb.ShardReport, now_unix_ns: int) -> list[pb.CoordinatorInstruction]:
        """Take a shard's report in; answers the instructions it has not acknowledged yet."""
        shortfalls = [_bare(shortfall) for shortfall in report.shortfalls[:_MAX_SHORTFALLS]]
        last = LastReport(now_unix_ns, report.cycle, report.summary, shortfalls)
        known = self.shards.get(report.shard_id)
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
        self._count_pending(report.shard_id)
        return list(known.instructions.values())

    async def _register(self, report: pb.ShardReport, last: LastReport) -> KnownShard:
        async with self.writing:
            await self.store.register(report.shard_id, report.shard_address, last.received_at_unix_ns)
            known = self.shards.get(report.shard_id)
            if known is not None:
                known.address = report.shard_address
                return known
            # A new leader cannot know which assignments its predecessor delivered; a shard takes them twice gladly.
            owned = [domain for domain, owner in (await self.store.domains()).items() if owner == report.shard_id]
            known = self.shards[report.shard_id] = KnownShard(report.shard_address, last)
        for domain in owned:
            self.instruct_assign(report.shard_id, domain)
        return known

    async def save_heartbeats(self) -> None:
        """Persist the heartbeats of every shard that reported since the last time."""
        async with self.writing:
            unsaved, self._unsaved_heartbeats = self._unsaved_heartbeats, set()
            heartbeats = {shard_id: self.shards[shard_id].report.received_at_unix_ns for shard_id in sorted(unsaved)}
            if heartbeats:
                await self.store.persist_heartbeats(heartbeats)

    def instruct_assign(self, shard_id: str, domain: Domain) -> None:
        payload = pb.AssignDomain(topology_key=domain.key, topology_value=domain.value)
        self._instruct(shard_id, pb.CoordinatorInstruction(assign_domain=payload))

    def instruct_unassign(self, shard_id: str, domain: Domain) -> None:
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
            return
        self._sequence += 1
        instruction.coordinator_term = self.claim.term
        instruction.sequence_number = self._sequence
        instruction.instruction_id = f"{self.claim.term}-{self._sequence}"
        known.instructions[instruction.instruction_id] = instruction
        self._count_pending(shard_id)

    def _count_pending(self, shard_id: str) -> None:
        self._pending.labels(shard_id).set(len(self.shards[shard_id].instructions))


def _bare(shortfall: pb.Shortfall) -> pb.Shortfall:
    """A shortfall without its requirements, which the leader does not keep (spec/engine.md §2.4)."""
    kept = pb.Shortfall()
    kept.CopyFrom(shortfall)
    kept.ClearField("requirements")
    return kept
