"""Kill -9 anywhere: a schedule that a seed repeats, the fleet that it strikes, and whether all agree in the end.

The first cluster has a real apiserver and an operator's process. The operators of the others are played in our process,
and what strikes them is a hang-up in the middle of whatever they do.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from bigfleet.api.v1alpha1 import capacity_pb2
from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.requirements import INSTANCE_TYPE_KEY
from bigfleet.kube import KubeClient
from bigfleet.security.authority import Authority
from scaletest import toolchain
from tests.integration.players.apiserver import ApiServer
from tests.integration.players.coordinators import Coordinator, Trio, trio_of
from tests.integration.players.played_operator import PlayedOperator
from tests.integration.players.provider_client import fleet_of
from tests.integration.players.real_operator import RealOperator
from tests.integration.players.shard_client import IN
from tests.integration.players.supply_side import Process, Supply, eventually

SETTLE_SECONDS = 60.0
_RESTART_SECONDS = 0.3
ZONES = ("zone-a", "zone-b")
FLEET = fleet_of(
    {"idPrefix": "idle", "kind": "small", "count": 6, "state": "Idle"},
    {"idPrefix": "spec", "kind": "small", "count": 6, "state": "Speculative"},
    {"idPrefix": "idle", "kind": "metal", "count": 9, "state": "Idle"},
)
# Instance type of each shard's zone, and the CPUs of one machine.
SUPPLIES = (("m6i.large", 4), ("a3-highgpu-8g", 208))
# Cluster N belongs to shard N modulo 2; four machines each, and some remain.
CLUSTERS = tuple(f"kwok-cluster-{number}" for number in range(4))
MOST_MACHINES = 4
REAL = CLUSTERS[0]
VICTIMS = ("provider", "shard-0", "shard-1", "c-0", "c-1", "c-2", *CLUSTERS)


@dataclass(frozen=True)
class Kill:
    """Somebody dies, and comes back after a while."""

    at: float
    victim: str
    down_seconds: float


@dataclass(frozen=True)
class Demand:
    """A cluster asks for so many machines from now on."""

    at: float
    cluster: str
    machines: int


def schedule(seed: int, seconds: float) -> list[Kill | Demand]:
    """What happens when: a kill about every second, and demand that changes half as often."""
    source = random.Random(seed)
    events: list[Kill | Demand] = []
    for rate, make in ((1.0, _kill), (0.5, _demand)):
        at = source.expovariate(rate)
        while at < seconds:
            events.append(make(at, source))
            at += source.expovariate(rate)
    return sorted(events, key=lambda event: event.at)


def _kill(at: float, source: random.Random) -> Kill:
    return Kill(at, source.choice(VICTIMS), source.choice((0.0, 0.2, 1.0, 3.0)))


def _demand(at: float, source: random.Random) -> Demand:
    return Demand(at, source.choice(CLUSTERS), source.randint(1, MOST_MACHINES))


def need(cluster: str, machines: int) -> capacity_pb2.CapacityNeed:
    instance_type, cpus = SUPPLIES[CLUSTERS.index(cluster) % len(ZONES)]
    requirement = capacity_pb2.NodeSelectorRequirement(key=INSTANCE_TYPE_KEY, operator=IN, values=[instance_type])
    return capacity_pb2.CapacityNeed(
        requirements=[requirement],
        aggregate_resources={"cpu": str(machines * cpus)},
        min_unit={"cpu": "1"},
        priority=1000,
    )


class Fleet:
    """Three coordinators, a provider, two shards and four operators."""

    def __init__(self, trio: Trio, supply: Supply, operators: dict[str, PlayedOperator | RealOperator]) -> None:
        self._trio = trio
        self._supply = supply
        self._operators = operators
        self._wanted: dict[str, int] = {}
        self._processes: dict[str, Process | Coordinator] = {one.name: one for one in supply.processes}
        self._processes |= {one.options.id: one for one in trio.members}
        self._processes |= {name: one.process for name, one in operators.items() if isinstance(one, RealOperator)}
        self._down: set[str] = set()
        self.kills: Counter[str] = Counter()
        # Coordinators end by themselves when they cannot go on; nobody else may.
        self.ended: Counter[str] = Counter()
        for cluster in operators:
            self._ask(cluster, 1)

    def _ask(self, cluster: str, machines: int) -> None:
        self._wanted[cluster] = machines
        self._operators[cluster].ask_for(need(cluster, machines))

    async def suffer(self, events: list[Kill | Demand]) -> None:
        """Let it all happen; then everybody lives."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(began + event.at - loop.time())
                if isinstance(event, Demand):
                    self._ask(event.cluster, event.machines)
                else:
                    group.create_task(self._strike(event))

    async def restart_for_ever(self) -> None:
        """As a kubelet does with containers that end by themselves."""
        while True:
            for name, process in self._processes.items():
                if not process.runs and name not in self._down:
                    self.ended[name] += 1
                    await process.start()
            await asyncio.sleep(_RESTART_SECONDS)

    async def _strike(self, event: Kill) -> None:
        """Kill somebody, and bring it back; one that is down already has nothing to fear."""
        victim = self._operators.get(event.victim) or self._processes[event.victim]
        if event.victim in self._down or not victim.runs:
            return
        self._down.add(event.victim)
        self.kills[event.victim] += 1
        await victim.kill()
        await asyncio.sleep(event.down_seconds)
        await victim.start()
        self._down.discard(event.victim)

    async def agreement(self) -> None:
        """Inventory, provider, operators and demand come to agree; else an error says where they do not."""
        complaints: list[str] = []

        async def agreed() -> bool:
            try:
                complaints[:] = [complaint async for complaint in self._complaints()]
            except (grpc.aio.AioRpcError, OSError) as error:
                complaints[:] = [repr(error)]
            return not complaints

        try:
            await eventually(agreed, seconds=SETTLE_SECONDS)
        except TimeoutError:
            raise AssertionError("\n".join(complaints)) from None

    async def _complaints(self) -> AsyncIterator[str]:
        machines = await self._supply.machines()
        for cluster, operator in self._operators.items():
            bound = {one.id: pb.MachineState.Name(one.state) for one in machines.values() if one.cluster == cluster}
            if list(bound.values()) != ["CONFIGURED"] * self._wanted[cluster]:
                yield f"{cluster} wants {self._wanted[cluster]} machines; the provider has {bound}"
            if operator.states() != bound:
                yield f"{cluster} believes {operator.states()}; the provider has {bound}"
        for name in self.ended.keys() - {member.options.id for member in self._trio.members}:
            yield f"{name} ended by itself"
        for complaint in self._of_states(machines):
            yield complaint
        for shard, zone in zip(self._supply.shards, ZONES, strict=True):
            counts = Counter(pb.MachineState.Name(one.state).title() for one in machines.values() if one.zone == zone)
            for state, count in counts.items():
                seen = await shard.metric("shard_inventory_machines", state=state)
                if seen != count:
                    yield f"{shard.name} knows {seen:g} {state} machines; the provider has {count}"
            if await shard.metric("shard_action_execute_outcomes_total", outcome="fenced"):
                yield f"{shard.name} was fenced"
        for member in self._trio.members:
            if not await member.ready():
                yield f"{member.options.id} is not ready"
        registered = {one.shard_id for one in await (await self._trio.leader()).shards()}
        if registered != {"shard-0", "shard-1"}:
            yield f"the coordinators know {sorted(registered)}"

    def _of_states(self, machines: dict[str, pb.Machine]) -> Iterator[str]:
        for machine in machines.values():
            if machine.state not in (pb.SPECULATIVE, pb.IDLE, pb.CONFIGURED):
                yield f"{machine.id} is {pb.MachineState.Name(machine.state)}: {machine.last_error or 'on its way'}"


