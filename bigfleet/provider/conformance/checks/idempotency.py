"""The same call again is the same operation (docs/reference/wire.md#idempotency)."""

from collections.abc import Awaitable, Callable

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.client import Answer
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState


async def _twice(bench: Bench, call: Callable[[str], Awaitable[Answer]], source: S, target: S) -> None:
    """Two calls in a row have one operation id, and the machine lands."""
    machine_id = await bench.machine(source)
    first = await call(machine_id)
    if first.unimplemented and target is S.SPECULATIVE:
        raise NotApplicable("the provider does not delete machines")
    operation = first.operation()
    again = (await call(machine_id)).operation()
    if again != operation:
        raise Broken(f"{first.call} twice gave the operations {operation!r} and {again!r}")
    await bench.until(machine_id, target, seconds=bench.limits.until(target, drained=source is S.CONFIGURED))


@check
async def create_idempotent(bench: Bench) -> None:
    """Two Creates in a row have the same operation_id."""
    await _twice(bench, bench.create, S.SPECULATIVE, S.IDLE)


@check
async def configure_idempotent(bench: Bench) -> None:
    """Two Configures in a row have the same operation_id."""
    await _twice(bench, bench.configure, S.IDLE, S.CONFIGURED)


@check
async def drain_idempotent(bench: Bench) -> None:
    """Two Drains in a row have the same operation_id."""
    await _twice(bench, bench.drain, S.CONFIGURED, S.IDLE)


@check
async def delete_idempotent(bench: Bench) -> None:
    """Two Deletes in a row have the same operation_id."""
    await _twice(bench, bench.delete, S.IDLE, S.SPECULATIVE)


@check
async def no_op_at_target_keeps_the_operation(bench: Bench) -> None:
    """A call for a machine that is already where it leads is answered with the operation that brought it there and
    changes nothing (B201–215)."""
    machine_id = await bench.machine(S.SPECULATIVE)
    steps = (
        (bench.create, S.IDLE),
        (bench.configure, S.CONFIGURED),
        (bench.drain, S.IDLE),
        (bench.delete, S.SPECULATIVE),
    )
    for call, target in steps:
        answer = await call(machine_id)
        if answer.unimplemented and target is S.SPECULATIVE:
            return
        operation = answer.operation()
        landed = await bench.until(machine_id, target, seconds=bench.limits.until(target, drained=True))
        again = await call(machine_id)
        if again.operation() != operation:
            raise Broken(f"{answer.call} was {operation!r}; at {target.name} it became {again.operation()!r}")
        await bench.unchanged(landed, "before a call that had nothing to do")


@check
async def operation_ids_are_fresh_per_cycle(bench: Bench) -> None:
    """A new transition has a new operation_id, also one of a kind that was there before (B201–215)."""
    machine_id = await bench.machine(S.IDLE)
    seen: dict[str, str] = {}
    for _ in range(2):
        for call, target in ((bench.configure, S.CONFIGURED), (bench.drain, S.IDLE)):
            answer = await call(machine_id)
            operation = answer.operation()
            if operation in seen:
                raise Broken(f"{answer.call} has the operation {operation!r} of an earlier {seen[operation]}")
            seen[operation] = answer.call
            await bench.until(machine_id, target, seconds=bench.limits.until(target, drained=True))
