"""A shard takes over its provider's machines: how many a second, whole and changed, and what each takes of its memory.

`python -m tests.bench.shard.reconcile [MACHINES …]`; 500,000 unless told otherwise, from the bytes of a List, each in a
fresh process. Then with gRPC between a provider's and a shard's process (`tests.bench.shard.wire`), 100,000 unless told
otherwise.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bigfleet.api.v1alpha1 import provider_pb2 as pb
from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import NeedProfile
from bigfleet.engine import Engine
from bigfleet.process import memory
from bigfleet.shard.convert import assignment_for, metadata_from_assignment
from tests.bench.measuring.report import against, emit, verdict
from tests.bench.measuring.running import run
from tests.bench.shard import wire
from tests.unit.shard_world import ScriptedProvider, World

BAR_BYTES = 300
CHANGED = 10_000
_CLUSTERS = 200
# Of all machines, those that are bound to a cluster.
_BOUND = 0.8
_KINDS = 20
_RACKS = 30


class Bulk(ScriptedProvider):
    """Lists what it is given, over the wire's bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = b""

    async def list(self, since_revision: bytes) -> pb.MachineList:
        return pb.MachineList.FromString(self.answer)


def machines(count: int, state: MachineState = MachineState.CONFIGURED) -> Iterator[pb.Machine]:
    """Of a few kinds and many racks; most of them bound, in this state."""
    for number in range(count):
        kind = number % _KINDS
        bound = number < count * _BOUND
        machine = pb.Machine(
            id=f"conf-s0-c{number % _CLUSTERS}-i{number}" if bound else f"idle-{number}",
            state=pb.MachineState.Name(state if bound else MachineState.IDLE),
            host=pb.HostRef(provider="fake", ref=f"fake://host-{number}"),
            instance_type=f"m{kind}.large",
            zone=f"zone-{kind % 3}",
            capacity_type=pb.ON_DEMAND,
            price_per_hour=1.0 + kind / 10,
            interruption_probability=0.05,
            allocatable=pb.Resources(resources={"cpu": str(4 + kind), "memory": "16Gi", "pods": "110"}),
            labels={"topology.bigfleet/rack": f"rack-{number % _RACKS}"},
        )
        if bound:
            machine.cluster = f"kwok-cluster-{number % _CLUSTERS}"
            profile = NeedProfile.canonical([], [], 100 * (number % 7), 3, 0)
            machine.shard_metadata.update(metadata_from_assignment(assignment_for(profile, "")))
        yield machine


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="scaletest-bench-") as folder:
        provider = Bulk()
        world = World(Path(folder), provider=provider)
        world.notices._send = lambda _: None  # no operator is there to be told
        provider.answer = pb.MachineList(machines=machines(10), revision=b"0").SerializeToString()
        await world.reconciler.reconcile()
        engine, fleet = Engine(), world.inventory.machines.fleet
        engine.cycle(fleet, now=0.0)
        provider.answer = pb.MachineList(machines=machines(count), revision=b"1", full=True).SerializeToString()
        listed_bytes = len(provider.answer)
        memory.give_back()
        before = _resident_bytes()
        whole = await _timed(world)
        engine.cycle(fleet, now=0.0)  # its indexes and what it remembers count too
        memory.give_back()  # as the shard after that cycle
        grown = _resident_bytes() - before
        provider.answer = pb.MachineList(revision=b"2").SerializeToString()
        nothing = await _timed(world)
        changed = [machine for machine, _ in zip(machines(count, MachineState.DRAINING), range(CHANGED), strict=False)]
        provider.answer = pb.MachineList(machines=changed, revision=b"3").SerializeToString()
        incremental = await _timed(world)
    emit(
        "reconcile",
        machines=count,
        bound=round(count * _BOUND),
        clusters=_CLUSTERS,
        list_bytes_per_machine=round(listed_bytes / count),
        whole_cpu_seconds=round(whole, 2),
        whole_machines_per_second=round(count / whole),
        changed_machines=CHANGED,
        changed_machines_per_second=round(CHANGED / incremental),
        nothing_changed_ms=round(1000 * nothing, 3),
        bytes_per_machine=against(grown / count, BAR_BYTES),
    )


async def _timed(world: World) -> float:
    """CPU seconds: neighbours on the machine make them neither more nor less."""
    began = time.process_time()
    await world.reconciler.reconcile()
    return time.process_time() - began


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(counts: list[str]) -> int:
    if os.environ.get("BENCH_APART"):
        asyncio.run(measure(int(counts[0])))
        return verdict()
    codes = [
        subprocess.run([sys.executable, "-m", __spec__.name, count], env=os.environ | {"BENCH_APART": "1"}).returncode
        for count in counts or ["500000"]
    ]
    for count in counts or ["100000"]:
        run(partial(wire.measure, int(count)))
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
