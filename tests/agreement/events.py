"""What may happen to a world between its cycles: faults, changes of mind, and time."""

from dataclasses import replace

from bigfleet.core.machines import MachineState
from bigfleet.core.vectors import scaled
from bigfleet.engine.decisions import ActionKind
from tests.agreement.dice import Dice
from tests.agreement.flavours import MACHINES, Flavour
from tests.agreement.world import Latency, World


def appear(world: World, flavour: Flavour, chunk: bytes, number: int | None = None) -> None:
    machine = flavour.machine(chunk, number)
    since = Dice(chunk[::-1]).of((None, world.now, world.now - 45.0, world.now - 1000.0))
    world.appear(machine, since)
    world.journal.append(f"appears: {machine.id!r} {machine.state.label}")


def ask(world: World, flavour: Flavour, chunk: bytes) -> None:
    """One more need, in place of its cluster's need of the same key. What was known keeps its arrival."""
    need = flavour.need(chunk)
    others = tuple(one for one in world.rollups.get(need.cluster, ()) if one.key != need.key)
    world.report(need.cluster, (*others, need))
    world.journal.append(f"asks: {need}")


def _withdraw(world: World, flavour: Flavour, dice: Dice) -> None:
    cluster, kept = dice.of(flavour.clusters), dice.below(256)
    needs = tuple(one for i, one in enumerate(world.rollups.get(cluster, ())) if kept >> (i % 8) & 1)
    world.report(cluster, needs)
    world.journal.append(f"{cluster!r} keeps {len(needs)} needs")


def _resize(world: World, flavour: Flavour, dice: Dice) -> None:
    cluster, factor = dice.of(flavour.clusters), dice.of((2, 3, 1))
    if cluster in world.rollups:
        needs = (replace(one, aggregate=scaled(one.aggregate, factor)) for one in world.rollups[cluster])
        world.report(cluster, tuple(needs)[::-1])
        world.journal.append(f"{cluster!r} asks for {factor} times as much")


def _storm(world: World, flavour: Flavour, dice: Dice) -> None:
    """A cluster's whole demand becomes more important than anyone's."""
    cluster = dice.of(flavour.clusters)
    needs = world.rollups.get(cluster, ())
    urgent = (replace(one, profile=replace(one.profile, priority=2_000_000)) for one in needs)
    world.report(cluster, tuple({one.key: one for one in urgent}.values()))
    world.journal.append(f"{cluster!r} is suddenly urgent")


def _vanish(world: World, flavour: Flavour, dice: Dice) -> None:
    for _ in range(1 + dice.below(3)):
        world.remove(flavour.ids[dice.below(MACHINES)])
    world.journal.append("machines vanish")


def _lose(world: World, flavour: Flavour, dice: Dice) -> None:
    bound = sorted(m.id for m in world.machines.values() if m.state is MachineState.CONFIGURED)
    for machine_id in bound[dice.below(3) :: 1 + dice.below(4)]:
        world.lose(machine_id)
        world.journal.append(f"{machine_id!r} is lost")


def _recover(world: World, flavour: Flavour, dice: Dice) -> None:
    for machine_id in sorted(world.machines):
        world.recover(machine_id)
    world.journal.append("the failed recover")


def _redescribe(world: World, flavour: Flavour, dice: Dice) -> None:
    """Price, probability, labels or allocatable change under way."""
    for machine_id in sorted(world.machines)[dice.below(4) :: 1 + dice.below(40)]:
        match dice.below(5):
            case 0:
                world.change(machine_id, price_per_hour=dice.of((0.5, 1.0, 3.0)))
            case 1:
                world.change(machine_id, labels=flavour.labels(dice))
            case 2:
                world.change(machine_id, allocatable=flavour.vector(dice, 1 + dice.below(8)))
            case 3:
                world.change(machine_id, interruption_probability=dice.of((0.0, 0.5)))
            case _:
                world.change(machine_id, zone=dice.of(("zone-a", "zone-b", "")))
        world.journal.append(f"{machine_id!r} is now {world.machines[machine_id]}")


def _refuse(world: World, flavour: Flavour, dice: Dice) -> None:
    kind = dice.of(tuple(ActionKind))
    world.refusals[kind] += 1 + dice.below(3)
    world.refusals_are_final = dice.one_in(2)
    world.journal.append(f"{kind} will be refused {world.refusals[kind]} times")


def _slow_down(world: World, flavour: Flavour, dice: Dice) -> None:
    world.latency = Latency(dice.below(5), dice.below(5), dice.below(5))
    world.carried_out_one_in = dice.below(3)
    world.journal.append(f"{world.latency}, carried out one in {world.carried_out_one_in}")


def _restart(world: World, flavour: Flavour, dice: Dice) -> None:
    world.restart()
    world.journal.append("restart")


def _speak_again(world: World, flavour: Flavour, dice: Dice) -> None:
    for cluster in flavour.clusters[: 1 + dice.below(3)]:
        world.report(cluster, world.rollups.get(cluster, ()))
        world.journal.append(f"{cluster!r} speaks")


def _fall_silent(world: World, flavour: Flavour, dice: Dice) -> None:
    cluster = dice.of(flavour.clusters)
    world.forget(cluster)
    world.journal.append(f"{cluster!r} is forgotten")


def _wait(world: World, flavour: Flavour, dice: Dice) -> None:
    seconds = dice.of((0.0, 20.0, 61.0, 301.0))
    world.now += seconds
    world.journal.append(f"{seconds} s pass")


def _land(world: World, flavour: Flavour, dice: Dice) -> None:
    world.land_all()
    world.journal.append("what was in between arrives")


_HAPPENINGS = (
    _wait,
    _withdraw,
    _resize,
    _storm,
    _vanish,
    _lose,
    _recover,
    _redescribe,
    _redescribe,
    _refuse,
    _slow_down,
    _restart,
    _speak_again,
    _speak_again,
    _fall_silent,
    _land,
)


def happen(world: World, flavour: Flavour, chunk: bytes) -> int:
    """Let one event happen; how many cycles follow it: long waits let gangs park, and probe."""
    dice = Dice(chunk)
    cycles = 36 if dice.one_in(128) else dice.of((1, 0, 1, 2, 1, 0, 1, 3, 1, 0, 1, 2, 1, 9, 1, 4))
    match dice.below(4):
        case 0:
            dice.of(_HAPPENINGS)(world, flavour, dice)
        case 1:
            ask(world, flavour, chunk[2:])
        case 2:
            appear(world, flavour, chunk[2:])
        case _:
            dice.of(_HAPPENINGS)(world, flavour, dice)
    return cycles
