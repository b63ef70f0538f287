"""What Phase 3 lets go, it lets go at a rate: the same at any cycle rate (docs/reference/engine.md#rails, ADR-36)."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.core.machines import CapacityType, Machine, MachineState
from bigfleet.engine import ActionKind, EngineOptions
from tests.unit.engine_world import EngineAndOracle, World, acted, configured, cpu, decide, machine, need

WINDOW = EngineOptions().cap_window_seconds


def most_within(seconds: float, moments: Sequence[float]) -> int:
    """The most of the moments that lie within any stretch of so many seconds, its end not included."""
    return max((sum(start <= one < start + seconds for one in moments) for start in moments), default=0)


class Shrinking:
    """One cluster, of whose machines nobody needs any more than a few; time passes as a test says."""

    def __init__(self, machines: int, needed: int = 0, options: EngineOptions | None = None) -> None:
        self.world = World.of(
            [configured(f"m{number:04}") for number in range(machines)],
            [need(cpu(4 * needed))] if needed else [],
            engine=EngineAndOracle(options or EngineOptions()),
        )
        self.world.needs.setdefault("c1", [])
        self.moments: list[float] = []

    def after(self, seconds: float) -> int:
        """How many are reclaimed in a cycle that comes so much later."""
        self.world.now = now = self.world.now + seconds
        reclaims = acted(self.world.step(), ActionKind.RECLAIM)
        self.world.now = now
        self.moments += [now] * len(reclaims)
        return len(reclaims)


def test_at_the_default_interval_each_cycle_takes_a_twentieth() -> None:
    shrinking = Shrinking(100)
    assert [shrinking.after(WINDOW) for _ in range(4)] == [5, 4, 4, 4]


def test_faster_cycles_take_no_more() -> None:
    shrinking = Shrinking(100)
    assert [shrinking.after(WINDOW / 4) for _ in range(9)] == [5, 0, 0, 0, 4, 0, 0, 0, 4]


@pytest.mark.parametrize("cycle_seconds", [0.1, 0.7, 3.0, 10.0, 15.0])
def test_a_demand_that_drops_by_four_fifths_at_once_gives_back_less_than_the_cap_a_minute(cycle_seconds: float) -> None:
    shrinking = Shrinking(200, needed=40)
    while shrinking.world.now < 150:
        shrinking.after(cycle_seconds)
    assert 0 < most_within(60, shrinking.moments) <= 0.30 * 200
    assert most_within(WINDOW, shrinking.moments) <= 0.05 * 200


@settings(max_examples=60, deadline=None)
@given(
    machines=st.integers(1, 60),
    needed=st.integers(0, 12),
    fraction=st.sampled_from((0.05, 0.2, 0.5)),
    drain_cycles=st.integers(0, 3),
    pauses=st.lists(st.floats(0.1, 25.0), min_size=1, max_size=60),
)
def test_no_window_sees_more_than_its_share_whatever_the_cycles(
    machines: int, needed: int, fraction: float, drain_cycles: int, pauses: list[float]
) -> None:
    shrinking = Shrinking(machines, min(needed, machines), EngineOptions(reclaim_cap_fraction=fraction))
    shrinking.world.drain_cycles = drain_cycles
    for pause in pauses:
        shrinking.after(pause)
    assert most_within(WINDOW, shrinking.moments) <= max(1, int(fraction * machines))
    assert most_within(60, shrinking.moments) <= 6 * max(1, int(fraction * machines))


def test_clusters_have_a_rate_each() -> None:
    engine = EngineAndOracle(EngineOptions())
    first = [configured(f"{cluster}-{number:02}", cluster) for cluster in ("c1", "c2") for number in range(20)]
    assert acted(decide(first, reported=["c1", "c2"], engine=engine), ActionKind.RECLAIM) == ["c1-00", "c2-00"]
    left = [one for one in first if one.id != "c1-00"]
    assert acted(decide(left, reported=["c1", "c2"], engine=engine, now=5.0), ActionKind.RECLAIM) == ["c2-00"]


def test_what_was_not_carried_out_is_decided_again_and_counts_once() -> None:
    engine, machines = EngineAndOracle(EngineOptions()), [configured(f"m{number:02}") for number in range(40)]
    for now in (0.0, 4.0, 8.0, 12.0):
        assert acted(decide(machines, reported=["c1"], engine=engine, now=now), ActionKind.RECLAIM) == ["m00", "m01"]
    # They went at last: the window begins there.
    for now, then in ((13.0, []), (21.9, []), (22.0, ["m02"])):
        decisions = decide(machines[2:], reported=["c1"], engine=engine, now=now)
        assert acted(decisions, ActionKind.RECLAIM) == then


def test_a_machine_that_was_wanted_in_between_counts_again() -> None:
    engine, machines = EngineAndOracle(EngineOptions()), [configured("a"), configured("b")]
    gone = [
        acted(decide(machines, [need(cpu(units))], engine=engine, now=now), ActionKind.RECLAIM)
        for now, units in ((0.0, 4), (1.0, 8), (2.0, 4), (10.0, 4))
    ]
    assert gone == [["b"], [], [], ["b"]]


def test_the_decisions_say_what_waits_and_until_when() -> None:
    engine, machines = EngineAndOracle(EngineOptions()), [configured(f"m{number:02}") for number in range(40)]
    decisions = decide(machines, reported=["c1"], engine=engine, now=100.0)
    assert (decisions.reclaims_capped, decisions.again_at) == ({"c1": 38}, 110.0)
    decisions = decide(machines[2:], reported=["c1"], engine=engine, now=104.0)
    assert (decisions.reclaims_capped, decisions.again_at) == ({"c1": 38}, 110.0)
    decisions = decide(machines[:1], [need(cpu(4))], engine=engine, now=105.0)
    assert (decisions.reclaims_capped, decisions.again_at) == ({}, float("inf"))


def idle(number: int) -> tuple[list[Machine], dict[str, float]]:
    machines = [machine(f"m{each:03}", capacity_type=CapacityType.SPOT) for each in range(number)]
    return machines, {one.id: 0.0 for one in machines}


def test_free_machines_are_given_back_at_a_rate_too() -> None:
    engine = EngineAndOracle(EngineOptions())
    machines, since = idle(100)
    counts = []
    for now in (1000.0, 1000.1, 1009.9, 1010.0, 1020.0):
        gone = acted(decide(machines, engine=engine, now=now, idle_since=since), ActionKind.DELETE)
        machines = [one for one in machines if one.id not in gone]
        since = {one.id: 0.0 for one in machines}
        counts.append(len(gone))
    assert counts == [5, 0, 0, 4, 4]


def test_what_is_kept_for_ever_does_not_raise_the_rate() -> None:
    machines, since = idle(20)
    kept = [machine(f"metal-{each}", capacity_type=CapacityType.BARE_METAL) for each in range(100)]
    decisions = decide([*machines, *kept], options=EngineOptions(), now=1e6, idle_since=since)
    assert acted(decisions, ActionKind.DELETE) == ["m000"]
    assert (decisions.releases_capped, decisions.again_at) == (19, 1e6 + WINDOW)


def test_of_all_that_was_bought_a_share_may_go() -> None:
    machines, since = idle(20)
    serving = [configured(f"serving-{each}", capacity_type=CapacityType.ON_DEMAND) for each in range(60)]
    quota = [machine(f"quota-{each}", MachineState.SPECULATIVE, capacity_type=CapacityType.SPOT) for each in range(99)]
    decisions = decide([*machines, *serving, *quota], options=EngineOptions(), now=1e6, idle_since=since)
    assert len(acted(decisions, ActionKind.DELETE)) == 4


@settings(max_examples=40, deadline=None)
@given(number=st.integers(1, 60), pauses=st.lists(st.floats(0.1, 25.0), min_size=1, max_size=40))
def test_no_window_sees_more_than_its_share_of_free_machines_go(number: int, pauses: list[float]) -> None:
    machines, since = idle(number)
    world = World.of(machines, engine=EngineAndOracle(EngineOptions()), idle_since=dict(since), now=1000.0)
    moments: list[float] = []
    for pause in pauses:
        now = world.now
        moments += [now] * len(acted(world.step(), ActionKind.DELETE))
        world.now = now + pause
    assert most_within(WINDOW, moments) <= max(1, number // 20)
    assert world.in_state(MachineState.IDLE) or number <= len(moments)
