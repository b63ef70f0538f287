"""One leadership from claim to end: its fenced store, and the soft state that reports rebuild after a failover."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import structlog
from prometheus_client import Gauge

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.handing_out import Placing, Wanted
from bigfleet.coordinator.known import SILENT_SECONDS, KnownShard, LastReport
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.record import OwnershipRecord
from bigfleet.coordinator.store import CoordinatorStore, LeaderClaim, ProviderRecord, Quota

# What a report may carry (docs/reference/wire.md#coordinator); a shard that sends more gets no more of our memory.
_MAX_SHORTFALLS = 100
_MAX_CLUSTERS = 20_000
_LONGEST_NAME = 253
_OUTCOMES = {number: name for name, number in pb.InstructAck.Outcome.items()}

log = structlog.get_logger(__name__)


class Tenure:
    """What a leader knows. It is dropped whole when the leadership ends."""

    def __init__(
        self,
        claim: LeaderClaim,
        store: CoordinatorStore,
        pending: Gauge,
        wanted: Wanted,
        monotonic: Callable[[], float] = time.monotonic,
        now_unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.claim = claim
        self.store = store
        self.wanted = wanted
        self.writing = asyncio.Lock()
        self.shards: dict[str, KnownShard] = {}
        self.record = OwnershipRecord(store, self.writing)
        self.placing = Placing(wanted, self.record, self.shards, claim.founded_unix_ns, monotonic)
        self._monotonic = monotonic
        self._now_unix_ns = now_unix_ns
        self._unsaved_heartbeats: set[str] = set()
        self._pending = pending
        self._sequence = 0
        self._quotas: tuple[Sequence[Quota], Sequence[ProviderRecord]] | None = None

    async def report(self, report: pb.ShardReport, now_unix_ns: int) -> list[pb.CoordinatorInstruction]:
        """Take a shard's report in; answers the instructions it has not acknowledged yet."""
        shortfalls = [_bare(shortfall) for shortfall in report.shortfalls[:_MAX_SHORTFALLS]]
        last = LastReport(now_unix_ns, report.cycle, report.summary, shortfalls)
        known = self.shards.get(report.shard_id)
        new = known is None
        if known is None or (report.shard_address and known.address != report.shard_address):
            known = await self._register(report, last)
        position = (report.shard_epoch, report.cycle)
        if position < known.position:
            log.warning("a report came late, after a newer one", shard=report.shard_id, cycle=report.cycle)
            return list(known.instructions.values())
        known.report = last
        known.heard_at, known.position = self._monotonic(), position
        self._unsaved_heartbeats.add(report.shard_id)
        for ack in report.instruction_acks:
            await self._acknowledged(report.shard_id, known, ack, now_unix_ns)
        known.learn(report, self.wanted.assign_by)
        given, wanted_back = await self.placing.reported(report.shard_id, known, now_unix_ns)
        ownership = await self.record.read()
        for domain, shard_id in given.items():
            self._hand_over(domain, shard_id, ownership)
        if known.owns is not None:
            await self._correct(report.shard_id, known, known.owns)
        elif new:
            # Which assignments our predecessor delivered, it does not say; it takes them twice gladly.
            expected = _after(known.instructions.values(), frozenset())
            for domain in (await self.record.read()).lacking(report.shard_id, expected):
                self._instruct_assign(report.shard_id, domain)
        for domain in sorted(_after(known.instructions.values(), known.held).intersection(wanted_back)):
            self._instruct_unassign(report.shard_id, domain, unless_bound=True)
        self._count_pending(report.shard_id)
        return list(known.instructions.values())

    async def quotas(self, shard_id: str) -> pb.QuotaSlices:
        """The slots that a shard may take: none of a region of which only others have some."""
        if self._quotas is None:
            async with self.writing:
                self._quotas = await self.store.quotas(), await self.store.providers()
        quotas, providers = self._quotas
        return pb.QuotaSlices(
            slices=[
                pb.QuotaSlice(provider=one.provider, region=one.region, slots=one.per_shard.get(shard_id, 0))
                for one in quotas
            ],
            provider_regions={one.name: one.region for one in providers},
        )

    @asynccontextmanager
    async def changing_quotas(self) -> AsyncIterator[CoordinatorStore]:
        """The store, to change quotas or providers in."""
        async with self.writing:
            try:
                yield self.store
            finally:
                self._quotas = None

    async def clusters_elsewhere(self, report: pb.ShardReport) -> dict[str, str]:
        """Bind the clusters of a report that nobody has to their shard; those that belong to another one."""
        clusters = {one for one in report.clusters[:_MAX_CLUSTERS] if 0 < len(one) <= _LONGEST_NAME}
        ownership = await self.record.read()
        if new := clusters - ownership.clusters.keys():
            await self.record.bind(new, report.shard_id)
            ownership = await self.record.read()
        owners = {one: ownership.clusters.get(one, report.shard_id) for one in sorted(clusters)}
        return {one: shard for one, shard in owners.items() if shard != report.shard_id}

    async def _acknowledged(self, shard_id: str, known: KnownShard, ack: pb.InstructAck, now_unix_ns: int) -> None:
        instruction = known.instructions.pop(ack.instruction_id, None)
        if instruction is None or ack.outcome == pb.InstructAck.ACCEPTED:
            return
        outcome = _OUTCOMES.get(ack.outcome, ack.outcome)
        asked = instruction.WhichOneof("payload")
        log.warning("instruction not followed", shard=shard_id, asked=asked, outcome=outcome, reason=ack.reason)
        if instruction.unassign_domain.unless_bound:
            payload = instruction.unassign_domain
            await self.placing.refused(Domain(payload.topology_key, payload.topology_value), now_unix_ns)

    async def assign(self, domain: Domain, shard_id: str) -> None:
        async with self.record.changing() as ownership:
            await self.store.assign(domain, shard_id)
            ownership.assign(domain, shard_id)
        self._hand_over(domain, shard_id, ownership)

    async def unassign(self, domain: Domain) -> None:
        async with self.record.changing() as ownership:
            owner = await self.store.unassign(domain)
            ownership.unassign(domain)
        if owner:
            self._instruct_unassign(owner, domain)

    async def remove_shard(self, shard_id: str) -> None:
        async with self.record.changing() as ownership:
            await self.store.remove_shard(shard_id)
            ownership.remove_shard(shard_id)
            self.forget(shard_id)
        self.placing.removed(shard_id)

    async def _correct(self, shard_id: str, known: KnownShard, owns: frozenset[Domain]) -> None:
        """Instruct a shard to bring its disk to the assignments, also to those that a former leader made."""
        expected = _after(known.instructions.values(), owns)
        ownership = await self.record.read()
        for domain in ownership.lacking(shard_id, expected | self.placing.leaving(shard_id)):
            self._hand_over(domain, shard_id, ownership)
        for domain in ownership.excess(shard_id, expected):
            self._instruct_unassign(shard_id, domain)

    def _hand_over(self, domain: Domain, shard_id: str, ownership: Ownership) -> None:
        """Tell a shard of a domain that it was assigned, unless another still has it: then with a later report."""
        known = self.shards.get(shard_id)
        if known and (known.owns is None or not self._held_beside(domain, shard_id, ownership)):
            self._instruct_assign(shard_id, domain)

    def _held_beside(self, domain: Domain, shard_id: str, ownership: Ownership) -> bool:
        """Whether another shard may still act on a domain's machines; one that is silent is not waited for."""
        if self.placing.may_be_held(domain, shard_id, ownership, self._now_unix_ns()):
            return True
        silent = self._monotonic() - SILENT_SECONDS
        return any(
            other.owns_everything or domain in other.held
            for name, other in self.shards.items()
            if name != shard_id and other.heard_at > silent
        )

    async def _register(self, report: pb.ShardReport, last: LastReport) -> KnownShard:
        async with self.writing:
            await self.store.register(report.shard_id, report.shard_address, last.received_at_unix_ns)
            self.record.registered(report.shard_id)
            known = self.shards.get(report.shard_id)
            if known is not None:
                known.address = report.shard_address
                return known
            known = self.shards[report.shard_id] = KnownShard(report.shard_address, last, self._monotonic())
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

    def _instruct_unassign(self, shard_id: str, domain: Domain, *, unless_bound: bool = False) -> None:
        payload = pb.UnassignDomain(topology_key=domain.key, topology_value=domain.value, unless_bound=unless_bound)
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


def _after(instructions: Iterable[pb.CoordinatorInstruction], held: frozenset[Domain]) -> set[Domain]:
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
