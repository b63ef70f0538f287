"""The rails hold in virtual time, in the whole loop, at any cycle rate (docs/reference/engine.md#rails, ADR-36)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.engine import ActionKind, EngineOptions
from bigfleet.provider.fake.latency import Latency
from bigfleet.sim.world import faults
from bigfleet.sim.world.provider import ProviderModel
from bigfleet.sim.world.shard import ShardModel
from bigfleet.sim.world.simulation import Simulation, WorldModel
from tests.unit.sim_world import fleet, pod

MACHINES, DROP_AT = 200, 60.0
# What the shard's own default is.
OPTIONS = EngineOptions(reclaim_after_seconds=30.0)


def simulation_of(cycle_seconds: float, lockstep: bool = False) -> Simulation:
    """A cluster that fills its machines."""
    model = WorldModel(
        engine=OPTIONS,
        shard=ShardModel(cycle_seconds, lockstep),
        provider=ProviderModel({ActionKind.RECLAIM: Latency(3.0, 45.0)}),
    )
    machines = [replace(one, capacity_type=CapacityType.SPOT) for one in fleet(MACHINES)]
    simulation = Simulation(model, machines, ["one"], seconds=3600.0)
    simulation.clusters["one"].create("web", pod(cores=4), MACHINES)
    simulation.prepare()
    simulation.start()
    return simulation


def most_within(seconds: float, moments: Sequence[float]) -> int:
    return max((sum(start <= one < start + seconds for one in moments) for start in moments), default=0)


@pytest.mark.parametrize(
    ("cycle_seconds", "lockstep"), [(0.1, True), (1.0, True), (10.0, True), (10.0, False), (60.0, False)]
)
def test_a_demand_that_drops_by_four_fifths_is_given_back_below_the_cap_a_minute_at_any_cycle_rate(
    cycle_seconds: float, lockstep: bool
) -> None:
    simulation = simulation_of(cycle_seconds, lockstep)
    simulation.timeline.run_until(DROP_AT)
    simulation.clusters["one"].scale("web", MACHINES // 5)
    simulation.timeline.run_until(DROP_AT + 300)
    reclaims = simulation.recorder.times[ActionKind.RECLAIM]
    assert most_within(10, reclaims) <= 0.05 * MACHINES
    assert most_within(60, reclaims) <= 0.30 * MACHINES
    # Nor is it slower than the cap allows, however seldom the timer rings.
    assert len(reclaims) >= 120
    simulation.timeline.run_until(3600)
    assert len(reclaims) == MACHINES - MACHINES // 5
    deletes = simulation.recorder.times[ActionKind.DELETE]
    assert most_within(10, deletes) <= 0.05 * MACHINES
    assert simulation.shard.states[MachineState.CONFIGURED] == MACHINES // 5
    assert simulation.problems() == []


def test_a_cluster_without_a_session_loses_nothing_until_it_is_back() -> None:
    simulation = simulation_of(10.0)
    simulation.timeline.run_until(DROP_AT)
    simulation.clusters["one"].scale("web", MACHINES // 5)
    simulation.timeline.run_until(DROP_AT + 15)  # the shard has heard of it, and lets the excess stand
    faults.partition(simulation, "one", DROP_AT + 16, DROP_AT + 600)
    reclaims = simulation.recorder.times[ActionKind.RECLAIM]
    simulation.timeline.run_until(DROP_AT + 599)
    assert reclaims == []
    simulation.timeline.run_until(DROP_AT + 625)
    assert 0 < len(reclaims) <= 30


def test_after_a_restart_nobody_is_preempted_before_his_cluster_has_spoken() -> None:
    model = WorldModel(engine=OPTIONS, shard=ShardModel(10.0))
    simulation = Simulation(model, fleet(8), ["batch", "urgent"], seconds=600.0)
    simulation.clusters["batch"].create("jobs", pod(cores=4, priority=100), 8)
    simulation.prepare()
    simulation.start()
    simulation.timeline.run_until(60)
    faults.partition(simulation, "batch", 61, 200)
    faults.restart_shard(simulation, 65)
    simulation.timeline.run_until(70)
    simulation.clusters["urgent"].create("pay", pod(cores=4, priority=1_000_000), 4)
    simulation.timeline.run_until(199)
    preempts = simulation.recorder.times[ActionKind.PREEMPT]
    assert preempts == []
    simulation.timeline.run_until(300)
    assert len(preempts) == 4
    assert simulation.clusters["urgent"].bound == 4
