"""Calls that come at the same time (docs/reference/wire.md#idempotency)."""

import asyncio

from grpc import StatusCode

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken, NotApplicable

S = MachineState
_AT_ONCE = 10


@check
async def parallel_retries_are_one_operation(bench: Bench) -> None:
    """Identical calls that come at once are one operation, and the machine lands once (B401–409)."""
    bench.any_shard()  # with tokens, those that are overtaken are fenced, as they should be
    machine_id = await bench.machine(S.SPECULATIVE)
    answers = await asyncio.gather(*(bench.create(machine_id) for _ in range(_AT_ONCE)))
    operations = {answer.operation() for answer in answers}
    if len(operations) > 1:
        raise Broken(f"{_AT_ONCE} Creates at once were {len(operations)} operations: {', '.join(sorted(operations))}")
    await bench.until(machine_id, S.IDLE)


@check
async def conflicting_calls_serialise(bench: Bench) -> None:
    """Of a Configure and a Delete that come at once one is accepted, and that one is done (B401–409)."""
    bench.any_shard()
    machine_id = await bench.machine(S.IDLE)
    configured, deleted = await asyncio.gather(bench.configure(machine_id), bench.delete(machine_id))
    if deleted.unimplemented:
        raise NotApplicable("the provider does not delete machines")
    if configured.ok == deleted.ok:
        both = "both accepted" if configured.ok else "both refused"
        raise Broken(f"a Configure and a Delete of {machine_id} at once were {both}")
    await bench.until(machine_id, S.CONFIGURED if configured.ok else S.SPECULATIVE)


@check
async def zombie_against_live_shard(bench: Bench) -> None:
    """When a shard's old and new self call at once, no call of the old one passes after one of the new (B401–409)."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    tokens = [fence.token(epoch, sequence) for sequence in range(1, _AT_ONCE) for epoch in (0, 1)]
    for answer in await asyncio.gather(*(bench.client.create(machine_id, token) for token in tokens)):
        if not answer.ok:
            answer.refused_with(StatusCode.FAILED_PRECONDITION)
    (await bench.client.create(machine_id, fence.token(0, 1000))).fenced()
    (await bench.client.create(machine_id, fence.token(1, _AT_ONCE))).accepted()
