"""The ledger: takes in what happens to machines and what shards ask, keeps the books and writes the file."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import TRANSITIONAL, MachineState
from bigfleet.provider.fake.ledger.book import Book
from bigfleet.provider.fake.ledger.calls import Call, Calls
from bigfleet.provider.fake.ledger.echoes import Echoes
from bigfleet.provider.fake.ledger.figures import LedgerFigures
from bigfleet.provider.fake.ledger.file import LedgerFile, read_entries
from bigfleet.provider.fake.ledger.idling import Idling
from bigfleet.provider.fake.ledger.purchases import Purchases
from bigfleet.provider.fake.ledger.replacement import Replacement
from bigfleet.provider.fake.ledger.shapes import FleetShapes
from bigfleet.provider.fake.ledger.stamps import contradictions
from bigfleet.provider.fake.ledger.unused import Unused
from bigfleet.provider.fake.ledger.vanishing import Vanishing
from bigfleet.provider.fake.ledger.walks import Walks
from bigfleet.provider.fake.observing import Observer
from bigfleet.provider.fake.run_phase import SOAK, RunPhase
from bigfleet.provider.kit import MachineRecord, ProviderInventory

# How soon the end of a soak is noticed.
_LOOK_SECONDS = 60.0

# A machine in one of these states stands on a host (docs/reference/wire.md#machine-fields).
_HAVE_HOSTS = (pb.IDLE, pb.CONFIGURING, pb.CONFIGURED, pb.DRAINING, pb.DELETING)

log = structlog.get_logger(__name__)


class Ledger(Observer):
    """What happened, by the fake's own clock. It is told of machines as an `Observer`, of calls as a `Watcher`."""

    def __init__(
        self,
        shapes: FleetShapes,
        registry: CollectorRegistry,
        *,
        check_blobs: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shapes = shapes
        self._check_blobs = check_blobs
        self._clock = clock
        self.file: LedgerFile | None = None
        self.book = Book(shapes)
        self.calls = Calls()
        self.replacements: dict[str, Replacement] = {}
        # Machines that there are, in whatever state.
        self.zones: Counter[str] = Counter()
        self.instance_types: Counter[str] = Counter()
        self._vanishing = Vanishing()
        self._purchases = Purchases(shapes)
        self._echoes = Echoes()
        self._walks = Walks()
        self.idling = Idling(shapes)
        self.unused = Unused()
        # Machines of which a shard was told something wrong: once each, however often it is told.
        self._told_early: set[str] = set()
        self._told_wrong: set[str] = set()
        self._figures = LedgerFigures(registry, self)

    def now(self) -> float:
        return self._clock()

    async def in_soak(self, phase: RunPhase) -> None:
        """Begin to count anew with every soak, until cancelled."""
        while True:
            await phase.until(SOAK)
            for replacement in self.replacements.values():
                replacement.begin()
            while phase.name == SOAK:
                await phase.changes_within(_LOOK_SECONDS)

    # --- the start -------------------------------------------------------------------------------------------------

    def open(self, file: LedgerFile) -> None:
        """Write to this file from now on. What it holds of a former life's calls still has to be kept in order."""
        try:
            for entry in read_entries(file.path):
                if entry.get("answer") == "OK" and entry["shard"]:
                    self.calls.restore(entry["shard"], entry["machine"], (entry["epoch"], entry["sequence"]))
        except ValueError as error:
            log.error("the ledger of the former life is damaged", error=str(error))
        self.file = file

    def expect(self, clusters: Iterable[str]) -> None:
        """Show these clusters in the metrics from now on."""
        for cluster in clusters:
            self._cluster(cluster)

    def recall(self, inventory: ProviderInventory) -> None:
        """Begin with what the kit has on disk: after a restart nothing else records what the former process had bound.

        The kit's memory is taken for the truth here, and held to the clusters' word from their next report on.
        """
        now = self.now()
        for state in MachineState:
            self.zones.update(map(self._zone, inventory.ids(state)))
            self.instance_types.update(map(self._instance_type, inventory.ids(state)))
        for machine_id in inventory.ids(MachineState.IDLE):
            self._purchases.stands_idle(machine_id, now)
            self.idling.recall(machine_id, now)
        for state in (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING):
            for machine_id in sorted(inventory.ids(state)):
                machine = inventory.get(machine_id)
                self._cluster(machine.cluster)
                if machine_id not in self._shapes:
                    self._shapes.add([machine])  # the fleet file has changed since
                binding = self.book.begin(machine_id, machine.cluster, machine.operation, now)
                self._echoes.stamp(machine_id, machine.operation, machine.metadata, state, now)
                if state is not MachineState.CONFIGURING:
                    binding.joined = True
                    self.book.arrived(machine_id, machine.cluster)
                if state is MachineState.DRAINING:
                    self.book.drain(machine_id)
        for state in TRANSITIONAL:
            for machine_id in inventory.ids(state):
                self.calls.resume(machine_id, state, inventory.get(machine_id).operation, now)

    # --- what happens to machines ----------------------------------------------------------------------------------

    def created(self, machine: MachineRecord) -> None:
        self.idling.stands_idle(machine.id, self.now())
        self.unused.bought(machine.id, self.now())

    def configuring(self, machine: MachineRecord) -> None:
        self.idling.taken(machine.id)
        self.unused.taken(machine.id)
        self._cluster(machine.cluster)
        self.book.begin(machine.id, machine.cluster, machine.operation, self.now())

    def carried_out(self, machine_id: str) -> None:
        self.book.carried_out(machine_id, self.now())

    def gave_up(self, machine: MachineRecord) -> None:
        binding = self.book.live(machine.id)
        # A task that is cancelled late is not about the next binding.
        if binding and (binding.cluster, binding.operation) == (machine.cluster, machine.operation):
            self._end(machine.id)

    def draining(self, machine: MachineRecord) -> None:
        self._figures.drains.inc()
        self._vanishing.explain(machine.id)
        binding = self.book.drain(machine.id)
        if binding and binding.joined:
            self._cluster(binding.cluster).drained(self.now())

    def left(self, machine: MachineRecord) -> None:
        drained = self.book.live(machine.id) is not None
        self._end(machine.id)
        if drained:
            self._purchases.stands_idle(machine.id, self.now())
        if machine.state is MachineState.DRAINING:
            self.idling.stands_idle(machine.id, self.now())

    def struck(self, machine: MachineRecord, fault: str) -> None:
        self.write({"event": fault, "machine": machine.id, "cluster": machine.cluster})
        self.calls.struck(machine.id)
        self._purchases.taken(machine.id)
        self.idling.taken(machine.id)
        self.unused.taken(machine.id)
        if fault == "vanished":
            self._walks.forget(machine.id)
            self.zones[self._zone(machine.id)] -= 1
            self.instance_types[self._instance_type(machine.id)] -= 1
        binding = self.book.live(machine.id)
        if self._end(machine.id) and binding:
            self._cluster(binding.cluster).lost(self.now())
            self._figures.losses.labels(binding.cluster).inc()

    def opened(self, cluster: str, ready: AbstractSet[str], unready: AbstractSet[str]) -> None:
        self._cluster(cluster)
        for machine_id in self.book.missing(cluster, ready):
            self.departed(cluster, machine_id, gone=machine_id not in unready)

    def arrived(self, cluster: str, machine_id: str) -> None:
        binding = self.book.arrived(machine_id, cluster)
        if binding is None:
            return
        self.write({"event": "ready", "machine": machine_id, "cluster": cluster})
        self._told_early.discard(machine_id)
        first, binding.joined = not binding.joined, True
        # The machines that a cluster began with replace no lost machine, and are not too many.
        if first and not binding.seeded and binding.serves:
            seconds = self._cluster(cluster).arrived(self.now())
            if seconds is not None:
                self._figures.replacement.labels(cluster).observe(seconds)

    def departed(self, cluster: str, machine_id: str, gone: bool) -> None:
        if not self.book.departed(machine_id, cluster, self.now()):
            return
        self.write({"event": "departed", "machine": machine_id, "cluster": cluster, "gone": gone})
        if gone:
            self._vanishing.suspect(machine_id, cluster, self.now())

    def look_back(self, late_seconds: float = 0.0) -> None:
        """Judge what happened a while ago: Nodes that left, machines that were bought.

        Call it every second or so, and say how late that came.
        """
        self.unused.look(self.now())
        self._vanishing.excuse(late_seconds)
        for suspect in self._vanishing.convicted(self.now()):
            self.violation("node_vanished", suspect.machine_id, suspect.cluster)
        for machine_id, spare in self._purchases.needless(self.now()):
            self.violation("bought_needlessly", machine_id, "", idle=spare)

    def _end(self, machine_id: str) -> bool:
        self._vanishing.explain(machine_id)
        self._echoes.forget(machine_id)
        return self.book.end(machine_id)

    # --- what shards ask and are told ------------------------------------------------------------------------------

    def asked(self, kind: str, request: Any) -> Call:
        if kind == "Drain":
            self._vanishing.explain(request.machine_id)
        elif kind == "Configure":
            self._echoes.ask(request.machine_id)
        call = Call(
            kind=kind,
            machine_id=request.machine_id,
            shard=request.shard_id,
            epoch=request.shard_epoch,
            sequence=request.sequence_number,
            cluster=request.cluster_id if kind == "Configure" else self._cluster_of(request.machine_id),
            arrived=self.now(),
        )
        self.calls.ask(call)
        return call

    def refused(self, call: Call, code: str) -> None:
        self.calls.refuse(call)
        self._answered(call, code)

    def accepted(self, call: Call, request: Any, answer: pb.TransitionAck) -> None:
        self._answered(call, "OK")
        for rule in self.calls.accept(call, answer.machine.state, answer.operation_id):
            self.violation(rule, call.machine_id, call.cluster, shard=call.shard, epoch=call.epoch)
        match call.kind:
            case "Create":
                self._purchases.bought(call.machine_id, self.now())
            case "Configure":
                self._purchases.taken(call.machine_id)
                self._cluster(call.cluster)
                self._figures.configures.labels(call.cluster).inc()
                stamped = dict(request.shard_metadata)
                if wrong := contradictions(stamped):
                    self.violation("stamp_wrong", call.machine_id, call.cluster, shard=call.shard, fields=wrong)
                self._echoes.stamp(call.machine_id, answer.operation_id, stamped, answer.machine.state, self.now())
            case "Drain":
                self._figures.drain_grace.observe(request.grace_period_seconds)
            case "Delete":
                self._purchases.taken(call.machine_id)
                self.unused.given_back(call.machine_id)
                if returned := self.idling.given_back(call.machine_id, call.arrived):
                    kind, seconds = returned
                    self._figures.before_delete.labels(kind.label).observe(seconds)
        if call.kind == "Configure" and self._check_blobs:
            missing = [name for name in (call.machine_id, call.cluster) if not names(request.bootstrap_blob, name)]
            if missing:
                self.violation("blob_wrong", call.machine_id, call.cluster, missing=missing)

    def answered_list(self, seconds: float) -> None:
        self._figures.list_seconds.observe(seconds)

    def told(self, machine: pb.Machine, asked_at: float) -> None:
        machine_id = machine.id
        self.calls.tell(machine_id, machine.state)
        self._walks.tell(machine_id, asked_at)
        if machine.state != pb.CONFIGURED:
            return
        binding = self.book.get(machine_id)
        if binding and binding.began >= asked_at:
            return  # bound anew while this answer was made: the next one will be judged
        joined = binding and binding.joined and binding.cluster == machine.cluster
        if not joined and machine_id not in self._told_early:
            self._told_early.add(machine_id)
            self.violation("configured_before_ready", machine_id, machine.cluster)

    def told_removed(self, machine_id: str) -> None:
        self.calls.tell(machine_id, None)
        self._walks.forget(machine_id)

    def listed(self, request: pb.ListFilter, answer: pb.MachineList, asked_at: float) -> None:
        if request.states:
            return
        ended = self._walks.step(
            request.shard_id,
            request.since_revision,
            answer.revision,
            whole=answer.full or not request.since_revision,
            more=answer.more,
            asked_at=asked_at,
        )
        if ended and (missing := list(self._walks.left_out())):
            # Once for the walk, not for each machine: a List that forgets may forget a hundred thousand.
            self.violation(
                "left_out_of_list",
                missing[0],
                self._cluster_of(missing[0]),
                shard=request.shard_id,
                machines=len(missing),
            )

    def described(self, machine: pb.Machine, asked_at: float) -> None:
        shape = self._shapes.get(machine.id)
        wrong = shape.differences(machine) if shape else []
        if self._echoes.garbled(machine, asked_at):
            wrong.append("shard_metadata")
        if machine.state == pb.FAILED and not machine.last_error:
            wrong.append("last_error")
        if machine.state in _HAVE_HOSTS and not machine.host.ref:
            wrong.append("host")
        if not wrong:
            self._told_wrong.discard(machine.id)
        elif machine.id not in self._told_wrong:
            self._told_wrong.add(machine.id)
            self.violation("shape_told_wrong", machine.id, machine.cluster, fields=wrong)

    def _answered(self, call: Call, code: str) -> None:
        if call.kind == "Configure":
            self._echoes.answered(call.machine_id)
        self._figures.calls.labels(call.kind, code).inc()
        self.write(
            {
                "call": call.kind,
                "shard": call.shard,
                "epoch": call.epoch,
                "sequence": call.sequence,
                "machine": call.machine_id,
                "cluster": call.cluster,
                "answer": code,
            }
        )

    # --- the books -------------------------------------------------------------------------------------------------

    def violation(self, rule: str, machine_id: str, cluster: str, **details: Any) -> None:
        self._figures.violations.labels(rule).inc()
        log.warning("ledger: rule broken", rule=rule, machine=machine_id, cluster=cluster, **details)
        self.write({"event": "violation", "rule": rule, "machine": machine_id, "cluster": cluster} | details)

    def write(self, entry: dict[str, Any]) -> None:
        if self.file:
            self.file.write(entry)

    def close(self) -> None:
        """Write no more."""
        if self.file:
            self.file.close()
            self.file = None

    def _cluster(self, name: str) -> Replacement:
        replacement = self.replacements.get(name)
        if replacement is None:
            replacement = self.replacements[name] = Replacement()
            self.book.cluster(name)
            self._figures.expect(name)
        return replacement

    def _zone(self, machine_id: str) -> str:
        shape = self._shapes.get(machine_id)
        return shape.zone if shape else ""

    def _instance_type(self, machine_id: str) -> str:
        shape = self._shapes.get(machine_id)
        return shape.instance_type if shape else ""

    def _cluster_of(self, machine_id: str) -> str:
        binding = self.book.live(machine_id)
        return binding.cluster if binding else ""


def names(blob: bytes, name: str) -> bool:
    """Whether a blob holds this name, and not only as a part of a longer one."""
    return bool(_word(name).search(blob))


@lru_cache(maxsize=1024)
def _word(name: str) -> re.Pattern[bytes]:
    letter = rb"[0-9A-Za-z-]"
    return re.compile(rb"(?<!%s)%s(?!%s)" % (letter, re.escape(name.encode()), letter))
