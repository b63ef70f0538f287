"""The six scenarios of docs/reference/engine.md#scenarios, with their figures, and the loops that must stand still."""

from typing import Any

from bigfleet.core import penalty
from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import NeedProfile
from bigfleet.engine import ActionKind
from tests.unit.engine_world import NO_CAP, EngineAndOracle, World, acted, machine, need, of_type, profile, same

GPU = "nvidia.com/gpu"
A3 = "a3-highgpu-8g"
ZONE = "us-east-1a"


def gpus(count: int) -> dict[str, int]:
    return {GPU: count * 1000}


def a3_profile(priority: int = 1_000_000, gang: bool = False) -> NeedProfile:
    requirements = [of_type(A3), same("topology.kubernetes.io/zone")] if gang else [of_type(A3)]
    return profile(*requirements, priority=priority, interruption=penalty.bucket_of(8192), reclamation=penalty.PINNED)


def a3_machines(count: int, state: MachineState = MachineState.IDLE, **others: Any) -> list[Machine]:
    return [
        machine(
            f"m-{number:03}",
            state,
            allocatable=gpus(8),
            instance_type=A3,
            zone=ZONE,
            price=0,
            capacity_type=CapacityType.BARE_METAL,
            **others,
        )
        for number in range(count)
    ]


def a3_need(machines: int, of: NeedProfile | None = None, cluster: str = "train", group: str = "") -> Need:
    return need(gpus(8 * machines), gpus(8), of=of or a3_profile(), cluster=cluster, group=group)


def test_training_job_topology() -> None:
    world = World.of(a3_machines(64), [a3_need(64, a3_profile(gang=True), group="g")])
    decisions = world.step()
    assert len(world.in_state(MachineState.CONFIGURED, "train")) == 64
    assert decisions.shortfalls == ()
    assert decisions.views[0].same_domain == ZONE
    assert world.step().actions == ()


def test_capacity_stockout() -> None:
    world = World.of(a3_machines(32), [a3_need(64)])
    world.step()
    decisions = world.step()
    assert len(world.in_state(MachineState.CONFIGURED, "train")) == 32
    (shortfall,) = decisions.shortfalls
    assert shortfall.deficit == gpus(256)
    assert shortfall.age_cycles == 2


def test_priority_inversion() -> None:
    held = a3_machines(4, MachineState.CONFIGURED, cluster="batch", of=a3_profile(100_000))
    world = World.of(held, [a3_need(4, a3_profile(100_000), "batch"), a3_need(4, a3_profile(1_000_000), "urgent")])
    first = world.step()
    assert acted(first, ActionKind.PREEMPT) == ["m-000", "m-001", "m-002", "m-003"]
    assert len(first.actions) == 4
    assert len(world.in_state(MachineState.IDLE)) == 4
    second = world.step()
    assert len(acted(second, ActionKind.BOOTSTRAP)) == 4
    assert {action.cluster for action in second.actions} == {"urgent"}
    assert len(world.in_state(MachineState.CONFIGURED, "urgent")) == 4


def test_withdrawal() -> None:
    world = World.of(a3_machines(32, MachineState.CONFIGURED, cluster="train", of=a3_profile()))
    world.needs["train"] = []
    decisions = world.step()
    assert len(acted(decisions, ActionKind.RECLAIM)) == 32
    assert len(world.in_state(MachineState.IDLE)) == 32


def test_provider_configure_failure() -> None:
    world = World.of(a3_machines(4), [a3_need(3)], failures={ActionKind.BOOTSTRAP: 1})
    world.step()
    world.step()
    assert len(world.in_state(MachineState.CONFIGURED, "train")) == 3
    (failed,) = world.in_state(MachineState.FAILED)
    assert world.machines[failed].last_error


def test_drain_failure_withdrawal() -> None:
    held = a3_machines(8, MachineState.CONFIGURED, cluster="train", of=a3_profile())
    world = World.of(held, failures={ActionKind.RECLAIM: 1})
    world.needs["train"] = []
    world.step()
    assert len(world.in_state(MachineState.IDLE)) == 7
    assert len(world.in_state(MachineState.FAILED)) == 1


def test_nothing_is_emitted_while_acquired_machines_are_in_flight() -> None:
    world = World.of(a3_machines(10, MachineState.SPECULATIVE), [a3_need(4)], create_cycles=3, configure_cycles=2)
    assert len(acted(world.step(), ActionKind.PROVISION)) == 4
    assert world.step().actions == ()  # Creating counts for the need it was provisioned for
    assert world.step().actions == ()
    assert len(acted(world.step(), ActionKind.BOOTSTRAP)) == 4
    assert world.step().actions == ()  # Configuring counts for its cluster
    assert world.step().actions == ()
    assert world.settle(1) == 0
    assert len(world.in_state(MachineState.SPECULATIVE)) == 6


def test_a_lost_machine_is_replaced_once() -> None:
    world = World.of(a3_machines(10, MachineState.SPECULATIVE), [a3_need(4)], create_cycles=2, configure_cycles=2)
    world.settle(20)
    world.lose(world.in_state(MachineState.CONFIGURED)[0])
    actions = [action for _ in range(10) for action in world.step().actions]
    assert [action.kind for action in actions] == [ActionKind.PROVISION, ActionKind.BOOTSTRAP]
    assert len(world.in_state(MachineState.CONFIGURED, "train")) == 4


def test_no_second_victim_is_taken_while_the_first_drains() -> None:
    held = a3_machines(8, MachineState.CONFIGURED, cluster="batch", of=a3_profile(100_000))
    world = World.of(
        held,
        [a3_need(8, a3_profile(100_000), "batch"), a3_need(2, a3_profile(1_000_000), "urgent")],
        drain_cycles=5,
    )
    assert len(acted(world.step(), ActionKind.PREEMPT)) == 2
    for _ in range(4):
        decisions = world.step()
        assert decisions.actions == ()
        assert [shortfall.profile.priority for shortfall in decisions.shortfalls] == [100_000]
    assert {action.cluster for action in world.step().actions} == {"urgent"}
    world.settle(10)
    assert len(world.in_state(MachineState.CONFIGURED, "urgent")) == 2
    assert len(world.in_state(MachineState.CONFIGURED, "batch")) == 6


def test_a_folded_gang_keeps_sight_of_its_last_possible_host_while_it_is_created() -> None:
    big = machine("big", MachineState.SPECULATIVE, allocatable=gpus(8), rack="r1", price=9)
    small = [machine(f"small-{n}", MachineState.SPECULATIVE, allocatable=gpus(4), rack="r1") for n in range(2)]
    gang = need(gpus(8), gpus(1), of=profile(same()), group="g")
    world = World.of([big, *small], [gang], create_cycles=3)
    assert acted(world.step(), ActionKind.PROVISION) == ["big"]
    assert world.step().actions == ()
    assert world.step().actions == ()
    assert acted(world.step(), ActionKind.BOOTSTRAP) == ["big"]


def test_two_engines_given_the_same_worlds_decide_the_same() -> None:
    worlds = [World.of(a3_machines(6), [a3_need(9)], engine=EngineAndOracle(NO_CAP)) for _ in range(2)]
    assert [worlds[0].step() for _ in range(5)] == [worlds[1].step() for _ in range(5)]
