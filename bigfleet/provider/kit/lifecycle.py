"""Mutating calls: checked in the contract's order, accepted at once, carried out in the background."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import structlog

from bigfleet.core.machines import TRANSITIONAL, CapacityType, MachineState
from bigfleet.provider.kit.backend import Backend, Deleter, ReadinessChecker
from bigfleet.provider.kit.entries import Flight
from bigfleet.provider.kit.errors import IllegalTransition, InvalidArgument, TransitionFailed, Unsupported
from bigfleet.provider.kit.metrics import ProviderMetrics
from bigfleet.provider.kit.records import MachineRecord
from bigfleet.provider.kit.state import State
from bigfleet.provider.kit.transitions import RECOVERY, TRANSITIONS, Kind, Timeouts
from bigfleet.rpc.fencing import FencingToken

# Does a transition's work and returns what changes in the record besides its state.
Work = Callable[[], Awaitable[dict[str, Any]]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Mutation:
    """A mutating RPC, whichever of the four. Fields that its kind does not have stay empty."""

    kind: Kind
    machine_id: str
    token: FencingToken
    cluster: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    bootstrap_blob: bytes = b""
    grace_seconds: int = 0


class Lifecycle:
    """Moves machines. Use as an async context manager: leaving it abandons what is in flight."""

    def __init__(
        self,
        state: State,
        backend: Backend,
        timeouts: Timeouts,
        metrics: ProviderMetrics,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._inventory = state.inventory
        self._backend = backend
        self._readiness = backend if isinstance(backend, ReadinessChecker) else None
        self._deleter = backend if isinstance(backend, Deleter) else None
        self._timeouts = timeouts
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._waiting: set[str] = set()
        metrics.waiting_for_node.set_function(lambda: len(self._waiting))
        metrics.in_flight.set_function(lambda: len(self._in_flight))
        if self._readiness is None:
            log.warning("this backend cannot see nodes: Configured does not mean that a node is Ready (BF-0056)")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def mutate(self, call: Mutation) -> tuple[str, MachineRecord]:
        """Accept a call: its operation id and the machine as it stands now. Raises ProviderError.

        Nothing here awaits, so calls for one machine are taken one after the other.
        """
        _validate(call)
        self._state.fences.admit(call.token, call.machine_id)
        machine = self._inventory.get(call.machine_id)
        if _already_there(call, machine):
            return self._state.operations.get(call.machine_id, call.kind), machine
        if call.kind is Kind.DELETE and self._deleter is None:
            raise Unsupported("this provider gives no machine back")
        _check_position(call, machine)
        self._backend.admit(call.kind, machine)
        return self._accept(call, machine)

    def resume(self) -> list[MachineRecord]:
        """Go on with what a former life of this provider left in flight; call it once, before anything else.

        Returns the machines that were Configuring although no caller asked for it: they are held (see `release`).
        """
        held = []
        for machine_id in [name for state in TRANSITIONAL for name in sorted(self._inventory.ids(state))]:
            machine = self._inventory.get(machine_id)
            flight = self._state.flights.get(machine_id)
            if flight is not None:
                self._launch(machine, flight, timed=False)
                log.info("transition goes on", kind=flight.kind, machine=machine_id)
            else:
                self._waiting.add(machine_id)
                held.append(machine)
        return held

    def release(self, machine_id: str) -> None:
        """From now on the node of a held machine has the Configure time-out to become Ready.

        No caller asked for this transition, so the metric does not count its duration.
        """
        machine = self._inventory.get(machine_id)
        if machine_id in self._waiting and machine_id not in self._in_flight:
            work = partial(self._until_ready, machine)
            self._start(Kind.CONFIGURE, machine, work, self._timeouts.configure_seconds, timed=False)

    def lose(self, machine_id: str, error: str) -> MachineRecord:
        """The machine is gone, whatever it was doing: Failed, without host and binding."""
        machine = self._inventory.get(machine_id)
        self._abandon(machine_id)
        return self._inventory.put(
            replace(
                machine,
                state=MachineState.FAILED,
                host="",
                cluster="",
                metadata={},
                last_error=error,
                failed_in=None,
            )
        )

    def vanish(self, machine_id: str) -> None:
        """The machine is no longer there at all; deltas carry its tombstone."""
        self._inventory.get(machine_id)
        self._abandon(machine_id)
        self._inventory.remove(machine_id)

    def _abandon(self, machine_id: str) -> None:
        if task := self._in_flight.pop(machine_id, None):
            task.cancel()
        self._waiting.discard(machine_id)
        self._state.flights.end(machine_id)

    def _accept(self, call: Mutation, machine: MachineRecord) -> tuple[str, MachineRecord]:
        operation = self._state.operations.new(call.machine_id, call.kind)
        through = TRANSITIONS[call.kind].through
        machine = replace(machine, state=through, last_error="", failed_in=None, operation=operation)
        if call.kind is Kind.CONFIGURE:
            machine = replace(machine, cluster=call.cluster, metadata=dict(call.metadata))
        elif call.kind is Kind.DELETE:
            machine = replace(machine, cluster="", metadata={})
        self._inventory.put(machine)
        deadline = self._wall_clock() + self._timeouts.seconds(call.kind, call.grace_seconds)
        flight = Flight(machine.id, call.kind, deadline, call.grace_seconds, call.bootstrap_blob)
        self._state.flights.begin(flight)
        self._metrics.accepted(call.kind)
        self._launch(machine, flight, timed=True)
        return operation, machine

    def _launch(self, machine: MachineRecord, flight: Flight, *, timed: bool) -> None:
        kind = Kind(flight.kind)
        seconds = flight.deadline - self._wall_clock()
        if not timed:
            # Time went by while no provider process ran to do the work, and nodes must be reported to us again.
            seconds = max(seconds, self._timeouts.resumed_seconds)
        # A clock that was set back must not make a time-out of days.
        seconds = min(seconds, self._timeouts.seconds(kind, flight.grace_seconds))
        self._start(kind, machine, partial(self._carry_out, kind, flight, machine), seconds, timed=timed)

    def _start(self, kind: Kind, machine: MachineRecord, work: Work, seconds: float, *, timed: bool) -> None:
        driving = self._drive(kind, machine, work, seconds, timed)
        self._in_flight[machine.id] = asyncio.create_task(driving, name=f"{kind} {machine.id}")

    async def _carry_out(self, kind: Kind, flight: Flight, machine: MachineRecord) -> dict[str, Any]:
        match kind:
            case Kind.CREATE:
                return {"host": await self._backend.create(machine)}
            case Kind.CONFIGURE:
                await self._backend.configure(machine, flight.bootstrap_blob)
                return await self._until_ready(machine)
            case Kind.DRAIN:
                await self._backend.drain(machine, flight.grace_seconds)
                return {"cluster": "", "metadata": {}}
            case Kind.DELETE:
                if self._deleter is not None:
                    await self._deleter.delete(machine)
                return {"host": ""}

    async def _until_ready(self, machine: MachineRecord) -> dict[str, Any]:
        if self._readiness:
            self._waiting.add(machine.id)
            await self._readiness.confirm_node_ready(machine)
        return {}

    async def _drive(self, kind: Kind, machine: MachineRecord, work: Work, timeout_seconds: float, timed: bool) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(timeout_seconds) as deadline:
                changes = await work()
            landed = replace(machine, state=TRANSITIONS[kind].target, **changes)
        except TransitionFailed as error:
            landed = _failed(machine, kind, str(error))
        except TimeoutError:
            waiting = " while waiting for its node to be Ready" if machine.id in self._waiting else ""
            reason = f"timed out after {round(timeout_seconds, 1):g} s{waiting}" if deadline.expired() else "timed out"
            landed = _failed(machine, kind, reason)
        except Exception as error:
            log.exception("backend error", kind=kind, machine=machine.id)
            landed = _failed(machine, kind, f"{type(error).__name__}: {error}")
        if self._in_flight.get(machine.id) is not asyncio.current_task():
            return  # lost in the meantime: what became of this transition is no news any more
        del self._in_flight[machine.id]
        self._waiting.discard(machine.id)
        self._state.flights.end(machine.id)
        # What the machine looks like may have been described anew meanwhile.
        self._inventory.put(replace(landed, shape=self._inventory.get(machine.id).shape))
        if landed.state is MachineState.FAILED:
            self._metrics.failed(kind)
            log.warning("machine failed", machine=machine.id, error=landed.last_error)
        elif timed:
            self._metrics.landed(kind, loop.time() - started)


def _validate(call: Mutation) -> None:
    if not call.machine_id:
        raise InvalidArgument("machine_id is empty")
    if call.kind is Kind.CONFIGURE and not call.cluster:
        raise InvalidArgument("cluster_id is empty")
    for name, value in (
        ("shard_epoch", call.token.epoch),
        ("sequence_number", call.token.sequence),
        ("grace_period_seconds", call.grace_seconds),
    ):
        if value < 0:
            raise InvalidArgument(f"{name} is {value}, it must not be negative")


def _already_there(call: Mutation, machine: MachineRecord) -> bool:
    edge = TRANSITIONS[call.kind]
    if machine.state not in (edge.through, edge.target):
        return False
    # An ack would tell the caller that the machine is on its way to the wrong cluster's pods.
    return call.kind is not Kind.CONFIGURE or call.cluster == machine.cluster


def _check_position(call: Mutation, machine: MachineRecord) -> None:
    bare_metal = machine.shape.capacity_type is CapacityType.BARE_METAL
    if call.kind is Kind.DELETE and bare_metal:
        raise Unsupported(f"machine {machine.id!r} is bare metal and cannot be deleted")
    if machine.state is MachineState.FAILED:
        lost_for_good = bare_metal and machine.failed_in is None
        if call.kind in RECOVERY[machine.failed_in] and not lost_for_good:
            return
        raise IllegalTransition(f"machine {machine.id!r} is Failed ({machine.last_error}) and cannot {call.kind}")
    if machine.state is not TRANSITIONS[call.kind].source:
        bound = f" for cluster {machine.cluster!r}" if machine.cluster else ""
        raise IllegalTransition(f"machine {machine.id!r} is {machine.state.label}{bound} and cannot {call.kind}")


def _failed(machine: MachineRecord, kind: Kind, reason: str) -> MachineRecord:
    return replace(machine, state=MachineState.FAILED, last_error=f"{kind}: {reason}", failed_in=kind)
