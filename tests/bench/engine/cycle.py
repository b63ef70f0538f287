"""A whole cycle of a shard: reconcile, decide, dispatch, publish; then what people and Prometheus ask for after it.

`python -m tests.bench.engine.cycle [SHAPE …]`; 50k unless told otherwise. All parts are the shard's own but the
sockets: the provider answers with the wire's bytes and does at once what it is told, sessions have nobody who reads
them.
"""

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from prometheus_client import generate_latest

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.engine import Engine
from bigfleet.shard.cycle import Cycles, Wake
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.provider.audit import AuditLog
from bigfleet.shard.sessions.sessions import Sessions
from scaletest.model.demand.draw import cluster_id
from tests.bench.engine.cases import CHURN, changed_rows
from tests.bench.engine.fleets import SHAPES, Shape, SyntheticFleet
from tests.bench.engine.ingest import machine_to_wire
from tests.bench.measuring.report import against, emit, verdict
from tests.unit.shard_world import ScriptedProvider, World

BAR_MS = {"50k": 250.0}
_ROUNDS = 9
_MOST_CYCLES = 100


class Quick(ScriptedProvider):
    """Has all machines of a shape. What it is asked for is done before it is asked again."""

    def __init__(self, synthetic: SyntheticFleet) -> None:
        super().__init__()
        self.machines = {machine.id: machine_to_wire(machine) for machine in synthetic.machines()}
        self._under_way: dict[str, MachineState] = {}
        self.bound: dict[str, None] = {}

    async def configure(
        self, machine_id: str, cluster: str, blob: bytes, metadata: dict[str, str]
    ) -> pb.Machine | None:
        machine = self.machines[machine_id]
        machine.cluster = cluster
        machine.shard_metadata.update(metadata)
        return self._move(machine_id, MachineState.CONFIGURING, MachineState.CONFIGURED)

    async def create(self, machine_id: str) -> pb.Machine | None:
        return self._move(machine_id, MachineState.CREATING, MachineState.IDLE)

    async def drain(self, machine_id: str, grace_seconds: int) -> pb.Machine | None:
        return self._move(machine_id, MachineState.DRAINING, MachineState.IDLE)

    async def delete(self, machine_id: str) -> pb.Machine | None:
        return self._move(machine_id, MachineState.DELETING, MachineState.SPECULATIVE)

    def _move(self, machine_id: str, through: MachineState, to: MachineState) -> pb.Machine:
        self._under_way[machine_id] = to
        self._set(machine_id, through)
        return pb.Machine.FromString(self.machines[machine_id].SerializeToString())

    def finish(self) -> int:
        """Everything that is under way comes to its end; how many those were."""
        under_way, self._under_way = self._under_way, {}
        for machine_id, state in under_way.items():
            self._set(machine_id, state)
        return len(under_way)

    def lose(self, count: int, turn: int) -> None:
        for machine_id in Random(turn).sample(list(self.bound), count):
            self._set(machine_id, MachineState.FAILED)

    def _set(self, machine_id: str, state: MachineState) -> None:
        machine = self.machines[machine_id]
        machine.MergeFrom(pb.Machine(state=pb.MachineState.Name(state)))
        machine.last_error = "lost by the bench" if state is MachineState.FAILED else ""
        if state in (MachineState.IDLE, MachineState.SPECULATIVE, MachineState.FAILED):
            machine.cluster = ""
            machine.shard_metadata.clear()
            self.bound.pop(machine_id, None)
        if state is MachineState.CONFIGURED:
            self.bound[machine_id] = None
        machine.host.ref = "" if state in (MachineState.SPECULATIVE, MachineState.CREATING) else f"host-{machine_id}"
        self.changes.append(machine_id)

    async def list(self, since_revision: bytes) -> pb.MachineList:
        answer = await super().list(since_revision)
        return pb.MachineList.FromString(answer.SerializeToString())


