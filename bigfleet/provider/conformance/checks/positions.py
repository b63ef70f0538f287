"""Calls for which a machine that is on its way has no place (docs/reference/wire.md#order-of-checks)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Bench
from bigfleet.provider.conformance.checks.fields import unsound
from bigfleet.provider.conformance.client import Answer
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState
_TRIES = 5
# A machine may land while a call is under way, and be right to take it: once proves nothing.
_TIMES = 2
_TRACE = {"conformance/out-of-turn": "x"}

Call = Callable[[str], Awaitable[Answer]]


@dataclass(frozen=True)
class _Way:
    """A transition, and the call that comes too early."""

    begin: Call
    source: MachineState
    through: MachineState
    target: MachineState
    seconds: float
    out_of_turn: Call


@check
async def configure_while_creating(bench: Bench) -> None:
    """Configure of a machine that is being created is refused, not as fenced, and leaves no trace (B201–215)."""

    def configure(machine_id: str) -> Awaitable[Answer]:
        return bench.configure(machine_id, _TRACE)

    way = _Way(bench.create, S.SPECULATIVE, S.CREATING, S.IDLE, bench.limits.create_seconds, configure)
    await _refused_on_the_way(bench, way)


@check
async def drain_while_configuring(bench: Bench) -> None:
    """Drain of a machine that is being configured is refused, not as fenced, and does not turn it back (B201–215)."""
    seconds = bench.limits.configure_seconds
    way = _Way(bench.configure, S.IDLE, S.CONFIGURING, S.CONFIGURED, seconds, bench.drain)
    await _refused_on_the_way(bench, way)


@check
async def delete_while_draining(bench: Bench) -> None:
    """Delete of a machine that is being drained is refused, not as fenced; it lands IDLE with its host (B201–215)."""
    seconds = bench.limits.drain_seconds
    way = _Way(bench.drain, S.CONFIGURED, S.DRAINING, S.IDLE, seconds, bench.delete)
    await _refused_on_the_way(bench, way)


async def _refused_on_the_way(bench: Bench, way: _Way) -> None:
    """The second call is refused, and the machine lands as if there had been none.

    A call that is accepted is held against the provider only if the machine must have been on its way: by the ack's own
    word, or because the answer came, more than once, long before an undisturbed machine lands.
    """
    shown_seconds = await _shown_seconds(bench, way)
    early = 0
    for _ in range(_TRIES):
        machine_id = await bench.machine(way.source)
        (await way.begin(machine_id)).accepted()
        began = time.monotonic()
        answer = await way.out_of_turn(machine_id)
        took = time.monotonic() - began
        if answer.unimplemented:
            raise NotApplicable("the provider does not delete machines")
        if not answer.ok:
            answer.refused_but_not_fenced()
            landed = await bench.until(machine_id, way.target, seconds=way.seconds)
            if problem := unsound(landed):
                raise Broken(problem)
            return
        early = early + 1 if took < shown_seconds / 2 else 0
        if early == _TIMES or _still(answer, way):
            raise Broken(f"{answer.call} must be refused while {machine_id} is {way.through.name}, it was accepted")
    raise NotApplicable(f"the provider is too quick: no second call finds a machine that is still {way.through.name}")


async def _shown_seconds(bench: Bench, way: _Way) -> float:
    """How long, at least, a machine is on its way if no other call disturbs it; 0 if it was not seen there."""
    if way.target is S.CONFIGURED and bench.nodes.ours:
        return math.inf  # until we say that its node is Ready
    machine_id = await bench.machine(way.source)
    (await way.begin(machine_id)).accepted()
    began = time.monotonic()
    seen, pause = 0.0, FIRST_PAUSE_SECONDS
    while seen < way.seconds:
        asked = time.monotonic()
        if (await bench.get(machine_id)).state != way.through:
            break
        seen = asked - began
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    await bench.until(machine_id, way.target, seconds=way.seconds)
    return seen


def _still(answer: Answer, way: _Way) -> bool:
    ack = answer.message
    return bool(ack.HasField("machine") and ack.machine.state == way.through)
