"""What a simulation says of steps of demand: covered after, given back after, machines held."""

from collections import Counter
from dataclasses import dataclass, field

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.vectors import ReadVector
from bigfleet.sim.world.simulation import Simulation
from scaletest.judge.gates.gate import Reading
from scaletest.judge.gates.windows import SoakWindow
from scaletest.judge.prometheus import Point
from scaletest.judge.readings.recoveries import LEVEL_SECONDS, covered_after, returned_after, rise_before

# The Pods of a lost machine live on for so long (ADR-25): what it offered counts until then, as it does in a run.
_GRACE_SECONDS = 30.0


@dataclass
class MovesWatch:
    """Looked at as often as a run would be scraped; only for plans that judge a step."""

    simulation: Simulation
    soak: SoakWindow
    held: list[Point] = field(default_factory=list)
    uncovered: list[Point] = field(default_factory=list)
    _since: float | None = None
    # Machines in service at the last look, and those that have gone, with when.
    _known: dict[str, Machine] = field(default_factory=dict)
    _gone: list[tuple[float, Machine]] = field(default_factory=list)

    def look(self) -> None:
        now = self.simulation.timeline.now
        here = {one.id: one for one in self.simulation.shard.machines.values() if one.state is MachineState.CONFIGURED}
        self._gone += [(now, machine) for name, machine in self._known.items() if name not in here]
        self._gone = [(since, machine) for since, machine in self._gone if now - since <= _GRACE_SECONDS]
        self._known = here
        self.held.append((now, float(len(here))))
        offered: dict[str, Counter[str]] = {name: Counter() for name in self.simulation.clusters}
        for machine in (*here.values(), *(machine for _, machine in self._gone)):
            _add(offered[machine.cluster], machine.allocatable)
        asked: dict[str, Counter[str]] = {name: Counter() for name in self.simulation.clusters}
        for name, cluster in self.simulation.clusters.items():
            for need in cluster.rollup():
                _add(asked[name], need.aggregate)
        short = any(asked[name][resource] > offered[name][resource] for name in asked for resource in asked[name])
        self._since = (self._since if self._since is not None else now) if short else None
        self.uncovered.append((now, 0.0 if self._since is None else now - self._since))

    def readings(self) -> dict[str, Reading]:
        found: dict[str, Reading] = {}
        for move in self.soak.moves:
            window = self.soak.of(move)
            inside = [point for point in self.uncovered if window.start <= point[0] <= window.end]
            if move.up:
                found["stepCoveredSeconds"] = covered_after(inside, window)
                continue
            step = rise_before(self.soak, move)
            before = [point for point in self.held if step - LEVEL_SECONDS <= point[0] <= step]
            after = [point for point in self.held if window.start <= point[0] <= window.end]
            found["shedReturnedSeconds"] = returned_after(before, after, window)
        calm = self.soak.stretches("calm")
        held = [value for at, value in self.held if any(one.start <= at <= one.end for one in calm)]
        if held:
            found["machinesHeld"] = Reading(max(held))
        return found


def _add(total: Counter[str], vector: ReadVector) -> None:
    for resource, milli in vector.items():
        total[resource] += milli