class Running:
    """A shard of one shape at rest."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        self.shape = shape
        self._demand = SyntheticFleet(shape).demand
        self.provider = Quick(SyntheticFleet(shape))
        world = self._world = World(folder, provider=self.provider)
        world.operators.drained.set()
        wake = Wake()
        self._sessions = Sessions(world.needs, world.metrics, 1, lambda: 1, wake, 5.0, 10.0)
        self._sessions.notices = world.notices
        world.notices._send = self._sessions.send_notice
        options = ShardOptions(data_dir=folder, plaintext=True)
        self._cycles = Cycles(
            options, Engine(), world.inventory, world.needs, world.reconcilers, world.executor, world.holds,
            world.quotas, self._sessions, world.metrics, AuditLog(None), wake, lambda: world.now,
            lambda: world.now,
        )  # fmt: skip

    async def settle(self) -> None:
        for ordinal in range(self.shape.clusters):
            self._world.operators.connected_clusters.add(cluster_id(ordinal))
            self._sessions._install(cluster_id(ordinal))
            self.roll_up(ordinal)
        for _ in range(_MOST_CYCLES):
            await self._cycles._once()
            if not await self.come_to_rest():
                return
        raise RuntimeError(f"{self.shape.name} is not at rest after {_MOST_CYCLES} cycles")

    async def come_to_rest(self) -> int:
        """Let what was dispatched be done, all but the last word on it, and operators read; how much that was."""
        while self._world.executor._tasks:
            await asyncio.sleep(0)
        for session in self._sessions._sessions.values():
            session.outbox._frames.clear()
            session.outbox._hints.clear()
        self._world.now += 10.0
        return self.provider.finish()

    def roll_up(self, ordinal: int, changed: frozenset[int] = frozenset()) -> None:
        needs = self._demand.rollup(ordinal, changed)
        self._world.needs.replace(cluster_id(ordinal), needs, self._world.now)

    async def cycle(self) -> dict[str, float]:
        """Milliseconds of each part."""
        gc.collect()
        began = time.perf_counter()
        await self._cycles._once()
        decided = time.perf_counter()
        generate_latest(self._world.registry)
        exposed = time.perf_counter()
        list(self._cycles.latest.decisions.views)
        viewed = time.perf_counter()
        return {
            "cycle": 1000 * (decided - began),
            "metrics": 1000 * (exposed - decided),
            "views": 1000 * (viewed - exposed),
        }


def _steady(_shard: Running, _turn: int) -> None:
    """Nothing changes."""


def _one_rollup(shard: Running, turn: int) -> None:
    ordinal = turn % shard.shape.clusters
    shard.roll_up(ordinal, changed_rows(shard.shape, ordinal, turn))


def _churn(shard: Running, turn: int) -> None:
    shard.provider.lose(round(CHURN * len(shard.provider.bound)), turn)
    for ordinal in range(shard.shape.clusters):
        shard.roll_up(ordinal, changed_rows(shard.shape, ordinal, turn))


CASES: dict[str, Callable[[Running, int], None]] = {
    "steady": _steady,
    "one roll-up": _one_rollup,
    "2 % churn": _churn,
}


async def measure(shape: Shape) -> None:
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        shard = Running(shape, Path(folder))
        await shard.settle()
        for name, happen in CASES.items():
            rounds = []
            for turn in range(_ROUNDS):
                happen(shard, turn)
                rounds.append(await shard.cycle())
                await shard.come_to_rest()
            parts = {part: round(statistics.median(one[part] for one in rounds), 2) for part in rounds[0]}
            whole = statistics.median(sum(one.values()) for one in rounds)
            emit(
                "whole cycle",
                shape=shape.name,
                machines=shape.machines,
                need_rows=shape.need_rows,
                bound=len(shard.provider.bound),
                case=name,
                ms=parts,
                whole_ms=against(whole, BAR_MS[shape.name]) if shape.name in BAR_MS else round(whole, 2),
            )


if __name__ == "__main__":
    for one in sys.argv[1:] or BAR_MS:
        asyncio.run(measure(SHAPES[one]))
    sys.exit(verdict())
