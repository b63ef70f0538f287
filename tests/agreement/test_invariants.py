"""What holds over long random histories with faults."""

from collections import Counter
from collections.abc import Callable

from bigfleet.core.machines import MachineState
from bigfleet.engine.decisions import Action, ActionKind
from tests.agreement.blocks import Block, every_block
from tests.agreement.histories import History, minimised, random_history
from tests.agreement.invariants import WatchedWorld
from tests.agreement.world import World

HISTORIES_PER_BLOCK = 15
# A gang probes every 32 cycles: what is still for longer than that stays still.
REST_CYCLES, QUIET_CYCLES, STILL_CYCLES = 400, 34, 70


def end_faults(world: World) -> None:
    """From now on everything works, and every cluster has reported."""
    world.refusals.clear()
    world.carried_out_one_in = 1
    world.land_all()
    for machine_id in sorted(world.machines):
        world.recover(machine_id)
    bound_to = {machine.cluster for machine in world.machines.values() if machine.cluster}
    for cluster in sorted(bound_to | set(world.rollups)):
        world.report(cluster, world.rollups.get(cluster, ()))


def moves(world: World) -> list[Action]:
    """What a cycle does, but for deletes: they wait for holds, not for demand."""
    return [action for action in world.step().actions if action.kind is not ActionKind.DELETE]


def rest(world: World) -> None:
    """Step until nothing has moved for long."""
    quiet = 0
    for _ in range(REST_CYCLES):
        quiet = 0 if moves(world) else quiet + 1
        if quiet == QUIET_CYCLES:
            return
    raise AssertionError(f"no rest after {REST_CYCLES} cycles")


def stays_still(history: History) -> None:
    world = history.play(WatchedWorld)
    end_faults(world)
    rest(world)
    for _ in range(STILL_CYCLES):
        moved = moves(world)
        assert not moved, f"after a rest: {moved}"


def nothing_leaks(history: History) -> None:
    world = history.play(WatchedWorld)
    before = sorted(world.machines)
    end_faults(world)
    for cluster in world.rollups:
        world.report(cluster, ())
    rest(world)
    world.now += 10_000
    for _ in range(1 + 4 * len(before)):  # the cap lets them go a few at a time
        if not world.step().releases_capped:
            break
    assert sorted(world.machines) == before
    states = Counter(machine.state for machine in world.machines.values())
    assert set(states) <= {MachineState.SPECULATIVE, MachineState.IDLE}, f"it ends with {states}"
    for machine in world.machines.values():
        held = machine.state is MachineState.IDLE and machine.id in world.idle_since
        assert not held or world.options.idle_hold(machine.capacity_type) > 10_000, f"it keeps {machine}"


def hold(block: Block, invariant: Callable[[History], object]) -> None:
    """Try an invariant on many histories; a failure is told with the smallest that fails."""

    def fails(history: History) -> bool:
        try:
            invariant(history)
        except Exception:
            return True
        return False

    for seed in block.seeds("faults", HISTORIES_PER_BLOCK):
        history = random_history(seed, most_events=40)
        if fails(history):
            small = minimised(history, fails)
            print(f"smallest: {small!r}")
            invariant(small)


@every_block
def test_the_invariants_hold_in_every_cycle_with_faults(block: Block) -> None:
    hold(block, lambda history: history.play(WatchedWorld))


@every_block
def test_steady_demand_comes_to_rest_after_the_faults_and_emits_nothing(block: Block) -> None:
    hold(block, stays_still)


@every_block
def test_nothing_leaks_when_all_demand_is_withdrawn(block: Block) -> None:
    hold(block, nothing_leaks)