@asynccontextmanager
async def fleet_at(
    directory: Path, authority: Authority, tools: toolchain.Toolchain, apiserver: ApiServer
) -> AsyncIterator[Fleet]:
    trio = trio_of(authority, directory / "coordinators", tools)
    coordinators = ",".join(member.options.listen for member in trio.members)
    supply = Supply(
        directory,
        authority,
        zones=ZONES,
        fleet=FLEET,
        clusters=CLUSTERS,
        shard=[f"--coordinator-addr={coordinators}", "--coordinator-heartbeat-interval-seconds=0.5"],
    )
    async with trio.running(), supply.running(), KubeClient(apiserver.config) as kube, AsyncExitStack() as stack:
        operators: dict[str, PlayedOperator | RealOperator] = {}
        for number, cluster in enumerate(CLUSTERS):
            places = (supply.shards[number % 2].address, supply.provider.address, directory / cluster)
            if cluster == REAL:
                operators[cluster] = RealOperator(cluster, *places, apiserver, kube)
            else:
                operators[cluster] = PlayedOperator(cluster, *places)
        fleet = Fleet(trio, supply, operators)
        for operator in operators.values():
            await stack.enter_async_context(operator.running())
        kubelet = asyncio.create_task(fleet.restart_for_ever())
        try:
            yield fleet
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)
