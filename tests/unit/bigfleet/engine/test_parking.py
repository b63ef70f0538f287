"""Gangs that cannot be placed are parked after 8 cycles and probe every 32 (docs/reference/engine.md#parking)."""

from bigfleet.core.machines import Machine
from bigfleet.core.needs import Need
from bigfleet.engine import ActionKind, NeedView, UnmetReason
from tests.unit.engine_world import (
    NO_CAP,
    EngineAndOracle,
    World,
    acted,
    configured,
    cpu,
    decide,
    machine,
    need,
    profile,
    same,
)

GANG = profile(same())


def gang(units: float = 12, group: str = "g") -> Need:
    return need(cpu(units), cpu(1), of=GANG, group=group)


def held() -> list[Machine]:
    """One machine of three: the gang holds it and can get no other."""
    return [configured("held", rack="r1", of=GANG, group="g")]


class Cycles:
    """One engine, cycle after cycle, over machines that are given each time."""

    def __init__(self) -> None:
        self._engine = EngineAndOracle(NO_CAP)

    def view(self, machines: list[Machine], *needs: Need) -> NeedView:
        return decide(machines, needs or [gang()], engine=self._engine).views[0]


def test_a_hopeless_gang_is_parked_from_the_ninth_cycle_on_and_probes_at_multiples_of_32() -> None:
    cycles = Cycles()
    parked = {number for number in range(70) if cycles.view(held()).parked}
    assert parked == set(range(8, 70)) - {32, 64}


def test_the_parked_age_counts_from_the_first_parked_cycle() -> None:
    cycles = Cycles()
    ages = [cycles.view(held()).parked_age_cycles for _ in range(34)]
    assert ages == [0] * 8 + list(range(1, 27))


def test_a_parked_gang_keeps_what_it_has_and_acquires_nothing() -> None:
    engine = EngineAndOracle(NO_CAP)
    for _ in range(8):
        decide(held(), [gang()], engine=engine)
    plenty = [machine(f"free-{n}", rack="r2") for n in range(9)]
    decisions = decide([*held(), *plenty], [gang()], engine=engine)
    assert decisions.actions == ()
    (view,) = decisions.views
    assert (view.parked, view.same_domain, view.claimed) == (True, "r1", 1)
    assert view.reason is UnmetReason.TOPOLOGY_UNSATISFIABLE


def test_a_parked_gang_leaves_free_machines_to_others() -> None:
    engine = EngineAndOracle(NO_CAP)
    for _ in range(8):
        decide(held(), [gang()], engine=engine)
    younger = need(cpu(12), of=GANG, group="younger", arrival=5.0)
    decisions = decide(
        [*held(), *(machine(f"free-{n}", rack="r2") for n in range(3))], [gang(), younger], engine=engine
    )
    assert {action.group for action in decisions.actions} == {"younger"}
    assert len(decisions.actions) == 3


def test_a_probe_that_succeeds_ends_the_parking() -> None:
    world = World.of(held(), [gang()])
    for _ in range(10):
        world.step()
    for n in range(9):
        world.machines[f"free-{n}"] = machine(f"free-{n}", rack="r1")
    parked = [world.step().views[0] for _ in range(22)]
    assert all(view.parked and not view.bootstraps for view in parked)
    probe = world.step().views[0]
    assert (probe.parked, probe.bootstraps, probe.satisfied) == (False, 2, True)
    after = world.step().views[0]
    assert (after.parked, after.parked_age_cycles, after.claimed) == (False, 0, 3)


def test_a_gang_that_acquires_something_is_not_hopeless() -> None:
    cycles = Cycles()
    for _ in range(7):
        cycles.view(held())
    assert cycles.view([*held(), machine("free", rack="r1")]).bootstraps == 1
    assert not any(cycles.view(held()).parked for _ in range(8))
    assert cycles.view(held()).parked


def test_a_gang_whose_domain_would_do_is_not_hopeless() -> None:
    """Another need takes the machines first: the gang is starved, not unplaceable."""
    cycles = Cycles()
    rival = need(cpu(12), of=profile(priority=2000), cluster="c0")
    machines = [machine(f"free-{n}", rack="r1") for n in range(3)]
    views = [decide(machines, [gang(), rival], engine=cycles._engine).views[1] for _ in range(12)]
    assert all(view.same_satisfiable and not view.satisfied and not view.parked for view in views)


def test_a_gang_that_goes_and_comes_back_starts_anew() -> None:
    cycles = Cycles()
    for _ in range(9):
        cycles.view(held())
    cycles.view(held(), gang(group="other"))
    assert not cycles.view(held()).parked


def test_gangs_are_parked_one_by_one() -> None:
    cycles = Cycles()
    other = Need("c2", GANG, cpu(12), cpu(1), "g")
    for _ in range(8):
        cycles.view(held())
    views = decide(held(), [gang(), other], engine=cycles._engine).views
    assert [(view.need.cluster, view.parked) for view in views] == [("c1", True), ("c2", False)]


def test_plain_needs_are_never_parked() -> None:
    cycles = Cycles()
    assert not any(cycles.view([], need(cpu(4))).parked for _ in range(40))


def test_parked_demand_is_still_a_shortfall_and_takes_no_victims() -> None:
    low = profile(priority=1)
    victims = [configured(f"v{n}", "c2", rack="r1", of=low) for n in range(2)]
    engine = EngineAndOracle(NO_CAP)
    for _ in range(8):
        decide(held(), [gang()], engine=engine)
    decisions = decide([*held(), *victims], [gang(), need(cpu(8), of=low, cluster="c2")], engine=engine)
    assert decisions.actions == ()
    assert [shortfall.deficit for shortfall in decisions.shortfalls] == [cpu(8)]


def test_a_probe_that_finds_nothing_takes_no_victims() -> None:
    """It is parked again in the next cycle, and would leave what it freed to others (ADR-6)."""
    low = profile(priority=1)
    victims = [configured(f"v{n}", "c2", rack="r1", of=low) for n in range(2)]
    world = [*held(), *victims], [gang(), need(cpu(8), of=low, cluster="c2")]
    assert acted(decide(*world), ActionKind.PREEMPT) == ["v0", "v1"]
    engine = EngineAndOracle(NO_CAP)
    for _ in range(32):
        decide(held(), [gang()], engine=engine)
    probe = decide(*world, engine=engine)
    assert (probe.views[0].parked, probe.views[0].parked_age_cycles) == (False, 25)
    assert acted(probe, ActionKind.PREEMPT) == []
