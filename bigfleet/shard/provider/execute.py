"""Execution: one action in flight per machine, from the shard's own move until the provider's word ends it.

See docs/reference/engine.md#execution.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import structlog

from bigfleet.api.v1alpha1 import provider_pb2
from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.requirements import Requirement
from bigfleet.engine import TRANSITION_OF, Action, ActionKind
from bigfleet.shard.convert import BadMachine, binding_of, machine_from_wire, metadata_from_assignment
from bigfleet.shard.inventory.inventory import Inventory, Rejected
from bigfleet.shard.metrics import ActionOutcome, ShardMetrics
from bigfleet.shard.notices import Notices
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.provider.backoff import Backoff
from bigfleet.shard.provider.client import MachineCalls, ProviderError
from bigfleet.shard.provider.quotas import FullSlice
from bigfleet.shard.sessions.needs import NeedsTable
from bigfleet.shard.sessions.questions import NoSession
from bigfleet.shard.sessions.sessions import BlobRefused

log = structlog.get_logger()

_BLOB_TIMEOUT_SECONDS = 30.0
# Longer than any provider lets a transition take: it says Failed itself, and we believe it.
_ATTEMPT_TIMEOUT_SECONDS = 900.0
# What a machine gets for its own shutdown when its pods took the whole grace.
_SHUTDOWN_SECONDS = 30
# Actions that have not been acknowledged; what is dropped beyond that, the next cycle decides again.
_QUEUE_LIMIT = 10_000


# What is asked of a cluster's operator.
_WORD = dict.fromkeys(ActionKind, "report of the drain") | {ActionKind.BOOTSTRAP: "bootstrap blob"}


class Operators(Protocol):
    """What an action needs of the clusters' operators."""

    def connected(self, cluster: str) -> bool: ...
    async def request_blob(self, cluster: str, machine_id: str, requirements: Sequence[Requirement]) -> bytes: ...
    async def drain(self, cluster: str, nodes: Sequence[str], grace_seconds: int, preemptor_priority: int) -> str: ...


class Disposal(Enum):
    """What became of an action that was handed over."""

    STARTED = auto()
    DEDUPED = auto()
    DROPPED = auto()
    REFUSED = auto()
    WAITING = auto()


@dataclass
class _Attempt:
    action: Action
    cycle: int
    # The machine before the shard moved it, to go back to.
    before: Machine
    idle_since: float | None
    in_flight: Machine
    started: float
    # The provider took the call; from here on its word decides.
    acknowledged: bool = False
    # Waits for the operator to empty the node; the provider knows nothing of it yet.
    emptying: bool = False
    task: asyncio.Task[None] | None = None


