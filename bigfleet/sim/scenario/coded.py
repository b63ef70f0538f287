"""The six scripted scenarios: one synchronous step per cycle, an instant provider, no rails.

docs/reference/engine.md#scenarios has their figures.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bigfleet.core import penalty
from bigfleet.core.machines import UNASSIGNED, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import INSTANCE_TYPE_KEY, ZONE_KEY, NeedProfile, Requirement, RequirementOperator
from bigfleet.core.vectors import Vector
from bigfleet.engine import Action, ActionKind, Decisions, EngineOptions
from bigfleet.shard.convert import assignment_for
from bigfleet.sim.checks import ScenarioCheck
from bigfleet.sim.scenario.trace import Trace
from bigfleet.sim.world.shard import ShardModel
from bigfleet.sim.world.simulation import Simulation, WorldModel

_TYPE, _ZONE, _GPU = "a3-highgpu-8g", "us-east-1a", "nvidia.com/gpu"
_BATCH, _URGENT = 100_000, 1_000_000
_CYCLE_SECONDS = 10.0


class Script:
    """A world that is stepped by hand, and its trace."""

    def __init__(self, name: str, machines: Sequence[Machine], fail_next: ActionKind | None = None) -> None:
        no_caps = EngineOptions(reclaim_cap_fraction=0, release_cap_fraction=0)
        model = WorldModel(engine=no_caps, guard=False, shard=ShardModel(lockstep=True))
        self._simulation = Simulation(model, machines, (), seconds=_CYCLE_SECONDS)
        self.shard = self._simulation.shard
        if fail_next:
            self._simulation.provider.fail_next[fail_next] = 1
        self.trace = Trace()
        self.trace.start(name)
        self.shard.reconcile()
        self.shard.on_cycle = self._note
        self.checks: list[ScenarioCheck] = []
        self.taken: Sequence[Action] = ()

    def rollup(self, cluster: str, *needs: Need) -> None:
        self.trace.rollup(cluster, len(needs))
        self.shard.receive(cluster, needs)

    def cycle(self) -> Decisions:
        decisions = self.shard.cycle()
        self._simulation.timeline.now += _CYCLE_SECONDS
        return decisions

    def check(self, text: str, seen: object, wanted: object) -> None:
        self.checks.append(ScenarioCheck(text, seen == wanted, f"{seen}"))

    def count(self, state: MachineState, cluster: str = "") -> int:
        return sum(m.state is state and (not cluster or m.cluster == cluster) for m in self.shard.machines.values())

    def kinds(self) -> dict[str, int]:
        """What the last cycle did."""
        return {kind.value: number for kind in ActionKind if (number := sum(a.kind is kind for a in self.taken))}

    def _note(self, _decisions: Decisions, taken: Sequence[Action]) -> None:
        self.taken = taken
        self.trace.cycle(taken, self.shard)


def _gpus(number: int) -> Vector:
    return {_GPU: number * 1000}


def _profile(priority: int, gang: bool = False) -> NeedProfile:
    requirements = [Requirement(INSTANCE_TYPE_KEY, RequirementOperator.IN, (_TYPE,))]
    if gang:
        requirements.append(Requirement(ZONE_KEY, RequirementOperator.SAME))
    return NeedProfile.canonical(requirements, (), priority, penalty.bucket_of(8192), penalty.PINNED)


def _machines(number: int, held_by: str = "", priority: int = _URGENT) -> list[Machine]:
    return [
        Machine(
            f"m-{index:03}",
            MachineState.CONFIGURED if held_by else MachineState.IDLE,
            instance_type=_TYPE,
            zone=_ZONE,
            capacity_type=CapacityType.BARE_METAL,
            allocatable=_gpus(8),
            host=f"host-m-{index:03}",
            cluster=held_by,
            assignment=assignment_for(_profile(priority), "") if held_by else UNASSIGNED,
        )
        for index in range(number)
    ]


def _need(cluster: str, machines: int, priority: int = _URGENT, gang: bool = False) -> Need:
    group = f"{ZONE_KEY}\x00job=train,;" if gang else ""
    return Need(cluster, _profile(priority, gang), _gpus(8 * machines), _gpus(8), group)


def _training_job_topology() -> Script:
    script = Script("training-job-topology", _machines(64))
    script.rollup("train", _need("train", 64, gang=True))
    decisions = script.cycle()
    script.check("64 machines are Configured after one cycle", script.count(MachineState.CONFIGURED, "train"), 64)
    script.check("nothing is short", len(decisions.shortfalls), 0)
    script.check("the gang is in one zone", decisions.views[0].same_domain, _ZONE)
    return script


def _capacity_stockout() -> Script:
    script = Script("capacity-stockout", _machines(32))
    script.rollup("train", _need("train", 64))
    script.cycle()
    decisions = script.cycle()
    script.check("all 32 machines are Configured", script.count(MachineState.CONFIGURED, "train"), 32)
    script.check("one shortfall of 256 GPUs", [s.deficit for s in decisions.shortfalls], [_gpus(256)])
    script.check("it is two cycles old", [s.age_cycles for s in decisions.shortfalls], [2])
    return script


def _priority_inversion() -> Script:
    script = Script("priority-inversion", _machines(4, held_by="batch", priority=_BATCH))
    script.rollup("batch", _need("batch", 4, _BATCH))
    script.rollup("urgent", _need("urgent", 4))
    script.cycle()
    script.check("the first cycle preempts four machines", script.kinds(), {"Preempt": 4})
    script.check("they are Idle", script.count(MachineState.IDLE), 4)
    script.cycle()
    script.check("the second cycle bootstraps four", script.kinds(), {"Bootstrap": 4})
    script.check("for the newcomer", script.count(MachineState.CONFIGURED, "urgent"), 4)
    return script


def _withdrawal() -> Script:
    script = Script("withdrawal", _machines(32, held_by="train"))
    script.rollup("train")
    script.cycle()
    script.check("one cycle reclaims all 32", script.kinds(), {"Reclaim": 32})
    script.check("all are Idle", script.count(MachineState.IDLE), 32)
    return script


def _provider_configure_failure() -> Script:
    script = Script("provider-configure-failure", _machines(4), fail_next=ActionKind.BOOTSTRAP)
    script.rollup("train", _need("train", 3))
    script.cycle()
    script.cycle()
    script.check("three are Configured after two cycles", script.count(MachineState.CONFIGURED, "train"), 3)
    script.check("one is Failed", script.count(MachineState.FAILED), 1)
    errors = [m.last_error for m in script.shard.machines.values() if m.state is MachineState.FAILED]
    script.check("and says why", errors, ["Bootstrap failed"])
    return script


def _drain_failure_withdrawal() -> Script:
    script = Script("drain-failure-withdrawal", _machines(8, held_by="train"), fail_next=ActionKind.RECLAIM)
    script.rollup("train")
    script.cycle()
    script.check("seven are Idle", script.count(MachineState.IDLE), 7)
    script.check("one is Failed", script.count(MachineState.FAILED), 1)
    return script


@dataclass(frozen=True)
class Coded:
    """A scripted scenario."""

    description: str
    play: Callable[[], Script] = field(repr=False)


CODED = {
    "training-job-topology": Coded("A gang of 64 machines in one zone, in one cycle.", _training_job_topology),
    "capacity-stockout": Coded("Twice as much demand as machines: all are used, the rest is told.", _capacity_stockout),
    "priority-inversion": Coded("A newcomer of higher priority takes machines from batch.", _priority_inversion),
    "withdrawal": Coded("A cluster needs nothing any more: everything comes back at once (rails off).", _withdrawal),
    "provider-configure-failure": Coded(
        "One Configure fails: another machine takes over.", _provider_configure_failure
    ),
    "drain-failure-withdrawal": Coded("One drain fails: the others are not held up.", _drain_failure_withdrawal),
}
