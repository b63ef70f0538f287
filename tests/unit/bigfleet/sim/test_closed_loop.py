"""The closed loop stands still at steady demand, and old bugs show their symptoms.

See docs/reference/harness.md#closed-loop.
"""

from collections.abc import Mapping, Sequence

import pytest

from bigfleet.core.machines import MachineState
from bigfleet.core.requirements import RACK_KEY
from bigfleet.engine import Action, ActionKind, Decisions
from bigfleet.scheduling.pods import PodClass
from bigfleet.sim.world import faults, workloads
from bigfleet.sim.world.cluster import ClusterModel
from bigfleet.sim.world.simulation import Simulation
from tests.unit.sim_world import CYCLE, fleet, machine, pod, run_cycles, simulate

DEMAND = {
    "one": {"web": (pod(), 20), "gang": (pod(cores=4, gang=RACK_KEY), 3)},
    "two": {"web": (pod(cores=2), 10), "urgent": (pod(cores=4, priority=1_000_000), 2)},
}
WEB = {"one": {"web": (pod(), 20)}}


def actions_after(simulation: Simulation, cycles: int) -> dict[ActionKind, int]:
    """What is still done after so many cycles, in fifty more."""
    run_cycles(simulation, cycles)
    start = simulation.timeline.now
    run_cycles(simulation, 50)
    return {k: n for k in ActionKind if (n := simulation.recorder.between(k, start, simulation.timeline.now))}


def test_steady_demand_is_covered_and_then_nothing_moves() -> None:
    simulation = simulate(fleet(60), DEMAND)
    for cluster in simulation.clusters.values():
        workloads.churn(simulation, cluster, per_minute=0.2)
    assert actions_after(simulation, 10) == {}
    assert simulation.recorder.actions[ActionKind.RECLAIM] == 0
    assert [cluster.pending for cluster in simulation.clusters.values()] == [0, 0]
    assert simulation.problems() == []


def test_gangs_that_compete_for_racks_stay_where_they_are() -> None:
    def gang(name: str, cores: int, priority: int) -> PodClass:
        return pod(cores, priority, gang=RACK_KEY, group=name)

    # Six racks of three machines: not all of it can be placed, and each of them could go elsewhere.
    demand = {
        "one": {
            "large": (gang("large", 4, 100), 3),
            "left": (gang("left", 2, 1000), 4),
            "right": (gang("right", 2, 1000), 4),
            "web": (pod(priority=50), 8),
        },
        "two": {
            "low": (gang("low", 2, 100), 2),
            "high": (gang("high", 3, 1000), 2),
            "other": (gang("other", 2, 100), 2),
        },
    }
    simulation = simulate(fleet(18), demand, dwell_cycles={ActionKind.BOOTSTRAP: 1, ActionKind.RECLAIM: 1})
    faults.lose_at(simulation, 205, share=0, number=3, vanish=True)
    assert actions_after(simulation, 30) == {}


def test_what_cannot_be_met_stays_short_by_as_much_and_moves_nothing() -> None:
    # Too little for the important, nothing for the others; no rack has room for the gang.
    demand = {
        "one": {"web": (pod(), 24), "gang": (pod(cores=4, gang=RACK_KEY), 4)},
        "two": {"batch": (pod(priority=100), 8)},
    }
    simulation = simulate(fleet(6), demand)
    told: list[list[tuple[str, Mapping[str, int], int]]] = []
    record = simulation.shard.on_cycle

    def listen(decisions: Decisions, taken: Sequence[Action]) -> None:
        record(decisions, taken)
        told.append([(one.fingerprint, one.deficit, one.age_cycles) for one in decisions.shortfalls])

    simulation.shard.on_cycle = listen
    assert actions_after(simulation, 10) == {}
    assert len(told) == 61
    for number, shortfalls in enumerate(told[11:], 12):
        assert [one[:2] for one in shortfalls] == [one[:2] for one in told[10]]
        assert {age for _, _, age in shortfalls} == {number}
    assert len(told[10]) == 3
    assert {machine.cluster for machine in simulation.shard.machines.values()} == {"one"}
    assert simulation.problems() == []


@pytest.mark.parametrize("lockstep", [True, False])
def test_the_same_seed_gives_the_same_history(lockstep: bool) -> None:
    histories = []
    for _ in range(2):
        simulation = simulate(fleet(60), DEMAND, lockstep=lockstep)
        faults.lose_steadily(simulation, 100, 400, 0.001)
        run_cycles(simulation, 60)
        histories.append((simulation.recorder.times, simulation.shard.machines))
    assert histories[0] == histories[1]


def test_a_machine_that_is_removed_is_replaced_once() -> None:
    simulation = simulate(fleet(20), WEB)
    faults.lose_at(simulation, 95, share=0, number=1, vanish=True)
    assert actions_after(simulation, 9) == {ActionKind.BOOTSTRAP: 1}
    assert len(simulation.shard.machines) == 19
    assert simulation.clusters["one"].pending == 0


def test_without_a_request_per_pod_bound_pods_look_like_surplus_and_machines_thrash() -> None:
    simulation = simulate(fleet(20), WEB, cluster=ClusterModel(request_per_pod=False))
    assert actions_after(simulation, 10)[ActionKind.RECLAIM] > 50


def test_without_controllers_a_loss_takes_the_demand_with_it() -> None:
    simulation = simulate(fleet(20), WEB, cluster=ClusterModel(controller_managed=False))
    faults.lose_at(simulation, 95, share=0, number=1, vanish=True)
    # The lost machine is replaced for Pods that are gone by then, and the new one given back.
    assert actions_after(simulation, 9) == {ActionKind.BOOTSTRAP: 1, ActionKind.RECLAIM: 1}
    assert simulation.clusters["one"].pods == 16


