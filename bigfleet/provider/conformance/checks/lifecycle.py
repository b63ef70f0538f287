"""The way of a machine from slot to node and back (docs/reference/wire.md#provider-rpcs)."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby
from typing import Any

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.checks.fields import unsound
from bigfleet.provider.conformance.client import Answer
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState
_ROUND_TRIPS = 4
_GRACE_SECONDS = 10.0

# What leads from one stable state to the next, and the state in between.
Step = tuple[Callable[[str], Awaitable[Answer]], MachineState, MachineState, float]


def _steps(bench: Bench) -> list[Step]:
    limits = bench.limits
    return [
        (bench.create, S.CREATING, S.IDLE, limits.create_seconds),
        (bench.configure, S.CONFIGURING, S.CONFIGURED, limits.configure_seconds),
        (bench.drain, S.DRAINING, S.IDLE, limits.drain_seconds),
        (bench.delete, S.DELETING, S.SPECULATIVE, limits.delete_seconds),
    ]


@check
async def full_lifecycle(bench: Bench) -> None:
    """A Speculative machine is created, configured, drained and deleted, each in its time and with an operation_id;
    Delete may be UNIMPLEMENTED."""
    machine_id = await bench.machine(S.SPECULATIVE)
    for call, _, target, seconds in _steps(bench):
        answer = await call(machine_id)
        if answer.unimplemented and target is S.SPECULATIVE:
            return
        answer.operation()
        await bench.until(machine_id, target, seconds=seconds)


@check
async def transitional_state_observability(bench: Bench) -> None:
    """After Create, Get shows SPECULATIVE, CREATING or IDLE, and IDLE in time."""
    machine_id = await bench.machine(S.SPECULATIVE)
    (await bench.create(machine_id)).accepted()
    for machine in await bench.watch(machine_id, S.IDLE):
        if machine.state not in (S.SPECULATIVE, S.CREATING, S.IDLE):
            raise Broken(f"{machine_id} is being created and is {MachineState(machine.state).name}")


@check
async def only_the_right_states_on_the_way(bench: Bench) -> None:
    """A transition shows its own transitional state and no other, and never turns back (B101–109)."""
    machine_id = await bench.machine(S.SPECULATIVE)
    for call, through, target, seconds in _steps(bench):
        before = (await bench.get(machine_id)).state
        answer = await call(machine_id)
        if answer.unimplemented:
            return
        ack = answer.accepted()
        # What the answer itself shows: a transition may be over before the first look.
        shown: list[Any] = [ack.machine] if ack.HasField("machine") else []
        watched = [*shown, *await bench.watch(machine_id, target, seconds=seconds)]
        states = [state for state, _ in groupby(machine.state for machine in watched)]
        course = [int(before), int(through), int(target)]
        if [state for state in course if state in states] != states:
            went = " → ".join(MachineState(state).name for state in states)
            raise Broken(f"{machine_id} went {went}, not {MachineState(before).name} → {through.name} → {target.name}")


@check
async def host_and_cluster_per_state(bench: Bench) -> None:
    """At every step a machine has its id and the host and cluster that its state asks for (B101–109)."""
    machine_id = await bench.machine(S.SPECULATIVE)
    for call, _, target, seconds in _steps(bench):
        answer = await call(machine_id)
        if answer.unimplemented:
            return
        ack = answer.accepted()
        seen: list[Any] = [ack.machine] if ack.HasField("machine") else []
        for machine in [*seen, *await bench.watch(machine_id, target, seconds=seconds)]:
            if machine.id != machine_id:
                raise Broken(f"{machine_id} is called {machine.id!r} when it is {MachineState(machine.state).name}")
            if problem := unsound(machine):
                raise Broken(problem)


@check
async def round_trips_leave_no_residue(bench: Bench) -> None:
    """After four round trips a machine is what it was before them (B101–109)."""
    machine_id = await bench.machine(S.SPECULATIVE)
    before = await bench.get(machine_id)
    for _ in range(_ROUND_TRIPS):
        for call, _, target, seconds in _steps(bench):
            answer = await call(machine_id)
            if answer.unimplemented:
                raise NotApplicable("the provider does not delete machines: there is no way back")
            answer.accepted()
            await bench.until(machine_id, target, seconds=seconds)
    after = await bench.get(machine_id)
    for field in ("state", "host", "cluster", "shard_metadata", "last_error", "labels", "resources", "instance_type"):
        if getattr(after, field) != getattr(before, field):
            raise Broken(f"{field} of {machine_id} differs after {_ROUND_TRIPS} round trips")


@check
async def drain_grace_timeout(bench: Bench) -> None:
    """A Drain with no grace ends, in about 10 s, as IDLE or as FAILED with last_error; it is never stuck and never
    silently CONFIGURED again. A machine that FAILED comes back by the same call once more, which is a new
    operation and leaves no last_error (B705)."""
    machine_id = await bench.machine(S.CONFIGURED)
    operation = (await bench.drain(machine_id, grace_seconds=0)).operation()
    seconds = min(_GRACE_SECONDS, bench.limits.drain_seconds)
    machine = await bench.until(machine_id, S.IDLE, S.FAILED, seconds=seconds)
    if problem := unsound(machine):
        raise Broken(problem)
    if machine.state == S.FAILED:
        again = await bench.drain(machine_id)
        if again.operation() == operation:
            raise Broken(f"{again.call} of a FAILED machine has the operation {operation!r} of the Drain that failed")
        machine = await bench.until(machine_id, S.IDLE, seconds=bench.limits.drain_seconds)
        if machine.last_error:
            raise Broken(f"{machine_id} is IDLE again and still has the last_error {machine.last_error!r}")


@check
async def node_readiness(bench: Bench) -> None:
    """A machine is not CONFIGURED before its node is Ready in its cluster (BF-0056). Only a provider whose
    nodes we can make Ready (PhoneHome) can be judged."""
    if not bench.nodes.ours:
        raise NotApplicable("six RPCs do not show when a node is Ready, and the provider has no PhoneHome")
    machine_id = await bench.machine(S.IDLE)
    (await bench.configure(machine_id)).accepted()
    for _ in range(10):
        await asyncio.sleep(bench.limits.quiet_seconds / 10)
        if (await bench.get(machine_id)).state == S.CONFIGURED:
            raise Broken(f"{machine_id} is CONFIGURED although its node was never Ready")
    await bench.until(machine_id, S.CONFIGURED)
