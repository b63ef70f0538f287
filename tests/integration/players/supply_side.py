"""Provider and shards as processes of their own that can be killed, over TLS, at addresses that outlive them."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.api.v1alpha1 import provider_pb2_grpc
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from tests import patience
from tests.integration.players.coordinators import free_addresses, says_ready
from tests.integration.players.provider_client import fleet_of

eventually = partial(patience.eventually, seconds=60)
ZONE = "topology.kubernetes.io/zone"
# In zone-a and zone-b, each enough for two clusters.
FLEET = fleet_of(
    {"idPrefix": "idle", "kind": "small", "count": 12, "state": "Idle"},
    {"idPrefix": "spec", "kind": "small", "count": 12, "state": "Speculative"},
    {"idPrefix": "idle", "kind": "metal", "count": 12, "state": "Idle"},
)
_FAST = [
    f"--latencies-{kind}-{at}-seconds=0.05"
    for kind in ("create", "configure", "drain", "delete")
    for at in ("median", "p99")
]


@dataclass
class Process:
    """One `bigfleet` process, its address, and its life."""

    name: str
    address: str
    metrics_address: str
    arguments: Sequence[str]
    log: Path
    process: asyncio.subprocess.Process | None = field(default=None)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *dying_with_us([sys.executable, "-m", "bigfleet.cli", *self.arguments]),
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )

    async def kill(self) -> None:
        """kill -9."""
        if self.process and self.runs:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> None:
        if self.process and self.runs:
            self.process.terminate()
            self.thaw()  # a frozen one would never hear of it
            await self.process.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        """Ready inside the block."""
        await self.start()
        try:
            await eventually(self.ready)
            yield self
        finally:
            await self.stop()

    def freeze(self) -> None:
        """Neither dead nor alive: it keeps its memory and its connections, and does nothing."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    async def ready(self) -> bool:
        return await says_ready(self.metrics_address)

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the series with these labels; 0 if there is none."""
        return sum(value for found, value in await self._series(name) if labels.items() <= found.items())

    async def _series(self, name: str) -> list[tuple[dict[str, str], float]]:
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.metrics_address}/metrics") as response:
            text = await response.text()
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"bigfleet_{name}"
        ]

    async def until_metric(self, value: float, name: str, **labels: str) -> None:
        async def reached() -> bool:
            return await self.metric(name, **labels) == value

        await eventually(reached)

    async def outcomes(self, kind: str) -> dict[str, float]:
        """Outcomes of a kind of action that are not 0."""
        name = "shard_action_execute_outcomes_total"
        return {
            labels["outcome"]: value for labels, value in await self._series(name) if labels["kind"] == kind and value
        }

    async def until_cycles(self, count: int) -> None:
        """So many cycles more."""
        enough = await self.metric("shard_cycle_duration_seconds_count") + count

        async def reached() -> bool:
            return await self.metric("shard_cycle_duration_seconds_count") >= enough

        await eventually(reached)


class Supply:
    """A provider, its shards by domain, and everybody's certificates."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        *,
        zones: Sequence[str] = (),
        fleet: dict[str, Any] = FLEET,
        clusters: Iterable[str] = (),
        provider: Sequence[str] = (),
        shard: Sequence[str] = (),
        plaintext: bool = False,
    ) -> None:
        self.directory = directory
        self._plaintext = plaintext
        self.authority = authority
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "fleet.json").write_bytes(msgspec.json.encode(fleet))
        self.provider = self._provider(provider)
        self._shard_arguments = shard
        # Without zones there is one shard that owns every machine.
        self.shards = [self._shard(f"shard-{number}", zone) for number, zone in enumerate(zones or [""])]
        for cluster in clusters:
            authority.issue(Identity("cluster", cluster)).write(directory / cluster)
        authority.issue(Identity("admin")).write(directory / "admin")

    @property
    def processes(self) -> list[Process]:
        return [self.provider, *self.shards]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Supply"]:
        async with AsyncExitStack() as stack:
            for process in self.processes:
                await process.start()
                stack.push_async_callback(process.stop)
            for process in self.processes:
                await eventually(process.ready)
            yield self

    async def machines(self) -> dict[str, pb.Machine]:
        """The provider's word on every machine."""
        async with channel(self.provider.address, self.directory / "admin", "provider") as dialled:
            stub = provider_pb2_grpc.CapacityProviderStub(dialled)
            answer = await stub.List(pb.ListFilter(), timeout=10)
        return {machine.id: machine for machine in answer.machines}

    async def machines_of(self, cluster: str) -> dict[str, str]:
        """Name of the state of each machine that is bound to a cluster."""
        return {
            machine.id: pb.MachineState.Name(machine.state)
            for machine in (await self.machines()).values()
            if machine.cluster == cluster
        }

    async def until_configured(self, cluster: str, count: int) -> set[str]:
        async def reached() -> set[str]:
            try:
                bound = await self.machines_of(cluster)
            except grpc.aio.AioRpcError:
                return set()
            return set(bound) if list(bound.values()) == ["CONFIGURED"] * count else set()

        found: set[str] = await eventually(reached)
        return found

    def newcomer(self, name: str, zone: str) -> Process:
        """One shard more, which is not started yet."""
        return self._shard(name, zone)

    def successor(self, shard: Process) -> Process:
        """What a cluster starts in the place of a shard that it holds for dead: the same name, a copy of its disk."""
        place = f"{shard.name}-again"
        shutil.copytree(self.directory / shard.name, self.directory / place)
        return self._shard(shard.name, place=place)

    def _provider(self, arguments: Sequence[str]) -> Process:
        return self._process(
            "provider", Identity("provider", "fake"), [f"--fleet={self.directory}/fleet.json", *_FAST], arguments
        )

    def _shard(self, name: str, zone: str = "", place: str = "") -> Process:
        place = place or name
        if zone:
            (self.directory / place).mkdir(exist_ok=True)
            (self.directory / place / "domains.json").write_text(json.dumps([[ZONE, zone]]))
        usual = [
            f"--id={name}",
            f"--provider-addr={self.provider.address}",
            "--execute-concurrency=16",
            "--cycle-interval-seconds=0.5",
            "--reclaim-after-seconds=1",
        ]
        return self._process(place, Identity("shard", name), usual, self._shard_arguments)

    def _process(self, place: str, identity: Identity, usual: Sequence[str], extra: Sequence[str]) -> Process:
        tls = self.directory / f"{place}-tls"
        self.authority.issue(identity, dns_names=[f"{identity.kind}.bigfleet"]).write(tls)
        address, metrics = free_addresses(2)
        arguments = [
            identity.kind,
            f"--listen={address}",
            f"--metrics-addr={metrics}",
            f"--data-dir={self.directory / place}",
            "--plaintext" if self._plaintext else f"--tls-dir={tls}",
            *usual,
            *extra,
        ]
        return Process(place, address, metrics, arguments, self.directory / f"{place}.log")