def test_without_controllers_and_requests_every_pod_is_thrashed_away() -> None:
    model = ClusterModel(controller_managed=False, request_per_pod=False)
    simulation = simulate(fleet(20), WEB, cluster=model)
    run_cycles(simulation, 20)
    assert simulation.clusters["one"].pods == 0


def test_machines_that_are_being_configured_count() -> None:
    simulation = simulate(fleet(20), WEB, dwell_cycles={ActionKind.BOOTSTRAP: 3})
    assert actions_after(simulation, 1) == {}
    assert simulation.recorder.actions == {ActionKind.BOOTSTRAP: 5}


def test_machines_that_are_being_created_count() -> None:
    simulation = simulate(fleet(40, MachineState.SPECULATIVE), WEB, dwell_cycles={ActionKind.PROVISION: 4})
    run_cycles(simulation, 30)
    assert simulation.recorder.actions == {ActionKind.PROVISION: 5, ActionKind.BOOTSTRAP: 5}


def test_an_engine_that_does_not_see_what_it_ordered_buys_again_every_cycle() -> None:
    simulation = simulate(
        fleet(40, MachineState.SPECULATIVE), WEB, dwell_cycles={ActionKind.PROVISION: 4}, credits_creating=False
    )
    run_cycles(simulation, 30)
    assert simulation.recorder.actions[ActionKind.PROVISION] >= 4 * 5


def test_a_shard_that_restarts_has_forgotten_whom_it_buys_for_and_buys_again() -> None:
    machines = fleet(40, MachineState.SPECULATIVE)
    simulation = simulate(machines, WEB, dwell_cycles={ActionKind.PROVISION: 4, ActionKind.BOOTSTRAP: 1})
    faults.restart_shard(simulation, 1.5 * CYCLE)
    run_cycles(simulation, 3)
    assert simulation.recorder.actions == {ActionKind.PROVISION: 10}
    assert simulation.problems() == []
    faults.restart_shard(simulation, 5.5 * CYCLE)  # a Configure tells the provider whom it is for
    run_cycles(simulation, 60)
    assert simulation.recorder.actions == {
        ActionKind.PROVISION: 10,
        ActionKind.BOOTSTRAP: 5,
        ActionKind.DELETE: 5,
    }


def test_a_shard_that_restarts_takes_nothing_from_clusters_it_has_not_heard_from() -> None:
    simulation = simulate(fleet(20), WEB)
    run_cycles(simulation, 5)
    simulation.clusters["one"].partitioned = True
    faults.restart_shard(simulation, simulation.timeline.now + 1)
    assert actions_after(simulation, 1) == {}
    simulation.clusters["one"].partitioned = False
    assert actions_after(simulation, 1) == {}


@pytest.mark.parametrize(("seconds_between", "reclaims"), [(300, 0), (0.1, 40)])
def test_three_empty_rollups_withdraw_nothing_if_sound_ones_come_between(seconds_between: float, reclaims: int) -> None:
    demand = {"one": {f"web-{number}": (pod(cores=4, priority=1000 + number), 4) for number in range(10)}}
    simulation = simulate(fleet(40), demand, guard=True, lockstep=False)
    for number in range(3):
        faults.empty_rollup(simulation, "one", 301 + number * seconds_between)
    run_cycles(simulation, 100)
    assert simulation.recorder.actions[ActionKind.RECLAIM] == reclaims


def test_refused_calls_are_tried_again_and_do_not_empty_the_quota() -> None:
    simulation = simulate(fleet(100, MachineState.SPECULATIVE), WEB)
    faults.refuse(simulation, 0, 20 * CYCLE, [ActionKind.PROVISION], "rate limit")
    run_cycles(simulation, 19)
    assert simulation.recorder.actions[ActionKind.PROVISION] == 0
    assert simulation.shard.outcomes[ActionKind.PROVISION, "refused"] > 5
    run_cycles(simulation, 30)
    assert simulation.recorder.actions == {ActionKind.PROVISION: 5, ActionKind.BOOTSTRAP: 5}
    assert simulation.clusters["one"].pending == 0


def test_machines_in_flight_are_looked_at_every_second_while_others_back_off() -> None:
    machines = [*fleet(5), *(machine(number, MachineState.SPECULATIVE) for number in range(5, 20))]
    demand = {"one": {"web": (pod(), 24)}}  # one machine more than there are, and none can be bought
    simulation = simulate(
        machines, demand, dwell_cycles={ActionKind.BOOTSTRAP: 0.35}, repair_seconds=20, lockstep=False
    )
    faults.refuse(simulation, 0, 10_000, [ActionKind.PROVISION], "out of stock")
    faults.lose_at(simulation, 300.5, share=0, number=1, vanish=False)
    run_cycles(simulation, 40)
    assert len(simulation.shard.configure_seconds) == 6
    assert max(simulation.shard.configure_seconds) <= 3.5 + 1


def test_a_machine_that_fails_is_repaired_and_used_again() -> None:
    simulation = simulate(fleet(5), WEB, repair_seconds=35)
    faults.lose_at(simulation, 95, share=0, number=2, vanish=False)
    run_cycles(simulation, 11)
    assert simulation.shard.states[MachineState.FAILED] == 2
    assert simulation.recorder.standing == 1
    run_cycles(simulation, 10)
    assert simulation.shard.states[MachineState.CONFIGURED] == 5
    assert simulation.recorder.standing == 0
    assert simulation.unsettled() == {}


def test_a_leaked_machine_is_noticed() -> None:
    simulation = simulate(fleet(5), WEB)
    run_cycles(simulation, 3)
    assert simulation.problems() == []
    del simulation.provider.machines["m-004"]
    assert "1 machines leaked, the first is m-004" in simulation.problems()
