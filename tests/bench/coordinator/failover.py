"""Coordinator failover: from kill -9 of the leader pod's processes to the first acknowledged write at a survivor."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import grpc

from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator.ownership import Domain
from bigfleet.security import channel
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.bench.measuring.report import against, emit
from tests.bench.measuring.running import run
from tests.integration.players.coordinators import Coordinator, assignment, eventually, trio_of

TRIALS = 20
BAR_SECONDS = 2.0
_WRITE_SECONDS = 0.5
_ASK_AGAIN_SECONDS = 0.01


async def measure() -> None:
    tools = await toolchain.ensure(["etcd", "etcdutl"])
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        trio = trio_of(Authority.create("bench"), Path(folder), tools)
        async with trio.running():
            seconds = []
            for trial in range(TRIALS):
                leader = await trio.leader()
                await leader.report()
                began = time.monotonic()
                await leader.kill()
                domain = Domain("topology.bigfleet/rack", f"rack-{trial}")
                writes = [asyncio.create_task(_first_write(one, domain)) for one in trio.others(leader)]
                await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
                seconds.append(time.monotonic() - began)
                for write in writes:
                    write.cancel()
                await asyncio.gather(*writes, return_exceptions=True)
                await leader.start()
                await eventually(leader.ready, seconds=60)
    emit(
        "failover",
        trials=TRIALS,
        members=len(trio.members),
        median_seconds=against(statistics.median(seconds), BAR_SECONDS),
        maximum_seconds=against(max(seconds), BAR_SECONDS),
        all_seconds=[round(one, 3) for one in seconds],
    )


async def _first_write(survivor: Coordinator, domain: Domain) -> None:
    """Try until the write is acknowledged."""
    async with channel(survivor.options.listen, survivor.identities / "admin", "coordinator") as dialled:
        stub = rpc.CoordinatorStub(dialled)
        while True:
            try:
                await stub.AssignDomain(assignment(domain), timeout=_WRITE_SECONDS)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(_ASK_AGAIN_SECONDS)
            else:
                return


if __name__ == "__main__":
    run(measure)
