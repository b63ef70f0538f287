"""What comes in before a cycle can decide on it: every cluster's roll-up, and the provider's whole List.

`python -m tests.bench.engine.ingest [SHAPE …]`; 5k and 50k unless told otherwise. The way is the shard's own: bytes,
message, core types, the shard's tables, the fleet's columns. Nothing is judged here; the cycle itself is
`tests.bench.engine.hot`'s.
"""

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bigfleet.api.v1alpha1.capacity_pb2 import ClusterCapacityNeeds
from bigfleet.api.v1alpha1.provider_pb2 import CapacityType, HostRef, MachineList, MachineState
from bigfleet.api.v1alpha1.provider_pb2 import Machine as WireMachine
from bigfleet.core.machines import Machine
from bigfleet.core.needs import Need
from bigfleet.shard.convert import machine_from_wire, merged, need_to_wire, needs_from_wire, resources_to_wire
from bigfleet.shard.inventory.inventory import Inventory
from bigfleet.shard.sessions.frames import Rollup
from bigfleet.shard.sessions.needs import NeedsTable
from scaletest.model.demand.draw import cluster_id
from tests.bench.engine.cases import changed_rows
from tests.bench.engine.fleets import SHAPES, Shape, SyntheticFleet
from tests.bench.measuring.report import emit

_SHAPES = ("5k", "50k")


class Stopwatch:
    """CPU seconds by step."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds[name] += time.process_time() - began

    def told(self, each: int) -> dict[str, object]:
        """Microseconds of each step for one of so many things, and milliseconds for all of them."""
        whole = sum(self.seconds.values())
        return {
            "us_each": {name: round(1e6 * seconds / each, 2) for name, seconds in self.seconds.items()},
            "us_each_together": round(1e6 * whole / each, 2),
            "ms": round(1e3 * whole, 1),
        }


class Ingest:
    """A shard's tables and fleet, fed with bytes."""

    def __init__(self) -> None:
        self._inventory = Inventory(clock=lambda: 0.0)
        self._needs = NeedsTable(guard=True)
        self._known: dict[str, dict[bytes, Need]] = {}

    def take_list(self, data: bytes) -> Stopwatch:
        watch = Stopwatch()
        with watch.step("decode"):
            answer = MachineList.FromString(data)
        with watch.step("convert"):
            machines = [machine_from_wire(message) for message in answer.machines]
        with watch.step("fleet"):
            for machine in machines:
                self._inventory.observe(machine)
        return watch

    def take_rollups(self, rollups: Sequence[tuple[str, bytes]]) -> Stopwatch:
        watch = Stopwatch()
        for cluster, data in rollups:
            with watch.step("convert"):
                rows = Rollup(data).rows
                needs = self._known[cluster] = dict(
                    zip(rows, needs_from_wire(cluster, rows, self._known.get(cluster, {})), strict=True)
                )
            with watch.step("table"):
                self._needs.replace(cluster, merged(needs.values()), 0.0)
            with watch.step("fleet"):
                for news in self._needs.unheard():
                    self._inventory.machines.fleet.replace_needs(*news)
        return watch


def measure(shape: Shape) -> None:
    synthetic, ingest = SyntheticFleet(shape), Ingest()
    listed = MachineList(machines=map(machine_to_wire, synthetic.machines()), full=True).SerializeToString()
    usual = list(_rollups(synthetic))
    churned = list(_rollups(synthetic, turn=1))
    steps: dict[str, Callable[[], Stopwatch]] = {
        "first roll-ups": lambda: ingest.take_rollups(usual),
        "first List": lambda: ingest.take_list(listed),
        "same List again": lambda: ingest.take_list(listed),
        "same roll-ups again": lambda: ingest.take_rollups(usual),
        "roll-ups, 2 % of the rows changed": lambda: ingest.take_rollups(churned),
    }
    for name, step in steps.items():
        gc.collect()
        each = shape.machines if name.endswith(("List", "List again")) else shape.need_rows
        emit("ingest", shape=shape.name, what=name, count=each, **step().told(each))


def _rollups(synthetic: SyntheticFleet, turn: int | None = None) -> Iterator[tuple[str, bytes]]:
    for ordinal in range(synthetic.shape.clusters):
        changed = frozenset[int]() if turn is None else changed_rows(synthetic.shape, ordinal, turn)
        yield cluster_id(ordinal), _rollup_bytes(synthetic.demand.rollup(ordinal, changed))


def _rollup_bytes(needs: Sequence[Need]) -> bytes:
    return ClusterCapacityNeeds(needs=map(need_to_wire, needs)).SerializeToString()


def machine_to_wire(machine: Machine) -> WireMachine:
    return WireMachine(
        id=machine.id,
        state=MachineState.Name(machine.state),
        instance_type=machine.instance_type,
        zone=machine.zone,
        price_per_hour=machine.price_per_hour,
        interruption_probability=machine.interruption_probability,
        labels=machine.labels,
        allocatable=resources_to_wire(machine.allocatable),
        capacity_type=CapacityType.Name(machine.capacity_type),
        host=HostRef(ref=machine.host),
    )


if __name__ == "__main__":
    if unknown := set(sys.argv[1:]) - SHAPES.keys():
        sys.exit(f"there is no shape {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    for name in sys.argv[1:] or _SHAPES:
        measure(SHAPES[name])
