"""What one shard process holds: open sessions, and roll-ups a second, until it falls behind. Loopback only.

`python -m tests.bench.sessions [ROWS …]`; roll-ups of 10 rows (2 KB, the usual size) and of 200 unless told otherwise.
The plan's ceiling is 1,000 sessions and 5,000 roll-ups a second. With few cores the clients take CPU from the shard, so
its own CPU time per roll-up is shown too, and the rate that a core of its own would allow.
"""

import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.security.authority import Authority
from bigfleet.security.credentials import channel
from tests.bench.report import emit
from tests.integration.provider_client import fleet_of
from tests.integration.supply_side import Process, Supply

# Rows of a roll-up, and the sessions that are opened step by step: the plan's many small clusters, and uber-50k's.
SESSIONS = {10: (100, 500, 1_000, 2_000), 200: (200,)}
RATES = (250, 500, 1_000, 2_000, 3_000, 5_000)
PLANNED = {"sessions": 1_000, "rollups_per_second": 5_000}
_WINDOW_SECONDS = 6.0
_LOOK_SECONDS = 0.25
_CALM_SECONDS = 2.0
# A shard that takes less than this part of what is sent has fallen behind.
_KEEPS_UP = 0.95
# Sessions on one connection: each operator has its own, but a thousand of them need not be measured in the client.
_PER_CHANNEL = 50
_METHOD = "/bigfleet.v1alpha1.Shard/Session"
_IN = capacity_pb2.NodeSelectorRequirement.IN


def rollup(cluster: str, rows: int, turn: int) -> bytes:
    """Demand that no machine meets, with one row that is new each time."""
    needs = [
        capacity_pb2.CapacityNeed(
            requirements=[
                capacity_pb2.NodeSelectorRequirement(
                    key="topology.kubernetes.io/zone", operator=_IN, values=["zone-a"]
                ),
                capacity_pb2.NodeSelectorRequirement(
                    key="node.kubernetes.io/instance-type", operator=_IN, values=[f"m{row}.large", f"c{row}.large"]
                ),
            ],
            aggregate_resources={"cpu": str(40 + (turn if row == 0 else row)), "memory": "160Gi"},
            min_unit={"cpu": "1E", "memory": "4Gi"},
            priority=1000 + row,
        )
        for row in range(rows)
    ]
    demand = capacity_pb2.ClusterCapacityNeeds(cluster_id=cluster, timestamp_unix_nanos=turn, needs=needs)
    return shard_pb2.OperatorMessage(rollup=demand).SerializeToString()


