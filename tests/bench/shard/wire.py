"""A shard's process takes over the machines of a provider's process: both ends, gRPC and its limits between them."""

import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.security.authority import Authority
from bigfleet.security.credentials import CHANNEL_OPTIONS, GRPC_OPTIONS
from tests.bench.measuring.processes import snapshot
from tests.bench.measuring.report import emit
from tests.integration.players.provider_client import fleet_of
from tests.integration.players.supply_side import Process, Supply, eventually

_MAX_MESSAGE_BYTES = int(dict(GRPC_OPTIONS)["grpc.max_receive_message_length"])
_LONGEST_SECONDS = 300.0


async def measure(count: int) -> None:
    """So many Idle machines; the shard is started when the provider has them all."""
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": count, "state": "Idle"})
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        supply = Supply(Path(folder), Authority.create("bench"), fleet=fleet, plaintext=True)
        shard = supply.shards[0]
        async with supply.provider.running() as provider:
            listed, list_seconds = await _whole_list(provider)
            before = _cpu_seconds(provider)
            began = time.monotonic()
            await shard.start()
            try:
                await eventually(shard.ready, seconds=_LONGEST_SECONDS)
                ready_seconds = time.monotonic() - began
                known = await shard.metric("shard_inventory_machines")
                reconciling = "shard_cycle_phase_duration_seconds_sum"
                seconds = await shard.metric(reconciling, phase="reconcile")
                cpu = _cpu_seconds(shard), _cpu_seconds(provider) - before
            finally:
                await shard.stop()
    if known != count:
        raise RuntimeError(f"the shard knows {known:g} of {count} machines")
    emit(
        "reconcile over gRPC",
        machines=count,
        whole_list_mib=round(len(listed) / 2**20, 1),
        whole_list_seconds=round(list_seconds, 2),
        bytes_per_machine=round(len(listed) / count),
        machines_in_the_largest_message=_MAX_MESSAGE_BYTES * count // len(listed),
        reconcile_seconds=round(seconds, 2),
        machines_per_second=round(count / seconds),
        ready_seconds=round(ready_seconds, 2),
        shard_cpu_seconds=round(cpu[0], 2),
        provider_cpu_seconds=round(cpu[1], 2),
    )


async def _whole_list(provider: Process) -> tuple[bytes, float]:
    """What one List without a cap answers, and how long that takes."""
    async with grpc.aio.insecure_channel(provider.address, options=CHANNEL_OPTIONS) as dialled:
        call: Any = dialled.unary_unary("/bigfleet.v1alpha1.CapacityProvider/List")
        began = time.monotonic()
        answer: bytes = await call(pb.ListFilter().SerializeToString(), timeout=_LONGEST_SECONDS)
        return answer, time.monotonic() - began


def _cpu_seconds(process: Process) -> float:
    assert process.process
    return snapshot([process.process.pid]).cpu_seconds