class Executor:
    """Carries actions out. What an action does to a machine is decided by the provider's word, never by its ack."""

    def __init__(
        self,
        inventory: Inventory,
        needs: NeedsTable,
        provider: MachineCalls,
        operators: Operators,
        notices: Notices,
        holds: Backoff,
        metrics: ShardMetrics,
        audit: AuditLog,
        concurrency: int,
        wake: Callable[[], None],
        owns: Callable[[Machine], bool],
        quota: Callable[[Machine], FullSlice | None],
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._inventory = inventory
        self._needs = needs
        self._provider = provider
        self._operators = operators
        self._notices = notices
        self._holds = holds
        self._metrics = metrics
        self._audit = audit
        self._slots = asyncio.Semaphore(concurrency)
        self._wake = wake
        self._owns = owns
        self._quota = quota
        self._monotonic = monotonic
        self._clock = clock
        self._attempts: dict[str, _Attempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._queued = 0
        # Machines whose call ended since this was last cleared: an older List answer about them is stale.
        self.called: set[str] = set()

    # --- from the cycle -----------------------------------------------------------------------------------------

    def submit(self, action: Action, cycle: int) -> Disposal:
        """Start an action unless its machine is busy, held, or no longer where the engine saw it."""
        kind, machine_id = action.kind, action.machine_id
        start, through, _ = TRANSITION_OF[kind]
        machine = self._inventory.machines.get(machine_id)
        if machine is None or machine.state is not start or machine_id in self._attempts:
            return Disposal.DEDUPED
        if not self._owns(machine):
            return Disposal.DEDUPED  # its domain was taken from us while the engine decided
        if self._holds.held(machine_id) or (kind is ActionKind.DELETE and machine_id in self._inventory.undeletable):
            return Disposal.DEDUPED
        if self.waits(action):
            return Disposal.WAITING
        if len(self._tasks) >= _QUEUE_LIMIT:
            return Disposal.DROPPED
        refusal = self._refusal(action, machine)
        if refusal:
            self._count(action, cycle, refusal)
            return Disposal.REFUSED
        idle_since = self._inventory.machines.idle_since(machine_id)
        cluster, assignment = binding_of(action, machine)
        in_flight = self._inventory.move(machine_id, through, cluster, assignment)
        attempt = _Attempt(action, cycle, machine, idle_since, in_flight, self._monotonic())
        self._attempts[machine_id] = attempt
        attempt.task = asyncio.create_task(self._run(attempt))
        self._tasks.add(attempt.task)
        attempt.task.add_done_callback(self._tasks.discard)
        return Disposal.STARTED

    def _refusal(self, action: Action, machine: Machine) -> ActionOutcome | None:
        if action.kind in (ActionKind.BOOTSTRAP, ActionKind.PROVISION) and action.profile is None:
            return ActionOutcome.MISSING_PROFILE
        # Without its operator there is no blob: the machine need not even start.
        if action.kind is ActionKind.BOOTSTRAP and not self._operators.connected(action.cluster):
            return ActionOutcome.NO_SESSION
        if action.kind is ActionKind.PROVISION and (full := self._quota(machine)):
            self._wake()  # the engine looks elsewhere: it does not see the machines of a full quota
            log.warning("not created: the quota is full", machine=machine.id, quota=str(full.slice), taken=full.taken)
            return ActionOutcome.QUOTA
        return None

    def waits(self, action: Action) -> bool:
        """Whether it is not to begin yet: a voluntary drain needs the word of the cluster's operator (ADR-36)."""
        return action.kind is ActionKind.RECLAIM and not self._operators.connected(action.cluster)

    def busy(self, machine_id: str) -> bool:
        """Whether our own call for this machine is on its way, so that what a List says of it is no news."""
        attempt = self._attempts.get(machine_id)
        return attempt is not None and not attempt.acknowledged

    def overtake(self, machine_id: str, state: MachineState | None) -> None:
        """The provider moved a machine on (None: removed it) while we emptied its node: nothing is left to drain."""
        attempt = self._attempts.get(machine_id)
        if attempt and attempt.emptying and attempt.task and state is not attempt.before.state:
            attempt.task.cancel()
            self._finish(attempt, ActionOutcome.STALE_STATE)

    def observed(self, before: Machine | None, after: Machine | None) -> None:
        """The provider's word on a machine: it may end an attempt."""
        machine = after or before
        attempt = self._attempts.get(machine.id) if machine else None
        outcome = _outcome(attempt, after) if attempt else None
        if attempt and outcome:
            self._finish(attempt, outcome)
            self._wake()

    def give_up_overdue(self) -> None:
        """Count attempts that never ended. The machine stays where the provider says it is."""
        overdue = self._monotonic() - _ATTEMPT_TIMEOUT_SECONDS
        for attempt in [a for a in self._attempts.values() if a.acknowledged and a.started < overdue]:
            log.error("action overdue", kind=attempt.action.kind, machine=attempt.action.machine_id)
            self._finish(attempt, ActionOutcome.CTX_CANCELED)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- one attempt --------------------------------------------------------------------------------------------

    async def _run(self, attempt: _Attempt) -> None:
        try:
            answer = await self._perform(attempt)
        except NoSession:
            self._release(attempt, ActionOutcome.NO_SESSION, "the operator left and did not come back")
        except TimeoutError:
            reason = f"the operator sent no {_WORD[attempt.action.kind]} in time"
            self._release(attempt, ActionOutcome.CTX_CANCELED, reason)
        except BlobRefused as error:
            self._release(attempt, ActionOutcome.BLOB_ERROR, str(error))
        except ProviderError as error:
            self._refused(attempt, error)
        except Exception as error:
            log.exception("action broke", kind=attempt.action.kind, machine=attempt.action.machine_id)
            self._release(attempt, ActionOutcome.OTHER, repr(error))
        else:
            self._accepted(attempt, answer)

    async def _perform(self, attempt: _Attempt) -> provider_pb2.Machine | None:
        action, machine_id = attempt.action, attempt.action.machine_id
        match action.kind:
            case ActionKind.BOOTSTRAP:
                blob = await self._blob(action)
                metadata = metadata_from_assignment(attempt.in_flight.assignment)
                async with self._slot():
                    return await self._provider.configure(machine_id, action.cluster, blob, metadata)
            case ActionKind.PROVISION:
                async with self._slot():
                    return await self._provider.create(machine_id)
            case ActionKind.DELETE:
                async with self._slot():
                    return await self._provider.delete(machine_id)
            case _:
                grace = await self._empty_node(attempt)
                async with self._slot():
                    return await self._provider.drain(machine_id, grace)

    async def _blob(self, action: Action) -> bytes:
        requirements = action.profile.requirements if action.profile else ()
        asked = self._monotonic()
        async with asyncio.timeout(_BLOB_TIMEOUT_SECONDS):
            blob = await self._operators.request_blob(action.cluster, action.machine_id, requirements)
        self._metrics.request_bootstrap.observe(self._monotonic() - asked)
        return blob

    async def _empty_node(self, attempt: _Attempt) -> int:
        """Let the operator evict the pods, up to the grace; the seconds that are left for the provider.

        Without the operator's word a Preempt goes on, because somebody waits for the machine. A Reclaim does not: it
        raises NoSession or TimeoutError.
        """
        action = attempt.action
        self._notices.tell(attempt.in_flight)
        began = self._monotonic()
        attempt.emptying = True
        try:
            async with asyncio.timeout(action.grace_seconds):
                node = self._notices.node_name(action.machine_id)
                error = await self._operators.drain(
                    action.cluster, [node], action.grace_seconds, action.preemptor_priority
                )
            if error:
                log.warning("drain incomplete", machine=action.machine_id, cluster=action.cluster, error=error)
        except (NoSession, TimeoutError) as silence:
            if action.kind is ActionKind.RECLAIM:
                raise
            outlasted = isinstance(silence, TimeoutError)
            text = "drain outlasted its grace" if outlasted else "drain without operator"
            log.warning(text, machine=action.machine_id, cluster=action.cluster)
        attempt.emptying = False
        left = int(action.grace_seconds - (self._monotonic() - began))
        return max(left, min(action.grace_seconds, _SHUTDOWN_SECONDS))

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the provider calls that may run at the same time."""
        self._queued += 1
        self._metrics.action_queue_depth.set(self._queued)
        try:
            await self._slots.acquire()
        finally:
            self._queued -= 1
            self._metrics.action_queue_depth.set(self._queued)
        try:
            with self._metrics.execute_inflight.track_inprogress():
                yield
        finally:
            self._slots.release()

    # --- its end ------------------------------------------------------------------------------------------------

    def _accepted(self, attempt: _Attempt, answer: provider_pb2.Machine | None) -> None:
        machine_id = attempt.action.machine_id
        attempt.acknowledged = True
        self.called.add(machine_id)
        self._holds.accepted(attempt.action.kind, attempt.in_flight.cluster)
        if answer is not None:
            try:
                self._inventory.observe(machine_from_wire(answer))
            except BadMachine as error:
                self._reject("structural", error)
            except Rejected as error:
                self._reject(error.reason, error)
        machine = self._inventory.machines.get(machine_id)
        if machine:
            self._notices.tell(machine)

    def _refused(self, attempt: _Attempt, error: ProviderError) -> None:
        action = attempt.action
        self.called.add(action.machine_id)
        if error.fenced:
            log.error("fenced: another shard runs with our id", machine=action.machine_id, error=str(error))
            self._restore(attempt)
            self._holds.bar(action.kind, action.machine_id)
            self._finish(attempt, ActionOutcome.FENCED)
        elif error.terminal and action.kind is ActionKind.DELETE:
            self._inventory.undeletable.add(action.machine_id)
            self._restore(attempt)
            self._finish(attempt, ActionOutcome.PROVIDER_ERROR)
        else:
            # The call may have arrived all the same: ask where the machine stands. Even a call that will always be
            # refused, as for a cluster's impossible blob, says nothing of the machine: Failed is the provider's word.
            self._inventory.doubtful.add(action.machine_id)
            self._release(attempt, ActionOutcome.PROVIDER_ERROR, str(error))

    def _release(self, attempt: _Attempt, outcome: ActionOutcome, reason: str) -> None:
        """Back to the last stable state, to be tried again after a while."""
        action = attempt.action
        log.warning("action released", kind=action.kind, machine=action.machine_id, outcome=outcome, reason=reason)
        self._restore(attempt)
        self._holds.refuse(action.kind, attempt.in_flight)
        self._finish(attempt, outcome)

    def _restore(self, attempt: _Attempt) -> None:
        self._inventory.restore(attempt.before, attempt.idle_since)
        self._notices.tell(attempt.before)

    def _finish(self, attempt: _Attempt, outcome: ActionOutcome) -> None:
        action = attempt.action
        del self._attempts[action.machine_id]
        self._count(action, attempt.cycle, outcome)
        if outcome in (ActionOutcome.RACED_TO_IDLE, ActionOutcome.TRANSITION_ERROR):
            self._holds.refuse(action.kind, attempt.in_flight)
        if outcome is not ActionOutcome.SUCCESS:
            return
        self._holds.forget(action.machine_id)
        seconds = self._monotonic() - attempt.started
        match action.kind:
            case ActionKind.BOOTSTRAP:
                self._metrics.configure_phase.observe(seconds)
                self._observe_first_machine(attempt.in_flight)
            case ActionKind.PROVISION:
                self._metrics.create_phase.observe(seconds)
            case ActionKind.DELETE:
                self._metrics.idle_releases.inc()
            case _:
                self._metrics.drain_phase.observe(seconds)

    def _observe_first_machine(self, machine: Machine) -> None:
        since = self._needs.first_machine(machine.cluster, machine.assignment.fingerprint)
        if since is not None:
            self._metrics.provisioning_latency.observe(max(0.0, self._clock() - since))

    def _count(self, action: Action, cycle: int, outcome: ActionOutcome) -> None:
        self._metrics.outcomes.labels(action.kind, outcome).inc()
        self._audit.record(cycle, action, outcome)

    def _reject(self, reason: str, error: Exception) -> None:
        self._metrics.machines_rejected.labels(reason).inc()
        log.error("machine rejected", error=str(error))


def _outcome(attempt: _Attempt, after: Machine | None) -> ActionOutcome | None:
    """How the provider's word ends an attempt; None while the machine is still on its way."""
    _, through, target = TRANSITION_OF[attempt.action.kind]
    if after is None or after.state is MachineState.FAILED:
        return ActionOutcome.PROVIDER_ERROR
    if after.state is through:
        return None
    if after.state is target:
        return ActionOutcome.SUCCESS
    if after.state is attempt.before.state:
        return ActionOutcome.RACED_TO_IDLE if after.state is MachineState.IDLE else ActionOutcome.TRANSITION_ERROR
    return ActionOutcome.OTHER
