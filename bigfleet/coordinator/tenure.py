"""One leadership from claim to end: its fenced store, and the soft state that reports rebuild after a failover."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from prometheus_client import Gauge

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.coordinator.ownership import Domain, Ownership
from bigfleet.coordinator.store import DOMAINS_PER_TXN, LeaderClaim, Refusal, CoordinatorStore
from bigfleet.core.labels import check_label_key, check_label_value

# What a report may carry (docs/reference/wire.md#coordinator); a shard that sends more gets no more of our memory.
_MAX_SHORTFALLS = 100
# A shard that says it has more gets no more of the store.
_MAX_DOMAINS = 10_000
# Six heartbeats: a shard that has said nothing for so long is not waited for.
SILENT_SECONDS = 60.0
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
    heard_at: float = 0.0
    """When it last reported, on a clock that nobody sets."""
    position: tuple[int, int] = (0, 0)
    """Epoch and number of the last report."""
    owns: frozenset[Domain] | None = None
    """What is on its disk, as of its last report; None: it does not say."""
    owns_everything: bool = False
    """Every machine of its provider, because it was never told of a domain."""
    instructions: dict[str, pb.CoordinatorInstruction] = field(default_factory=dict)
    """Not yet acknowledged, by id, in order of their sequence numbers; sent with every answer."""


class Tenure:
    """What a leader knows. It is dropped whole when the leadership ends."""

    def __init__(
        self,
        claim: LeaderClaim,
        store: CoordinatorStore,
        pending: Gauge,
        planned: Mapping[Domain, str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.claim = claim
        self.store = store
        self._monotonic = monotonic
        self._began = monotonic()
        self._planned = planned
        # Of the planned ones, those that nobody may have yet.
        self._left = set(planned)
        self._all_heard = False
        self._removed_at: dict[str, float] = {}
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
        position = (report.shard_epoch, report.cycle)
        if position < known.position:
            log.warning("a report came late, after a newer one", shard=report.shard_id, cycle=report.cycle)
            return list(known.instructions.values())
        known.report, known.heard_at, known.position = last, self._monotonic(), position
        self._unsaved_heartbeats.add(report.shard_id)
        for ack in report.instruction_acks:
            instruction = known.instructions.pop(ack.instruction_id, None)
            if instruction and ack.outcome != pb.InstructAck.ACCEPTED:
                outcome = _OUTCOMES.get(ack.outcome, ack.outcome)
                asked = instruction.WhichOneof("payload")
                log.warning("not done", shard=report.shard_id, asked=asked, outcome=outcome, reason=ack.reason)
        says = report.HasField("domains")
        known.owns = frozenset(_domains(report.domains)) if says else None
        known.owns_everything = report.domains.everything
        if known.owns is not None:
            await self._learn(report.shard_id, known.owns)
        await self._follow_plan()
        if known.owns is not None:
            await self._correct(report.shard_id, known, known.owns)
        elif new:
            # Which assignments our predecessor delivered, it does not say; it takes them twice gladly.
            expected = _after(known.instructions.values(), frozenset())
            for domain in (await self.ownership()).lacking(report.shard_id, expected):
                self._instruct_assign(report.shard_id, domain)
        self._count_pending(report.shard_id)
        return list(known.instructions.values())

    async def domains_assigned(self) -> bool:
        """Whether some shard has a domain, or is to be given one: then no shard owns everything."""
        return bool(self._planned or (await self.ownership()).owners)

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
        self._hand_over(domain, shard_id)

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
            self._removed_at[shard_id] = self._monotonic()
            # The file stands for a shard that comes back; what was unassigned by hand it never gives away again.
            self._left = set(self._planned) - ownership.owners.keys()
            self.forget(shard_id)

    async def _learn(self, shard_id: str, owns: frozenset[Domain]) -> None:
        """Take over from a shard's disk what it has given up, and what it has and nobody was recorded for."""
        ownership = await self.ownership()
        if given_up := ownership.given_up(shard_id, owns):
            async with self._changing() as ownership:
                await self.store.given_up(shard_id, given_up)
                ownership.released[shard_id] -= given_up
        if unrecorded := ownership.unrecorded(owns):
            log.warning("recording domains that a shard has and nobody knew of", shard=shard_id, count=len(unrecorded))
            await self._record(dict.fromkeys(unrecorded[:_MAX_DOMAINS], shard_id))

    async def _follow_plan(self) -> None:
        """Record what the file of domains says, once nobody can be left who has some of it without our knowledge."""
        if not self._left:
            return
        ownership = await self.ownership()
        if not self._all_heard:
            awaited = ownership.shards.union(self._planned.values()) - self.shards.keys()
            if awaited and self._monotonic() - self._began < SILENT_SECONDS:
                return
            self._all_heard = True
            overruled = [
                one for one in self._left if ownership.owners.get(one, self._planned[one]) != self._planned[one]
            ]
            if overruled:
                log.warning("the record wins over the file of domains", count=len(overruled), first=str(min(overruled)))
        self._left -= ownership.owners.keys()
        gone = self._gone(ownership)
        free = {domain: self._planned[domain] for domain in self._left if ownership.free(domain, gone)}
        for domain, shard_id in await self._record(free):
            self._hand_over(domain, shard_id)

    async def _correct(self, shard_id: str, known: KnownShard, owns: frozenset[Domain]) -> None:
        """Instruct a shard to bring its disk to the assignments, also to those that a former leader made."""
        expected = _after(known.instructions.values(), owns)
        ownership = await self.ownership()
        for domain in ownership.lacking(shard_id, expected):
            self._hand_over(domain, shard_id)
        for domain in ownership.excess(shard_id, expected):
            self._instruct_unassign(shard_id, domain)

    async def _record(self, owners: Mapping[Domain, str]) -> list[tuple[Domain, str]]:
        """Give free domains to registered shards, many in one write; which ones that were."""
        recorded: list[tuple[Domain, str]] = []
        left = sorted(owners)
        while left:
            now, left = left[:DOMAINS_PER_TXN], left[DOMAINS_PER_TXN:]
            async with self._changing() as ownership:
                gone = self._gone(ownership)
                given = {
                    one: owners[one] for one in now if ownership.free(one, gone) and owners[one] in ownership.shards
                }
                if not given:
                    continue
                await self.store.assign_free(given)
                for domain, shard_id in given.items():
                    ownership.assign(domain, shard_id)
            recorded.extend(given.items())
        return recorded

    def _gone(self, ownership: Ownership) -> set[str]:
        """Shards that were removed and have been silent since: what they had to give up need not wait for them."""
        silent = self._monotonic() - SILENT_SECONDS
        return {
            shard_id
            for shard_id in ownership.released.keys() - ownership.shards
            if self._removed_at.get(shard_id, self._began) <= silent
        }

    def _hand_over(self, domain: Domain, shard_id: str) -> None:
        """Tell a shard of a domain that it was assigned, unless another still has it: then with a later report."""
        known = self.shards.get(shard_id)
        if known and (known.owns is None or not self._held_beside(domain, shard_id)):
            self._instruct_assign(shard_id, domain)

    def _held_beside(self, domain: Domain, shard_id: str) -> bool:
        """Whether another shard that we heard of lately still has a domain."""
        silent = self._monotonic() - SILENT_SECONDS
        return any(
            other.owns_everything or domain in (other.owns or ())
            for name, other in self.shards.items()
            if name != shard_id and other.heard_at > silent
        )

    async def _register(self, report: pb.ShardReport, last: LastReport) -> KnownShard:
        async with self.writing:
            await self.store.register(report.shard_id, report.shard_address, last.received_at_unix_ns)
            known = self.shards.get(report.shard_id)
            if known is not None:
                known.address = report.shard_address
                return known
            known = self.shards[report.shard_id] = KnownShard(report.shard_address, last, self._monotonic())
            if self._ownership:
                self._ownership.shards.add(report.shard_id)
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


def _domains(owned: pb.OwnedDomains) -> Iterator[Domain]:
    """Those that can be: what is no label was never assigned."""
    for domain in owned.domains:
        try:
            yield Domain(check_label_key(domain.topology_key), check_label_value(domain.topology_value))
        except ValueError:
            continue


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
