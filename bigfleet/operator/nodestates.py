"""Writes NodeStateUpdates into UpcomingNodes: one worker per machine, the newest frame wins."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.api.v1alpha1.shard_pb2 import NodeStateUpdate
from bigfleet.kube import AlreadyExists, Conflict, KubeClient, KubeError, NotFound, Object, Store, WorkQueue
from bigfleet.kube.resources import UPCOMING_NODES
from bigfleet.operator import upcoming
from bigfleet.operator.metrics import OperatorMetrics

# Machines written at the same time; more only queue at the rate limit.
_CONCURRENCY = 64
_CONFLICT_TRIES = 5
# A resync that names no machine is believed when it comes this many times in a row.
_CONFIRMATIONS = 3
_OF_NODE = "node"
# How long people can read why a machine failed before its record goes.
FAILED_RECORD_SECONDS = 60.0
# A machine whose Configure was refused is never spoken of: it is not waited for any longer than this.
_UNTOLD_SECONDS = 300.0
# A timer may fire a little before its time.
_TIMER_SLACK_SECONDS = 0.1

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Frame:
    update: NodeStateUpdate
    received_at: float


@dataclass(frozen=True)
class _Mark:
    """A word of the drain about its machine."""

    phase: Literal["Draining", "Drained"]
    error: str = ""


class NodeStates:
    """The operator is the only writer of UpcomingNodes, so it remembers what it wrote instead of reading it back.

    A record that another writer touched shows as a conflict or as missing; then it is read again.
    `on_recovered(node)` opens a node whose machine came back from Draining to Configured. Until that has held, the
    record does not say Ready: a failure is tried again, and a crash in between is made good by the next operator.
    """

    def __init__(
        self,
        kube: KubeClient,
        metrics: OperatorMetrics,
        cluster_id: str,
        *,
        on_recovered: Callable[[str], Awaitable[None]],
        failed_record_seconds: float = FAILED_RECORD_SECONDS,
    ) -> None:
        self._kube = kube
        self._metrics = metrics
        self._cluster_id = cluster_id
        self._on_recovered = on_recovered
        self._failed_record_seconds = failed_record_seconds
        # By machine, and by the node that a machine became.
        self._records: Store[Object] = Store({_OF_NODE: upcoming.node_of})
        self._frames: dict[str, _Frame] = {}
        self._marks: dict[str, _Mark] = {}
        self._last_state: dict[str, int] = {}
        self._expires_at: dict[str, float] = {}
        # Machines for which a blob was asked and of which nothing has been heard since, oldest first.
        self._untold: dict[str, float] = {}
        metrics.untold_oldest.set_function(self._untold_seconds)
        self._mentioned: set[str] = set()
        # Resyncs in a row that named no machine although there are records.
        self._silences = 0
        self._queue = WorkQueue("node-states", self._reconcile, concurrency=_CONCURRENCY)

    async def load(self) -> None:
        """Learn the records that an earlier operator left."""
        records, _ = await self._kube.list(UPCOMING_NODES)
        for record in records:
            machine = upcoming.machine_of(record)
            self._records.put(machine, record)
            if upcoming.phase_of(record) == "Failed":
                self._expire_later(machine)

    async def run(self) -> None:
        await self._queue.run()

    def expect(self, machine: str) -> None:
        """The shard wants to make this machine a node of ours."""
        self._untold.pop(machine, None)
        self._untold[machine] = time.monotonic()

    def _untold_seconds(self) -> float:
        now = time.monotonic()
        since = next((at for at in list(self._untold.values()) if at > now - _UNTOLD_SECONDS), now)
        return now - since

    def hear(self, update: NodeStateUpdate) -> None:
        """Take a frame that the shard sent."""
        self._untold.pop(update.machine_id, None)
        if update.removed and self._is_configured(update):
            self._metrics.removed_in_service.inc()
        self.receive(update)

    def receive(self, update: NodeStateUpdate) -> None:
        """Take a frame; it replaces an older one of the same machine that has not been written yet."""
        if update.cluster_id not in ("", self._cluster_id):
            log.warning("frame of another cluster ignored", machine=update.machine_id, cluster=update.cluster_id)
            return
        known = update.machine_id in self._frames or self._records.get(update.machine_id) is not None
        if not known and not update.removed:
            self._metrics.machines_announced.inc()
        self._mentioned.add(update.machine_id)
        self._frames[update.machine_id] = _Frame(update, asyncio.get_running_loop().time())
        self._queue.add(update.machine_id)

    def begin_session(self) -> None:
        """From here on, note which machines the shard speaks of."""
        self._mentioned.clear()

    def end_resync(self) -> bool:
        """The shard has told the state of every machine of ours; drop the records of machines it no longer knows.

        False for a resync that names none of them: losing every node on one empty answer is never right, so the
        shard is to be asked again, and believed when it has said so a few times in a row.
        """
        forgotten = self._records.keys() - self._mentioned
        self._silences = self._silences + 1 if forgotten and not self._mentioned else 0
        if 0 < self._silences < _CONFIRMATIONS:
            log.warning("the shard names none of our machines", records=len(forgotten), times=self._silences)
            return False
        self._silences = 0
        if forgotten:
            log.info("records of machines that left while we were away", count=len(forgotten))
        for machine in forgotten:
            self.receive(NodeStateUpdate(machine_id=machine, removed=True))
        return True

    def mark(self, machine: str, phase: Literal["Draining", "Drained"], error: str = "") -> None:
        """Show a drain's progress on its machine's record."""
        self._marks[machine] = _Mark(phase, error)
        self._queue.add(machine)

    def find(self, name: str) -> tuple[str | None, str]:
        """(machine, node) for a machine id or a node name; the machine is None when we have no record of it."""
        record = self._records.get(name)
        if record:
            return name, upcoming.node_of(record) or name
        of_node = self._records.by(_OF_NODE, name)
        return upcoming.machine_of(of_node[0]) if of_node else None, name

    def _is_configured(self, update: NodeStateUpdate) -> bool:
        """Whether a machine is Configured by this frame, or was by the one before it."""
        frame = self._frames.get(update.machine_id)
        before = frame.update.state if frame else self._last_state.get(update.machine_id)
        return provider_pb2.CONFIGURED in (update.state, before)

    async def _reconcile(self, machine: str) -> None:
        with self._metrics.dispatch_inflight.track_inprogress():
            frame = self._frames.get(machine)
            if frame:
                phase = await self._persist(machine, lambda: self._apply(machine, frame.update))
                self._metrics.node_state_update.labels(phase).observe(
                    asyncio.get_running_loop().time() - frame.received_at
                )
                if self._frames.get(machine) is frame:
                    del self._frames[machine]
            mark = self._marks.get(machine)
            if mark:
                await self._persist(machine, lambda: self._apply_mark(machine, mark))
                if self._marks.get(machine) is mark:
                    del self._marks[machine]
            if machine in self._expires_at and asyncio.get_running_loop().time() >= self._expires_at[machine]:
                await self._delete(machine)

    async def _persist(self, machine: str, write: Callable[[], Awaitable[str]]) -> str:
        for _ in range(_CONFLICT_TRIES - 1):
            try:
                return await write()
            except (AlreadyExists, Conflict, NotFound):
                await self._read_again(machine)
        return await write()

    async def _apply(self, machine: str, frame: NodeStateUpdate) -> str:
        """Bring the record to what the frame says; returns the phase it stands for."""
        record = self._records.get(machine)
        stored = upcoming.phase_of(record)
        phase = upcoming.next_phase(stored, frame)
        if phase is None:
            await self._delete(machine)
            return "Drained"
        if record is None:
            record = await self._counted(
                "create", self._kube.create(UPCOMING_NODES, upcoming.new_record(machine, frame))
            )
            self._records.put(machine, record)
        elif spec := upcoming.spec_changes(record["spec"], upcoming.wanted_spec(frame)):
            record = await self._patch(machine, "spec_update", {"spec": spec})
        if (
            phase == "Ready"
            and stored in upcoming.LEAVING
            and self._last_state.get(machine) in (None, provider_pb2.DRAINING)
        ):
            await self._on_recovered(upcoming.node_of(record) or machine)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = upcoming.status_changes(record.get("status") or {}, phase, frame, now)
        if status:
            record = await self._patch(machine, "status_update", {"status": status})
        else:
            self._count("status_update", "noop")
        if not upcoming.is_as_told(record, frame):
            self._metrics.records_not_as_told.inc()
        if phase == "Failed":
            self._expire_later(machine)
        else:
            self._expires_at.pop(machine, None)
        self._last_state[machine] = frame.state
        return phase

    async def _apply_mark(self, machine: str, mark: _Mark) -> str:
        status = (self._records.get(machine) or {}).get("status")
        if not status or (mark.phase == "Drained" and status["phase"] != "Draining"):
            return ""
        wanted = {"phase": mark.phase} | ({"lastError": mark.error} if mark.error else {})
        changes = {key: value for key, value in wanted.items() if status.get(key) != value}
        if changes:
            await self._patch(machine, "status_update", {"status": changes})
        return mark.phase

    async def _patch(self, machine: str, op: Literal["spec_update", "status_update"], body: Object) -> Object:
        subresource = "status" if op == "status_update" else None
        record: Object = await self._counted(
            op, self._kube.patch(UPCOMING_NODES, upcoming.record_name(machine), body, subresource=subresource)
        )
        self._records.put(machine, record)
        return record

    async def _delete(self, machine: str) -> None:
        if machine in self._records:
            try:
                await self._kube.delete(UPCOMING_NODES, upcoming.record_name(machine))
                self._count("delete", "success")
            except NotFound:
                self._count("delete", "noop")
            except KubeError:
                self._count("delete", "error")
                raise
        else:
            self._count("delete", "noop")
        self._records.pop(machine)
        self._expires_at.pop(machine, None)
        self._last_state.pop(machine, None)

    async def _read_again(self, machine: str) -> None:
        try:
            self._records.put(machine, await self._kube.get(UPCOMING_NODES, upcoming.record_name(machine)))
        except NotFound:
            self._records.pop(machine)

    def _expire_later(self, machine: str) -> None:
        self._expires_at[machine] = asyncio.get_running_loop().time() + self._failed_record_seconds
        self._queue.add_after(machine, self._failed_record_seconds + _TIMER_SLACK_SECONDS)

    async def _counted(self, op: str, request: Awaitable[Any]) -> Any:
        try:
            answer = await request
        except (AlreadyExists, Conflict, NotFound):
            self._count(op, "conflict")
            raise
        except KubeError:
            self._count(op, "error")
            raise
        self._count(op, "success")
        return answer

    def _count(self, op: str, outcome: str) -> None:
        self._metrics.upcoming_node_writes.labels(op, outcome).inc()
