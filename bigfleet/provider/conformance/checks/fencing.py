"""A shard's older self must not move what its newer self has touched (docs/reference/wire.md#fencing)."""

from random import Random

from grpc import StatusCode

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken
from bigfleet.rpc.fencing import FencingToken

S = MachineState
_RANDOM_TOKENS = 40
# A fence's epochs end at 9.
_LAST_EPOCH = 8

# The probe is a Create of an Idle machine: it has nothing to do, so that only its token is judged.


@check
async def fencing_unknown_shard_accepted(bench: Bench) -> None:
    """The first call of a shard for a machine is accepted, whatever its token."""
    bench.any_shard()
    machine_id = await bench.machine(S.IDLE)
    (await bench.client.create(machine_id, bench.fence().token(3, 77))).accepted()


@check
async def fencing_stale_epoch_rejected(bench: Bench) -> None:
    """An older epoch is FAILED_PRECONDITION, however high its sequence number."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.create(machine_id, fence.token(5, 1))).accepted()
    (await bench.client.create(machine_id, fence.token(4, 1000))).fenced()


@check
async def fencing_stale_sequence_rejected(bench: Bench) -> None:
    """In one epoch, a sequence number that is not above the last one is FAILED_PRECONDITION."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.create(machine_id, fence.token(0, 10))).accepted()
    (await bench.client.create(machine_id, fence.token(0, 9))).fenced()
    (await bench.client.create(machine_id, fence.token(0, 10))).fenced()
    (await bench.client.create(machine_id, fence.token(0, 11))).accepted()


@check
async def fencing_new_epoch_resets_sequence(bench: Bench) -> None:
    """A newer epoch is accepted, however low its sequence number."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.create(machine_id, fence.token(0, 100))).accepted()
    (await bench.client.create(machine_id, fence.token(1, 1))).accepted()


@check
async def fencing_reads_unaffected(bench: Bench) -> None:
    """Get and List are answered to a shard that was fenced."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.create(machine_id, fence.token(1, 1))).accepted()
    await bench.client.create(machine_id, fence.token(0, 1))
    await bench.get(machine_id)
    shard = fence.token(0, 1).shard_id
    if machine_id not in {machine.id for machine in (await bench.listed(shard_id=shard)).machines}:
        raise Broken(f"List does not show {machine_id} to a shard that was fenced")


@check
async def fencing_per_machine_isolation(bench: Bench) -> None:
    """A shard's token for one machine says nothing about another (BF-0058)."""
    one = await bench.machine(S.IDLE)
    other, fence = await bench.machine(S.IDLE, but={one}), bench.fence()
    (await bench.client.create(one, fence.token(1, 100))).accepted()
    (await bench.client.create(other, fence.token(0, 1))).accepted()


@check
async def fencing_per_shard_isolation(bench: Bench) -> None:
    """One shard's token says nothing about another shard's (B301–312)."""
    bench.any_shard()
    machine_id, one, other = await bench.machine(S.IDLE), bench.fence(), bench.fence()
    (await bench.client.create(machine_id, other.token(1, 100))).accepted()
    (await bench.client.create(machine_id, one.token(0, 1))).accepted()


@check
async def fencing_before_not_found(bench: Bench) -> None:
    """A stale token is FAILED_PRECONDITION even for a machine that is not there, on each RPC (B301–312)."""
    client = bench.client
    for call in (client.create, client.drain, client.delete):
        nobody, fence = bench.unknown_id(), bench.fence()
        first = await call(nobody, fence.token(1, 1))
        if first.unimplemented:
            continue
        first.refused_with(StatusCode.NOT_FOUND)
        (await call(nobody, fence.token(0, 1))).fenced()
    nobody, fence = bench.unknown_id(), bench.fence()
    (await client.configure(nobody, fence.token(1, 1), bench.cluster)).refused_with(StatusCode.NOT_FOUND)
    (await client.configure(nobody, fence.token(0, 1), bench.cluster)).fenced()


@check
async def fencing_before_idempotency(bench: Bench) -> None:
    """A stale token is FAILED_PRECONDITION even when the call has nothing to do, on each RPC (B301–312)."""
    client = bench.client
    machine_id, fence = await bench.machine(S.CONFIGURED), bench.fence()
    (await client.configure(machine_id, fence.token(1, 1), bench.cluster)).accepted()
    (await client.configure(machine_id, fence.token(0, 1), bench.cluster)).fenced()
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await client.create(machine_id, fence.token(1, 1))).accepted()
    (await client.create(machine_id, fence.token(0, 2))).fenced()
    (await client.drain(machine_id, fence.token(0, 3))).fenced()
    machine_id, fence = await bench.machine(S.SPECULATIVE), bench.fence()
    if not (await client.delete(machine_id, fence.token(1, 1))).unimplemented:
        (await client.delete(machine_id, fence.token(0, 1))).fenced()


@check
async def fencing_before_position(bench: Bench) -> None:
    """A stale token is FAILED_PRECONDITION even for a call that the machine's state forbids (B301–312)."""
    machine_id, fence = await bench.machine(S.CONFIGURED), bench.fence()
    (await bench.client.configure(machine_id, fence.token(1, 1), bench.cluster)).accepted()
    (await bench.client.create(machine_id, fence.token(0, 1))).fenced()


@check
async def fencing_refused_call_advances_the_mark(bench: Bench) -> None:
    """A token that passes counts even if the call is refused for another reason (B301–312)."""
    machine_id, fence = await bench.machine(S.CONFIGURED), bench.fence()
    (await bench.client.create(machine_id, fence.token(1, 1))).refused_but_not_fenced()
    (await bench.client.configure(machine_id, fence.token(0, 1), bench.cluster)).fenced()


@check
async def fencing_after_arguments(bench: Bench) -> None:
    """A malformed call is INVALID_ARGUMENT before its token is looked at, which then does not count."""
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.drain(machine_id, fence.token(5, 1), -1)).refused_with(StatusCode.INVALID_ARGUMENT)
    (await bench.client.create(machine_id, fence.token(0, 1))).accepted()


@check
async def fencing_zero_token_bypasses(bench: Bench) -> None:
    """A call with no token at all is not fenced (B301–312)."""
    bench.any_shard()
    machine_id, fence = await bench.machine(S.IDLE), bench.fence()
    (await bench.client.create(machine_id, fence.token(1, 1))).accepted()
    (await bench.client.create(machine_id, FencingToken())).accepted()


@check
async def fencing_random_stream(bench: Bench) -> None:
    """Of any stream of tokens those pass that are lexicographically above all before them (B301–312)."""
    machine_id, fence, random = await bench.machine(S.IDLE), bench.fence(), Random("conformance")
    highest = (0, 0)
    (await bench.client.create(machine_id, fence.token(*highest))).accepted()
    for _ in range(_RANDOM_TOKENS):
        epoch, sequence = highest
        newer = [(epoch, sequence + 1), (epoch + 1, 0)] if epoch < _LAST_EPOCH else [(epoch, sequence + 1)]
        stale = [highest, (epoch, max(0, sequence - 1)), (max(0, epoch - 1), sequence), (0, sequence)]
        if epoch:
            stale.append((epoch - 1, sequence + 100))
        stamp = random.choice(random.choice((newer, stale)))
        answer = await bench.client.create(machine_id, fence.token(*stamp))
        if stamp > highest:
            answer.accepted()
            highest = stamp
        else:
            answer.fenced()
