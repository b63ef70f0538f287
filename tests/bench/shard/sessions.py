"""What one shard process holds: open sessions, and roll-ups a second, until it falls behind. Loopback only.

`python -m tests.bench.shard.sessions`. Every session is a cluster with a certificate and a TLS connection of its own,
as in a fleet. They are opened step by step, all of them speak every ten seconds, and that goes on until the shard no
longer keeps up or something gives out: `ended_by` says what. At 1,000 sessions, roll-ups of 10 rows (2 KB, which is
usual) come faster and faster; a second shard gets roll-ups of 200 rows from 200 clusters. It takes about three minutes.
The ceiling of upstream's plan is 1,000 sessions and 5,000 roll-ups a second. With few cores the clients take CPU from
the shard, so its own CPU time per roll-up is shown too, and the rate that a core of its own would allow.
"""

import asyncio
import itertools
import os
import resource
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bigfleet.api.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.security import Identity
from bigfleet.security.authority import Authority
from bigfleet.security.credentials import CHANNEL_OPTIONS
from bigfleet.security.files import IdentityFiles
from tests.bench.measuring.report import emit
from tests.bench.measuring.running import run
from tests.integration.players.provider_client import fleet_of
from tests.integration.players.supply_side import Process, Supply

PLANNED = {"sessions": 1_000, "rollups_per_second": 5_000}
# Sessions, step by step; the hard limit of open files is this machine's, and the last step goes up to it.
STEPS = (1_000, 2_000, 4_000, 8_000, 16_000)
FEW_ROWS, MANY_ROWS = 10, 200
# Clusters with many rows, as uber-50k has them.
MANY_ROWS_SESSIONS = 200
# Roll-ups a second, by their rows.
RATES = {FEW_ROWS: (1_000, 2_000, 3_500, 5_000), MANY_ROWS: (100, 200, 400, 800)}
# A usual operator's.
_SPEAKS_EVERY_SECONDS = 10.0
_LISTEN_SECONDS = 5.0
# All of it, and what the last part may need of that.
_WHOLE_SECONDS = 170.0
_MANY_ROWS_SECONDS = 35.0
_WINDOW_SECONDS = 4.0
_LOOK_SECONDS = 0.25
# Every session speaks once in ten seconds: what the shard takes a moment later is not lost.
_PATIENCE_SECONDS = 2.0
_CALM_SECONDS = 1.0
# A shard that takes less than this part of what is sent has fallen behind.
_KEEPS_UP = 0.95
# A loop that is later than this, on average, is no use to anybody (as the runner's self-check has it).
_LATEST_SECONDS = 1.0
# Handshakes at the same time.
_AT_ONCE = 50
# Files that client and shard need beside their sessions.
_OTHER_FILES = 500
# Of the machine's memory, what must be left.
_MEMORY_LEFT = 0.1
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

    def __init__(self, shard: Process, authority: Authority, rows: int) -> None:
        self._shard = shard
        self._authority = authority
        self.rows = rows
        self._channels: list[grpc.aio.Channel] = []
        self._calls: list[Any] = []
        self._readers: list[asyncio.Task[None]] = []
        self._frames: list[list[bytes]] = []

    def __len__(self) -> int:
        return len(self._calls)

    async def grow(self, count: int, deadline: float) -> float:
        """So many sessions; the seconds it took to open them, without those for making certificates."""
        names = [f"kwok-cluster-{number}" for number in range(len(self), count)]
        identities = [self._authority.issue(Identity("cluster", name)) for name in names]
        began = time.monotonic()
        for start in range(0, len(names), _AT_ONCE):
            batch = slice(start, start + _AT_ONCE)
            async with asyncio.timeout_at(deadline):
                await asyncio.gather(*map(self._open, names[batch], identities[batch]))
        return time.monotonic() - began

    async def _open(self, cluster: str, files: IdentityFiles) -> None:
        credentials = grpc.ssl_channel_credentials(files.ca_certificate, files.private_key, files.certificate)
        options = (
            *CHANNEL_OPTIONS,
            ("grpc.ssl_target_name_override", "shard.bigfleet"),
            ("grpc.use_local_subchannel_pool", 1),  # else channels to one place share a connection
        )
        dialled = grpc.aio.secure_channel(self._shard.address, credentials, options=options)
        self._channels.append(dialled)
        call: Any = dialled.stream_stream(_METHOD, _same, _same)()
        await call.write(shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster)).SerializeToString())
        await call.read()  # it is greeted
        self._calls.append(call)
        self._frames.append([rollup(cluster, self.rows, turn) for turn in range(2)])
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

    async def close(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._channels))


