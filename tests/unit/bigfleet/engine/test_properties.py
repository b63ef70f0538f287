"""What holds in every world: one claim per machine, priority order, stillness at steady demand, the reclaim cap."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.core import penalty
from bigfleet.core.machines import UNASSIGNED, Assignment, CapacityType, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.vectors import covers
from bigfleet.engine import ActionKind, Decisions, EngineOptions
from tests.unit.engine_world import EngineAndOracle, World, decide, machine, need, of_type, profile, same, zone_spread

CLUSTERS = ("c1", "c2", "c3")
PROFILES = [
    profile(*requirements, priority=priority, spread=spread, interruption=interruption)
    for priority, requirements, spread, interruption in product(
        (100, 1_000, 1_000_000),
        ((), (of_type("m6i.large"),), (same(),)),
        ((), (zone_spread(),)),
        (penalty.ZERO, penalty.PINNED),
    )
]
KEEP_IDLE = EngineOptions(reclaim_cap_fraction=0, idle_hold_seconds={})
STARTS_FROM = {
    ActionKind.BOOTSTRAP: MachineState.IDLE,
    ActionKind.PROVISION: MachineState.SPECULATIVE,
    ActionKind.PREEMPT: MachineState.CONFIGURED,
    ActionKind.RECLAIM: MachineState.CONFIGURED,
    ActionKind.DELETE: MachineState.IDLE,
}
relaxed = settings(max_examples=80)


@st.composite
def machines_in(draw: st.DrawFn, states: tuple[MachineState, ...] = tuple(MachineState)[1:]) -> list[Machine]:
    """Up to thirty machines of a few kinds, in any state, bound to any cluster for any profile."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    machines = []
    for number in range(draw(st.integers(0, 30))):
        state = rng.choice(states)
        bound = state in (MachineState.CONFIGURING, MachineState.CONFIGURED, MachineState.DRAINING)
        zone, size = rng.choice("ab"), rng.choice((2, 4, 8))
        one = machine(
            f"m{number:02}",
            state,
            cluster=rng.choice(CLUSTERS) if bound else "",
            allocatable={"cpu": size * 1000, "memory": rng.choice((4, 16)) * 1000},
            instance_type=rng.choice(("m6i.large", "r6i.large")),
            zone=f"zone-{zone}",
            rack=rng.choice((f"{zone}1", f"{zone}2")),
            price=rng.choice((0.0, 1.0, 2.0)),
            probability=rng.choice((0.0, 0.1)),
            capacity_type=rng.choice(tuple(CapacityType)),
            of=rng.choice(PROFILES) if bound and rng.random() < 0.8 else None,
        )
        if state is MachineState.CREATING:
            stamp = Assignment(fingerprint=rng.choice(PROFILES).fingerprint, group=rng.choice(("", "g1")))
            one = replace(one, assignment=stamp)
        machines.append(one)
    return machines


