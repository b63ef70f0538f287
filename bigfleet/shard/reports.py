"""The shard's side of the coordinator: reports up, instructions down. The shard works just as well without it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import grpc
import structlog

from bigfleet.api.v1alpha1 import coordinator_pb2
from bigfleet.core.machines import MachineState
from bigfleet.process.naming import named
from bigfleet.rpc.leaderclient import CoordinatorError, LeaderClient
from bigfleet.shard.convert import shortfall_to_wire
from bigfleet.shard.cycle import CycleReport
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.metrics import ReportOutcome, ShardMetrics
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.domains import Domain, Domains
from bigfleet.shard.provider.listed import Listed
from bigfleet.shard.provider.quotas import Quotas, QuotaSlice

log = structlog.get_logger()

_REPORT_TIMEOUT_SECONDS = 5.0
_FIRST_RETRY_SECONDS = 0.5
_MAX_SHORTFALLS = 100
_FREE = (MachineState.IDLE, MachineState.SPECULATIVE)

_Ack = coordinator_pb2.InstructAck


class Instructions:
    """Carries out what the coordinator asks, once per instruction, and never for one that was deposed."""

    def __init__(
        self,
        domains: Domains,
        listed: Listed,
        quotas: Quotas,
        domains_changed: Callable[[], None],
        send_away: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._domains = domains
        self._listed = listed
        self._quotas = quotas
        self._domains_changed = domains_changed
        self._send_away = send_away
        self.term = 0
        # Terms count from the start when the coordinators lost everything; a later founding is newer all the same.
        self._founded = 0
        self._acks: dict[str, coordinator_pb2.InstructAck] = {}

    def take(self, answer: coordinator_pb2.ReportAck) -> list[coordinator_pb2.InstructAck]:
        """The acknowledgements to send with the next report."""
        if (answer.founded_unix_ns, answer.coordinator_term) < (self._founded, self.term):
            log.warning("answer of a deposed coordinator dropped", term=answer.coordinator_term, known=self.term)
            return []
        if answer.founded_unix_ns != self._founded:
            # Its instructions may have the numbers of others that we acknowledged long ago.
            self._acks.clear()
        self._founded, self.term = answer.founded_unix_ns, answer.coordinator_term
        owned = self._domains.owned
        with self._domains.one_write():
            if answer.domains_assigned and self._domains.confine():
                log.warning("domains are assigned to shards: without one of our own we own nothing")
            acks = self._follow(answer.instructions)
        if self._domains.owned != owned:
            self._domains_changed()
        self._listed.by(answer.assign_by)
        if answer.HasField("quotas"):
            self._quotas.replace(
                [QuotaSlice(one.provider, one.region, one.slots) for one in answer.quotas.slices],
                answer.quotas.provider_regions,
            )
        self._send_away({one.cluster_id: one.shard_id for one in answer.clusters_elsewhere})
        return acks

    def _follow(
        self, instructions: Sequence[coordinator_pb2.CoordinatorInstruction]
    ) -> list[coordinator_pb2.InstructAck]:
        pending = {instruction.instruction_id for instruction in instructions}
        # What the coordinator no longer sends, it has our word on.
        self._acks = {key: ack for key, ack in self._acks.items() if key in pending}
        for instruction in instructions:
            if instruction.instruction_id not in self._acks:
                self._acks[instruction.instruction_id] = self._carry_out(instruction)
        return list(self._acks.values())

    def _carry_out(self, instruction: coordinator_pb2.CoordinatorInstruction) -> coordinator_pb2.InstructAck:
        outcome, reason = _Ack.ACCEPTED, ""
        payload = instruction.WhichOneof("payload")
        if instruction.coordinator_term < self.term:
            outcome, reason = _Ack.REJECTED_STALE, f"term {instruction.coordinator_term} is older than {self.term}"
        elif payload in ("assign_domain", "unassign_domain"):
            asked = getattr(instruction, payload)
            domain = (asked.topology_key, asked.topology_value)
            if not all(domain):
                outcome, reason = _Ack.REJECTED_INVALID, "a domain needs a topology_key and a topology_value"
            elif instruction.unassign_domain.unless_bound and (cluster := self._listed.serves(domain)):
                outcome, reason = _Ack.FAILED, f"a machine of {domain[1]} serves {cluster}"
            elif self._domains.assign(domain) if payload == "assign_domain" else self._domains.unassign(domain):
                log.info("domains changed", instruction=payload, key=domain[0], value=domain[1])
        elif payload is None:
            outcome, reason = _Ack.REJECTED_INVALID, "the instruction asks for nothing that this shard knows"
        else:
            outcome, reason = _Ack.FAILED, f"{payload} is not implemented: machines do not move between shards yet"
        return _Ack(instruction_id=instruction.instruction_id, outcome=outcome, reason=reason)


class CoordinatorClient:
    """Reports to the leading coordinator, again and again."""

    def __init__(
        self,
        options: ShardOptions,
        addresses: str,
        epoch: int,
        inventory: Inventory,
        latest: Callable[[], CycleReport],
        instructions: Instructions,
        domains: Domains,
        listed: Listed,
        clusters: Callable[[], Sequence[str]],
        metrics: ShardMetrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._coordinators = LeaderClient([each.strip() for each in addresses.split(",")], options.tls_dir)
        self._epoch = epoch
        self._inventory = inventory
        self._latest = latest
        self._instructions = instructions
        self._domains = domains
        self._listed = listed
        self._clusters = clusters
        self._metrics = metrics
        self._reports = 0
        self._taken_at = monotonic()
        self._monotonic = monotonic
        metrics.report_oldest.set_function(lambda: monotonic() - self._taken_at)
        self._acks: list[coordinator_pb2.InstructAck] = []
        # Set once the coordinators were asked, whether a leader answered or not.
        self.asked = asyncio.Event()

    async def run(self) -> None:
        """Report for ever; after a report that no leader took the next one comes soon: an election takes a second."""
        interval = self._options.coordinator_heartbeat_interval_seconds
        wait = _FIRST_RETRY_SECONDS
        try:
            while True:
                answered = await self._report()
                self.asked.set()
                if answered:
                    wait = _FIRST_RETRY_SECONDS
                    await asyncio.sleep(interval)
                else:
                    await asyncio.sleep(min(wait, interval))
                    wait *= 2
        finally:
            await self._coordinators.close()

    async def _report(self) -> bool:
        """Whether a leader answered."""
        self._reports += 1
        report = self._build()
        self._show(report.summary)
        try:
            answer = await self._coordinators.call("ReportShard", report, _REPORT_TIMEOUT_SECONDS)
        except CoordinatorError as error:
            log.warning("report failed", error=str(error), tried=error.tried)
            self._metrics.reports.labels(ReportOutcome.FAILED).inc()
            return False
        except grpc.aio.AioRpcError as error:
            log.warning("report refused", code=error.code().name, details=error.details())
            self._metrics.reports.labels(ReportOutcome.REFUSED).inc()
        else:
            if answer.acknowledged:
                self._taken_at = self._monotonic()
            outcome = ReportOutcome.TAKEN if answer.acknowledged else ReportOutcome.REFUSED
            self._metrics.reports.labels(outcome).inc()
            self._acks = self._instructions.take(answer)
        return True

    def _show(self, sent: coordinator_pb2.ShardSummary) -> None:
        """In the metrics: what is said elsewhere of this shard can be held against what it has sent."""
        self._metrics.reported_free.set(sent.free_machines)
        self._metrics.reported.clear()
        for zone, count in named(sent.per_zone_counts):
            self._metrics.reported.labels(zone).set(count)
        self._metrics.reported_types.clear()
        for instance_type, count in named(sent.per_instance_type_counts):
            self._metrics.reported_types.labels(instance_type).set(count)

    def _build(self) -> coordinator_pb2.ShardReport:
        inventory = self._inventory
        free = sum(count for (state, _, _), count in inventory.counts.items() if state in _FREE)
        summary = coordinator_pb2.ShardSummary(
            total_machines=len(inventory.machines),
            free_machines=free,
            per_instance_type_counts=+inventory.instance_types,
            per_zone_counts=+inventory.zones,
        )
        shortfalls = self._latest().decisions.shortfalls[:_MAX_SHORTFALLS]
        listed, cut = self._listed.to_wire()
        return coordinator_pb2.ShardReport(
            shard_id=self._options.id,
            cycle=self._reports,
            timestamp_unix_nanos=time.time_ns(),
            shard_epoch=self._epoch,
            summary=summary,
            shortfalls=[shortfall_to_wire(shortfall) for shortfall in shortfalls],
            instruction_acks=self._acks,
            shard_address=self._options.advertise_addr or self._options.listen,
            domains=_owned_to_wire(self._domains),
            listed=listed,
            listed_cut=cut,
            clusters=self._clusters(),
        )


def _owned_to_wire(domains: Domains) -> coordinator_pb2.OwnedDomains:
    return coordinator_pb2.OwnedDomains(
        everything=domains.owned is None,
        domains=_named(domains.owned or frozenset()),
        leaving=_named(domains.leaving),
    )


def _named(domains: frozenset[Domain]) -> list[coordinator_pb2.TopologyDomain]:
    return [coordinator_pb2.TopologyDomain(topology_key=key, topology_value=value) for key, value in sorted(domains)]
