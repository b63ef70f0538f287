"""Real coordinator processes on real etcd members, one or three of them, and the callers they know."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from bigfleet.api.v1alpha1 import coordinator_pb2 as pb
from bigfleet.api.v1alpha1 import coordinator_pb2_grpc as rpc
from bigfleet.coordinator import CoordinatorOptions
from bigfleet.coordinator.etcd_client import EtcdClient
from bigfleet.coordinator.ownership import Domain
from bigfleet.process.parentdeath import dying_with_us
from bigfleet.security import Identity, channel
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests import patience
from tests.bench.measuring.processes import name_of, tree
from tests.integration.players.apiserver import free_ports

eventually = partial(patience.eventually, seconds=30)
ZONE = Domain("topology.kubernetes.io/zone", "zone-a")
CALLERS = (
    Identity("admin"),
    Identity("readonly"),
    Identity("shard", "shard-0"),
    Identity("shard", "shard-1"),
    Identity("cluster", "kwok-cluster-0"),
)
_NOT_NOW = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@pytest.fixture(scope="session")
def etcd_tools() -> toolchain.Toolchain:
    return asyncio.run(toolchain.ensure(["etcd", "etcdutl"]))


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority.create("test")


@pytest.fixture
def stopped(authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain) -> "Coordinator":
    return lone_coordinator(authority, tmp_path, etcd_tools)


@pytest.fixture
async def lone(stopped: "Coordinator") -> "AsyncIterator[Coordinator]":
    """A leader of the test's own."""
    async with stopped.running():
        await eventually(stopped.leads)
        yield stopped


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_leader(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory, etcd_tools: toolchain.Toolchain
) -> "AsyncIterator[Coordinator]":
    async with lone_coordinator(authority, tmp_path_factory.mktemp("leader"), etcd_tools).running() as coordinator:
        await eventually(coordinator.leads)
        yield coordinator


@pytest_asyncio.fixture(loop_scope="module")
async def leader(shared_leader: "Coordinator") -> "AsyncIterator[Coordinator]":
    """A leader that knows no shard; its module shares the process (and so its event loop)."""
    yield shared_leader
    for shard in await shared_leader.shards():
        await shared_leader.call("admin", "RemoveShard", pb.RemoveShardRequest(shard_id=shard.shard_id))


@pytest.fixture
def stopped_trio(authority: Authority, tmp_path: Path, etcd_tools: toolchain.Toolchain) -> "Trio":
    return trio_of(authority, tmp_path, etcd_tools)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_trio(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory, etcd_tools: toolchain.Toolchain
) -> "AsyncIterator[Trio]":
    async with trio_of(authority, tmp_path_factory.mktemp("trio"), etcd_tools).running() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def trio(shared_trio: "Trio") -> "Trio":
    """Three that run and are well; its module shares the processes (and so its event loop)."""
    await shared_trio.heal()
    return shared_trio


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