@st.composite
def needs_of(draw: st.DrawFn) -> list[Need]:
    """Up to ten needs, one per cluster, profile and group."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    needs: dict[tuple[str, str, str], Need] = {}
    for _ in range(draw(st.integers(0, 10))):
        of = rng.choice(PROFILES)
        unit = {"cpu": rng.choice((1000, 2000)), "memory": 1000}
        pods = rng.randint(1, 8)
        one = need(
            {name: pods * milli for name, milli in unit.items()},
            unit,
            of=of,
            cluster=rng.choice(CLUSTERS),
            group=rng.choice(("g1", "g2")) if of.same else "",
            arrival=float(rng.randint(0, 2)),
        )
        needs[one.key] = one
    return list(needs.values())


def gained_by(decisions: Decisions, machines: list[Machine]) -> list[tuple[int, Machine]]:
    """(priority of the need, machine) of every acquisition."""
    by_id = {one.id: one for one in machines}
    return [(action.profile.priority, by_id[action.machine_id]) for action in decisions.actions if action.profile]


@relaxed
@given(machines_in(), needs_of())
def test_a_machine_is_acted_on_at_most_once_and_from_the_right_state(
    machines: list[Machine], needs: list[Need]
) -> None:
    decisions = decide(machines, needs, now=1e6, idle_since={one.id: 0.0 for one in machines})
    assert all(count == 1 for count in Counter(action.machine_id for action in decisions.actions).values())
    states = {one.id: one.state for one in machines}
    assert all(states[action.machine_id] is STARTS_FROM[action.kind] for action in decisions.actions)


@relaxed
@given(machines_in(), needs_of())
def test_a_machine_serves_one_need(machines: list[Machine], needs: list[Need]) -> None:
    decisions = decide(machines, needs)
    kinds = Counter(action.kind for action in decisions.actions)
    assert sum(view.bootstraps for view in decisions.views) == kinds[ActionKind.BOOTSTRAP]
    assert sum(view.provisions for view in decisions.views) == kinds[ActionKind.PROVISION]
    creditable = (MachineState.CONFIGURED, MachineState.CONFIGURING, MachineState.CREATING)
    assert sum(view.claimed for view in decisions.views) <= sum(one.state in creditable for one in machines)
    configured = sum(one.state is MachineState.CONFIGURED for one in machines)
    claimed_or_lost = kinds[ActionKind.RECLAIM] + kinds[ActionKind.PREEMPT]
    assert claimed_or_lost <= configured


@relaxed
@given(machines_in(), needs_of())
def test_a_short_need_never_watches_a_lesser_one_take_what_it_could_use(
    machines: list[Machine], needs: list[Need]
) -> None:
    decisions = decide(machines, needs)
    gained = gained_by(decisions, machines)
    taken = {one.id for _, one in gained}
    free = [one for one in machines if one.state in (MachineState.IDLE, MachineState.SPECULATIVE)]
    for view in decisions.views:
        of = view.need.profile
        if view.satisfied or of.same or of.spread:
            continue

        def useful(one: Machine, view_need: Need = view.need) -> bool:
            return view_need.profile.matches(one.attribute) and covers(one.allocatable, view_need.min_unit)

        assert not any(priority < of.priority and useful(one) for priority, one in gained)
        assert not any(useful(one) for one in free if one.id not in taken)


@relaxed
@given(machines_in(), needs_of())
def test_only_lower_priority_is_preempted_and_never_more_than_is_missing(
    machines: list[Machine], needs: list[Need]
) -> None:
    by_id = {one.id: one for one in machines}
    decisions = decide(machines, needs)
    for action in decisions.actions:
        if action.kind is ActionKind.PREEMPT:
            assert by_id[action.machine_id].assignment.priority < action.preemptor_priority
    if all(view.satisfied for view in decisions.views):
        assert not any(action.kind is ActionKind.PREEMPT for action in decisions.actions)


@relaxed
@given(machines_in(), needs_of())
def test_what_is_acquired_fits_and_a_gang_stays_together(machines: list[Machine], needs: list[Need]) -> None:
    by_id = {one.id: one for one in machines}
    racks: dict[tuple[str, str, str], set[str | None]] = {}
    for action in decide(machines, needs).actions:
        if action.profile is None:
            continue
        one = by_id[action.machine_id]
        assert action.profile.matches(one.attribute)
        if action.profile.same:
            key = action.cluster, action.profile.fingerprint, action.group
            racks.setdefault(key, set()).add(one.attribute(action.profile.same.key))
    assert all(len(domains) == 1 for domains in racks.values())


@relaxed
@given(machines_in(), needs_of(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(machines: list[Machine], needs: list[Need], rng: random.Random) -> None:
    first, second = EngineAndOracle(), EngineAndOracle()
    for _ in range(3):
        expected = decide(machines, needs, engine=first)
        rng.shuffle(machines)
        rng.shuffle(needs)
        assert decide(machines, needs, engine=second) == expected


@relaxed
@given(machines_in(), needs_of(), st.sampled_from((0.05, 0.2, 0.5)), st.sets(st.sampled_from(CLUSTERS)))
def test_reclaims_stay_below_the_cap_and_clear_of_silent_clusters(
    machines: list[Machine], needs: list[Need], fraction: float, silent: set[str]
) -> None:
    needs = [one for one in needs if one.cluster not in silent]
    reported = set(CLUSTERS) - silent
    options = EngineOptions(reclaim_cap_fraction=fraction)
    decisions = decide(machines, needs, reported=reported, options=options)
    reclaims = Counter(action.cluster for action in decisions.actions if action.kind is ActionKind.RECLAIM)
    for cluster, count in reclaims.items():
        configured = sum(one.state is MachineState.CONFIGURED and one.cluster == cluster for one in machines)
        assert count <= max(1, int(fraction * configured))
        assert cluster in reported
    uncapped = decide(machines, needs, reported=reported)
    all_reclaims = sum(action.kind is ActionKind.RECLAIM for action in uncapped.actions)
    assert sum(reclaims.values()) + sum(decisions.reclaims_capped.values()) == all_reclaims


@settings(relaxed, max_examples=40)
@given(
    machines_in((MachineState.IDLE, MachineState.SPECULATIVE, MachineState.SPECULATIVE)),
    needs_of(),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_steady_demand_comes_to_rest_and_stays_there(
    machines: list[Machine], needs: list[Need], create_cycles: int, configure_cycles: int
) -> None:
    world = World.of(
        [replace(one, assignment=UNASSIGNED) for one in machines],
        needs,
        engine=EngineAndOracle(KEEP_IDLE),
        create_cycles=create_cycles,
        configure_cycles=configure_cycles,
        drain_cycles=1,
    )
    world.settle(60)
    assert not any(world.step().actions for _ in range(40))