class Clients:
    """Many operators that send what was made before, and let answers pass unread."""

    def __init__(self, shard: Process, rows: int) -> None:
        self._shard = shard
        self._channels: list[grpc.aio.Channel] = []
        self._calls: list[Any] = []
        self._readers: list[asyncio.Task[None]] = []
        self._rows = rows
        self._frames: list[list[bytes]] = []

    async def grow(self, count: int) -> None:
        """So many sessions."""
        for number in range(len(self._calls), count):
            if number % _PER_CHANNEL == 0:
                self._channels.append(channel(self._shard.address, None, "shard"))
            call: Any = self._channels[-1].stream_stream(_METHOD, _same, _same)()
            cluster = f"kwok-cluster-{number}"
            await call.write(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster)).SerializeToString())
            self._calls.append(call)
            self._frames.append([rollup(cluster, self._rows, turn) for turn in range(2)])
            self._readers.append(asyncio.create_task(_swallow(call)))

    async def send(self, rate: float, seconds: float, changing: bool) -> int:
        """Roll-ups at this rate, evenly over all sessions, the same again or each with news; how many were sent."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        sent = 0
        turns = itertools.cycle(enumerate(self._calls))
        while (passed := loop.time() - began) < seconds:
            due = int(passed * rate) - sent
            for _ in range(min(due, 200)):
                number, call = next(turns)
                await call.write(self._frames[number][sent // len(self._calls) % 2 if changing else 0])
                sent += 1
            await asyncio.sleep(0.002)
        return sent

    def __len__(self) -> int:
        return len(self._calls)

    async def close(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for one in self._channels:
            await one.close()


def _same(content: bytes) -> bytes:
    return content


async def _swallow(call: Any) -> None:
    async for _ in call:
        pass


@asynccontextmanager
async def shard_at(folder: Path) -> AsyncIterator[Process]:
    """A shard with its usual cycle of ten seconds, beside a provider with few machines."""
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": 10, "state": "Idle"})
    supply = Supply(folder, Authority.create("bench"), fleet=fleet, plaintext=True)
    async with supply.running():
        yield supply.shards[0]


async def measure(rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        async with shard_at(Path(folder)) as shard:
            clients = Clients(shard, rows)
            try:
                await _hold_sessions(shard, clients, rows)
                for changing in (False, True):
                    await _raise_rates(shard, clients, rows, changing)
            finally:
                await clients.close()


async def _hold_sessions(shard: Process, clients: Clients, rows: int) -> None:
    for count in SESSIONS.get(rows, (200,)):
        before_bytes, began = _resident_bytes(shard), time.monotonic()
        have = await shard.metric("shard_active_sessions")
        await clients.grow(count)

        while await shard.metric("shard_active_sessions") < count:
            await asyncio.sleep(_LOOK_SECONDS)  # each look costs the shard something
        seconds = time.monotonic() - began
        await clients.send(count / 2, 2.0, changing=False)  # every session speaks once
        emit(
            "sessions",
            sessions=count,
            planned=PLANNED["sessions"],
            opened_per_second=round((count - have) / seconds),
            kib_per_session=round((_resident_bytes(shard) - before_bytes) / (count - have) / 1024, 1),
            rows=rows,
        )


async def _raise_rates(shard: Process, clients: Clients, rows: int, changing: bool) -> None:
    await clients.send(len(clients), 1.5, changing=False)  # every session has said the same
    await asyncio.sleep(_CALM_SECONDS)
    for rate in RATES:
        taken, cpu = await shard.metric("shard_rollups_total"), _cpu_seconds(shard)
        lag = await shard.metric("event_loop_lag_seconds_sum"), await shard.metric("event_loop_lag_seconds_count")
        own = time.process_time()
        began = time.monotonic()
        sent = await clients.send(rate, _WINDOW_SECONDS, changing)
        seconds = time.monotonic() - began
        taken = await shard.metric("shard_rollups_total") - taken
        cpu = _cpu_seconds(shard) - cpu
        late = await shard.metric("event_loop_lag_seconds_sum") - lag[0]
        samples = max(1.0, await shard.metric("event_loop_lag_seconds_count") - lag[1])
        keeps_up = taken >= _KEEPS_UP * sent
        emit(
            "rollups",
            sessions=len(clients),
            changing=changing,
            rows=rows,
            bytes=len(rollup("kwok-cluster-0", rows, 1)),
            asked_per_second=rate,
            planned=PLANNED["rollups_per_second"],
            sent_per_second=round(sent / seconds),
            taken_per_second=round(taken / seconds),
            shard_cores=round(cpu / seconds, 2),
            client_cores=round((time.process_time() - own) / seconds, 2),
            shard_cpu_us_per_rollup=round(1e6 * cpu / max(1.0, taken)),
            a_core_of_its_own_takes_per_second=round(taken / cpu),
            mean_loop_lag_ms=round(1000 * late / samples, 1),
            keeps_up=keeps_up,
        )
        if not keeps_up or sent < _KEEPS_UP * rate * _WINDOW_SECONDS:
            return  # the shard's end, or the clients'


def _pid(shard: Process) -> int:
    if shard.process is None:
        raise RuntimeError("the shard does not run")
    return shard.process.pid


def _cpu_seconds(shard: Process) -> float:
    fields = Path(f"/proc/{_pid(shard)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(shard: Process) -> int:
    return int(Path(f"/proc/{_pid(shard)}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(rows: Sequence[str]) -> None:
    import uvloop

    for one in rows or SESSIONS:
        uvloop.run(measure(int(one)))


if __name__ == "__main__":
    main(sys.argv[1:])