async def says_ready(metrics_address: str) -> bool:
    """Whether a process answers, and says that it is ready."""
    try:
        async with aiohttp.ClientSession() as http, http.get(f"http://{metrics_address}/readyz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def assignment(domain: Domain = ZONE, shard: str = "shard-0") -> pb.AssignDomainRequest:
    return pb.AssignDomainRequest(topology_key=domain.key, topology_value=domain.value, shard_id=shard)


def unassignment(domain: Domain = ZONE) -> pb.UnassignDomainRequest:
    return pb.UnassignDomainRequest(topology_key=domain.key, topology_value=domain.value)


@dataclass
class Coordinator:
    """A coordinator's options, its process while it runs, and how a test talks to it."""

    options: CoordinatorOptions
    identities: Path
    process: asyncio.subprocess.Process | None = field(default=None)

    @asynccontextmanager
    async def stub(self, identity: str) -> AsyncIterator[Any]:
        place = None if self.options.plaintext else self.identities / identity
        async with channel(self.options.listen, place, "coordinator") as dialled:
            yield rpc.CoordinatorStub(dialled)

    async def call(self, identity: str, method: str, request: Any, timeout: float = 10) -> Any:
        async with self.stub(identity) as stub:
            return await getattr(stub, method)(request, timeout=timeout)

    async def refusal(self, identity: str, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.call(identity, method, request)
        return refused.value.code(), refused.value.details() or ""

    async def report(self, shard: str = "shard-0", **fields: Any) -> pb.ReportAck:
        request = pb.ShardReport(shard_id=shard, shard_address=f"{shard}:7780", **fields)
        answer: pb.ReportAck = await self.call(shard, "ReportShard", request)
        return answer

    async def assign(self, domain: Domain = ZONE, shard: str = "shard-0") -> None:
        await self.call("admin", "AssignDomain", assignment(domain, shard))

    async def domains(self) -> dict[Domain, str]:
        answer = await self.call("admin", "ListDomainAssignments", pb.ListDomainAssignmentsRequest())
        return {Domain(one.topology_key, one.topology_value): one.shard_id for one in answer.assignments}

    async def shards(self) -> list[pb.ShardRegistryEntry]:
        answer = await self.call("readonly", "ListShards", pb.ListShardsRequest())
        return list(answer.shards)

    async def leads(self) -> bool:
        try:
            await self.call("readonly", "ListShards", pb.ListShardsRequest(), timeout=2)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _NOT_NOW:
                raise
            return False
        return True

    async def metric(self, name: str, **labels: str) -> float | None:
        async with aiohttp.ClientSession() as http, http.get(f"http://{self.options.metrics_addr}/metrics") as response:
            text = await response.text()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    async def ready(self) -> bool:
        return await says_ready(self.options.metrics_addr)

    def etcd(self) -> EtcdClient:
        return EtcdClient(self.options.etcd_client_addr, self.options.member_options().client_tls_dir)

    @property
    def log(self) -> Path:
        return self.options.data_dir.with_name("log")

    @property
    def running_process(self) -> asyncio.subprocess.Process:
        assert self.process
        return self.process

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def member_pid(self) -> int:
        (pid,) = [pid for pid in tree(self.running_process.pid) if name_of(pid) == "etcd"]
        return pid

    async def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *dying_with_us([sys.executable, "-m", "bigfleet.cli", "coordinator", *_flags(self.options)]),
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )

    async def stop(self) -> None:
        if self.process and self.process.returncode is None:
            self.process.terminate()
            await self.process.wait()

    async def kill(self) -> None:
        """kill -9 of all the pod's processes at once."""
        for pid in tree(self.running_process.pid):
            os.kill(pid, signal.SIGKILL)
        await self.running_process.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Coordinator"]:
        await self.start()
        try:
            yield self
        finally:
            await self.stop()


def _flags(options: CoordinatorOptions) -> Iterable[str]:
    for one in fields(options):
        value = getattr(options, one.name)
        if value is True:
            yield f"--{one.name.replace('_', '-')}"
        elif value not in (None, False) and not is_dataclass(value):
            yield f"--{one.name.replace('_', '-')}={value}"


def lone_coordinator(authority: Authority, directory: Path, tools: toolchain.Toolchain) -> Coordinator:
    """A coordinator that is not started yet, and certificates for everyone who may call it."""
    identities = directory / "identities"
    for identity in CALLERS:
        authority.issue(identity).write(identities / (identity.name or identity.kind))
    issue_server(authority, "c-0", directory / "c-0" / "tls")
    listen, metrics, client, peer = free_addresses(4)
    options = CoordinatorOptions(
        listen=listen,
        metrics_addr=metrics,
        id="c-0",
        data_dir=directory / "c-0" / "data",
        etcd_binary=str(tools.path("etcd")),
        etcd_client_addr=client,
        etcd_peer_addr=peer,
        tls_dir=directory / "c-0" / "tls",
    )
    return Coordinator(options, identities)


def issue_server(authority: Authority, name: str, tls_dir: Path) -> None:
    files = authority.issue(
        Identity("coordinator", name), dns_names=["coordinator.bigfleet"], ip_addresses=["127.0.0.1"]
    )
    files.write(tls_dir)


@dataclass
class Trio:
    """Three coordinators, of which some may run."""

    members: list[Coordinator]

    async def leader(self, among: Iterable[Coordinator] | None = None) -> Coordinator:
        candidates = list(self.members if among is None else among)
        found: list[Coordinator] = []

        async def somebody_leads() -> bool:
            found[:] = [one for one in candidates if await one.leads()]
            return bool(found)

        await eventually(somebody_leads)
        return found[0]

    def others(self, than: Coordinator) -> list[Coordinator]:
        return [one for one in self.members if one is not than]

    async def heal(self) -> None:
        """Start again what a test has killed."""
        for member in self.members:
            if member.running_process.returncode is not None:
                await member.start()
        for member in self.members:
            await eventually(member.ready, seconds=60)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Trio"]:
        async with AsyncExitStack() as stack:
            for member in self.members:
                await stack.enter_async_context(member.running())
            for member in self.members:
                await eventually(member.ready, seconds=60)
            yield self


def trio_of(authority: Authority, directory: Path, tools: toolchain.Toolchain) -> Trio:
    lone = lone_coordinator(authority, directory, tools)
    addresses = free_addresses(12)
    listens, peers = addresses[:3], addresses[3:6]
    members = []
    for index, (listen, peer, metrics, client) in enumerate(
        zip(listens, peers, addresses[6:9], addresses[9:], strict=True)
    ):
        name = f"c-{index}"
        issue_server(authority, name, directory / name / "tls")
        options = replace(
            lone.options,
            id=name,
            data_dir=directory / name / "data",
            tls_dir=directory / name / "tls",
            listen=listen,
            metrics_addr=metrics,
            etcd_client_addr=client,
            etcd_peer_addr=peer,
            initial_cluster=",".join(f"c-{number}={peer}" for number, peer in enumerate(peers)),
            join_addr=",".join(listens),
        )
        members.append(Coordinator(options, lone.identities))
    return Trio(members)