def _same(content: bytes) -> bytes:
    return content


async def _swallow(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


@asynccontextmanager
async def shard_with_clients(rows: int) -> AsyncIterator[tuple[Process, Clients]]:
    """A shard with its usual cycle of ten seconds, beside a provider with few machines, and nobody connected yet."""
    fleet = fleet_of({"idPrefix": "idle", "kind": "small", "count": 10, "state": "Idle"})
    authority = Authority.create("bench")
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        supply = Supply(Path(folder), authority, fleet=fleet, shard=["--cycle-interval-seconds=10"])
        async with supply.running():
            clients = Clients(supply.shards[0], authority, rows)
            try:
                yield supply.shards[0], clients
            finally:
                await clients.close()


async def measure() -> None:
    end = asyncio.get_running_loop().time() + _WHOLE_SECONDS
    files = _file_limit()
    async with shard_with_clients(FEW_ROWS) as (shard, clients):
        most = min(files - _OTHER_FILES, STEPS[-1])
        ended_by = "the last step" if most == STEPS[-1] else f"the {files} files that a process may open here"
        held = 0
        for count in (*(step for step in STEPS if step < most), most):
            if trouble := await _hold_sessions(shard, clients, count, end - _MANY_ROWS_SECONDS):
                ended_by = trouble
                break
            held = count
            if count == PLANNED["sessions"]:
                for changing in (False, True):
                    await _raise_rates(shard, clients, changing)
        emit("most sessions", held=held, opened=len(clients), planned=PLANNED["sessions"], ended_by=ended_by)
    async with shard_with_clients(MANY_ROWS) as (shard, clients):
        if trouble := await _hold_sessions(shard, clients, MANY_ROWS_SESSIONS, end):
            raise RuntimeError(trouble)
        await _raise_rates(shard, clients, changing=True)


async def _hold_sessions(shard: Process, clients: Clients, count: int, deadline: float) -> str:
    """Open sessions up to this count and let them speak in their turn; says what is wrong if they are not held."""
    before_bytes, had = _resident_bytes(shard), len(clients)
    try:
        seconds = await clients.grow(count, deadline)
    except TimeoutError:
        return f"time: not all of {count} sessions were open at the end of it"
    except grpc.aio.AioRpcError as error:
        return f"a session was refused on the way to {count}: {error.details()}"
    rate = count / _SPEAKS_EVERY_SECONDS
    pace = await _paced(shard, clients, rate, _LISTEN_SECONDS, changing=True, patience_seconds=_PATIENCE_SECONDS)
    active = await shard.metric("shard_active_sessions")
    free = _free_memory()
    emit(
        "sessions",
        sessions=count,
        planned=PLANNED["sessions"],
        active=round(active),
        rows=clients.rows,
        opened_per_second=round((count - had) / seconds),
        kib_per_session=round((_resident_bytes(shard) - before_bytes) / (count - had) / 1024, 1),
        shard_mib=round(_resident_bytes(shard) / 2**20),
        shard_files=_open_files(shard),
        free_memory=round(free, 2),
        **pace.figures(),
    )
    if active < count:
        return f"{count - active:.0f} of {count} sessions were lost again"
    if not pace.keeps_up:
        return f"the shard falls behind with {count} sessions"
    if free < _MEMORY_LEFT:
        return f"memory: {free:.0%} of it are left"
    return ""


async def _raise_rates(shard: Process, clients: Clients, changing: bool) -> None:
    await clients.send(len(clients), 1.5, changing=False)  # every session has said the same
    await asyncio.sleep(_CALM_SECONDS)
    for rate in RATES[clients.rows]:
        pace = await _paced(shard, clients, rate, _WINDOW_SECONDS, changing, _LOOK_SECONDS)
        emit(
            "rollups",
            sessions=len(clients),
            changing=changing,
            rows=clients.rows,
            bytes=len(rollup("kwok-cluster-0", clients.rows, 1)),
            planned=PLANNED["rollups_per_second"],
            **pace.figures(),
        )
        if not pace.keeps_up or pace.sent < _KEEPS_UP * rate * _WINDOW_SECONDS:
            return  # the shard's end, or the clients'


@dataclass(frozen=True)
class Pace:
    """What was asked of a shard for a while, and what it did."""

    asked_per_second: float
    sent: int
    taken: float
    seconds: float
    shard_cpu_seconds: float
    client_cpu_seconds: float
    mean_lag_seconds: float

    @property
    def keeps_up(self) -> bool:
        return self.taken >= _KEEPS_UP * self.sent and self.mean_lag_seconds <= _LATEST_SECONDS

    def figures(self) -> dict[str, Any]:
        return {
            "asked_per_second": round(self.asked_per_second),
            "sent_per_second": round(self.sent / self.seconds),
            "taken_per_second": round(self.taken / self.seconds),
            "shard_cores": round(self.shard_cpu_seconds / self.seconds, 2),
            "client_cores": round(self.client_cpu_seconds / self.seconds, 2),
            "shard_cpu_us_per_rollup": round(1e6 * self.shard_cpu_seconds / max(1.0, self.taken)),
            "a_core_of_its_own_takes_per_second": round(self.taken / self.shard_cpu_seconds),
            "mean_loop_lag_ms": round(1000 * self.mean_lag_seconds, 1),
            "keeps_up": self.keeps_up,
        }


async def _paced(
    shard: Process, clients: Clients, rate: float, seconds: float, changing: bool, patience_seconds: float
) -> Pace:
    """Send at this rate for a while; what comes in after it counts for as long as our patience lasts."""
    taken, cpu, own = await shard.metric("shard_rollups_total"), _cpu_seconds(shard), time.process_time()
    lag = await shard.metric("event_loop_lag_seconds_sum"), await shard.metric("event_loop_lag_seconds_count")
    began = time.monotonic()
    sent = await clients.send(rate, seconds, changing)
    passed = time.monotonic() - began
    await asyncio.sleep(patience_seconds)
    taken = await shard.metric("shard_rollups_total") - taken
    late = await shard.metric("event_loop_lag_seconds_sum") - lag[0]
    samples = max(1.0, await shard.metric("event_loop_lag_seconds_count") - lag[1])
    cpu, own = _cpu_seconds(shard) - cpu, time.process_time() - own
    return Pace(rate, sent, taken, passed, cpu, own, late / samples)


def _file_limit() -> int:
    """Open files that this process, and what it starts from now on, may have: as many as the machine allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _free_memory() -> float:
    """The part of the machine's memory that nobody needs."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / int(lines["MemTotal"].split()[0])


def _open_files(shard: Process) -> int:
    return sum(1 for _ in Path(f"/proc/{_pid(shard)}/fd").iterdir())


def _pid(shard: Process) -> int:
    if shard.process is None:
        raise RuntimeError("the shard does not run")
    return shard.process.pid


def _cpu_seconds(shard: Process) -> float:
    fields = Path(f"/proc/{_pid(shard)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(shard: Process) -> int:
    return int(Path(f"/proc/{_pid(shard)}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    run(measure)
