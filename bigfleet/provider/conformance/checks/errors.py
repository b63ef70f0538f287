"""Calls that must be refused, and with which code (docs/reference/wire.md#order-of-checks)."""

from grpc import StatusCode

from bigfleet.core.machines import MachineState
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.suite import check
from bigfleet.provider.conformance.verdicts import Broken
from bigfleet.rpc.fencing import FencingToken

S = MachineState
_LARGEST = 2**63 - 1
_BLOB_BYTES = 1024 * 1024
_VALUE_BYTES = 64 * 1024


@check
async def get_unknown_machine(bench: Bench) -> None:
    """Get of an id that no machine has is NOT_FOUND."""
    (await bench.client.get(bench.unknown_id())).refused_with(StatusCode.NOT_FOUND)


@check
async def delete_unknown_machine(bench: Bench) -> None:
    """Delete of an id that no machine has is NOT_FOUND, or UNIMPLEMENTED as any Delete."""
    (await bench.delete(bench.unknown_id())).refused_with(StatusCode.NOT_FOUND, StatusCode.UNIMPLEMENTED)


@check
async def lifecycle_calls_on_unknown_machine(bench: Bench) -> None:
    """Create, Configure and Drain of an id that no machine has are NOT_FOUND."""
    for call in (bench.create, bench.configure, bench.drain):
        (await call(bench.unknown_id())).refused_with(StatusCode.NOT_FOUND)


@check
async def empty_id(bench: Bench) -> None:
    """A call without a machine's id is INVALID_ARGUMENT."""
    for call in (bench.create, bench.configure, bench.drain, bench.client.get):
        (await call("")).refused_with(StatusCode.INVALID_ARGUMENT)
    (await bench.delete("")).refused_with(StatusCode.INVALID_ARGUMENT, StatusCode.UNIMPLEMENTED)


@check
async def drain_on_speculative(bench: Bench) -> None:
    """Drain of a Speculative machine is refused, not as fenced, and changes nothing (B201–215)."""
    machine = await bench.get(await bench.machine(S.SPECULATIVE))
    (await bench.drain(machine.id)).refused_but_not_fenced()
    await bench.unchanged(machine, "before a Drain that was refused")


@check
async def configure_on_speculative(bench: Bench) -> None:
    """Configure of a Speculative machine is refused, not as fenced, and changes nothing (B201–215)."""
    machine = await bench.get(await bench.machine(S.SPECULATIVE))
    (await bench.configure(machine.id)).refused_but_not_fenced()
    await bench.unchanged(machine, "before a Configure that was refused")


@check
async def create_on_configured(bench: Bench) -> None:
    """Create of a Configured machine is refused, not as fenced, and changes nothing (B201–215)."""
    machine = await bench.get(await bench.machine(S.CONFIGURED))
    (await bench.create(machine.id)).refused_but_not_fenced()
    await bench.unchanged(machine, "before a Create that was refused")


@check
async def delete_on_configured(bench: Bench) -> None:
    """Delete of a Configured machine is refused, not as fenced, and changes nothing (B201–215)."""
    machine = await bench.get(await bench.machine(S.CONFIGURED))
    (await bench.delete(machine.id)).refused_but_not_fenced()
    await bench.unchanged(machine, "before a Delete that was refused")


@check
async def negative_grace(bench: Bench) -> None:
    """A negative grace period is INVALID_ARGUMENT and drains nothing (B201–215)."""
    machine = await bench.get(await bench.machine(S.CONFIGURED))
    (await bench.drain(machine.id, grace_seconds=-1)).refused_with(StatusCode.INVALID_ARGUMENT)
    await bench.unchanged(machine, "before a Drain with a negative grace")


@check
async def negative_token(bench: Bench) -> None:
    """A negative epoch or sequence number is INVALID_ARGUMENT (B201–215)."""
    machine_id = await bench.machine(S.IDLE)
    good = bench.fence().token(0, 1)
    for token in (good._replace(epoch=-1), good._replace(sequence=-1)):
        (await bench.client.create(machine_id, token)).refused_with(StatusCode.INVALID_ARGUMENT)


@check
async def largest_token(bench: Bench) -> None:
    """The largest epoch and sequence number that the wire can carry are as good as any (B201–215)."""
    bench.any_shard()  # the shard that sends this token is fenced off for ever after
    machine_id = await bench.machine(S.IDLE)
    token = FencingToken(bench.fence().token(0, 0).shard_id, _LARGEST, _LARGEST)
    (await bench.client.create(machine_id, token)).accepted()
    (await bench.client.create(machine_id, token)).fenced()


@check
async def oversize_configure(bench: Bench) -> None:
    """A blob of 1 MiB and metadata of 64 KiB are taken whole or are INVALID_ARGUMENT (B201–215)."""
    machine_id = await bench.machine(S.IDLE)
    metadata = {"conformance/large": "x" * _VALUE_BYTES}
    answer = await bench.configure(machine_id, metadata, b"\x00" * _BLOB_BYTES)
    if not answer.ok:
        answer.refused_with(StatusCode.INVALID_ARGUMENT)
        return
    if dict((await bench.until(machine_id, S.CONFIGURED)).shard_metadata) != metadata:
        raise Broken(f"{machine_id} was configured with {_VALUE_BYTES} bytes of metadata and has others")
