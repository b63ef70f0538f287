"""Spread needs take machines evenly, counting those that they have (docs/reference/engine.md#spread)."""

from collections import Counter

from bigfleet.core.machines import Machine, MachineState
from bigfleet.core.requirements import RACK_KEY, ZONE_KEY, NeedProfile, Spread, WhenUnsatisfiable
from bigfleet.engine import ActionKind, Decisions
from tests.unit.engine_world import World, acted, configured, cpu, decide, machine, need, profile, same, zone_spread

SPREAD = profile(spread=[zone_spread()])
SPECULATIVE = MachineState.SPECULATIVE


def free(zone: str, count: int, price: float = 1.0, state: MachineState = MachineState.IDLE) -> list[Machine]:
    return [machine(f"{zone}-{state.label}-{n}", state, zone=f"zone-{zone}", price=price) for n in range(count)]


def zones(decisions: Decisions) -> str:
    """The zones of the acquisitions, in order."""
    return "".join(action.machine_id[0] for action in decisions.actions if action.profile)


def test_the_cheapest_of_the_zones_that_are_not_ahead() -> None:
    machines = [*free("a", 9, price=3), *free("b", 9, price=1), *free("c", 9, price=2)]
    assert zones(decide(machines, [need(cpu(28), of=SPREAD)])) == "bcabcab"


def test_a_larger_skew_lets_a_zone_run_ahead() -> None:
    machines = [*free("a", 9, price=1), *free("b", 9, price=2)]
    assert zones(decide(machines, [need(cpu(16), of=profile(spread=[zone_spread(2)]))])) == "aaba"


def test_a_skew_below_one_counts_as_one() -> None:
    machines = [*free("a", 9, price=1), *free("b", 9, price=2)]
    assert zones(decide(machines, [need(cpu(8), of=profile(spread=[zone_spread(0)]))])) == "ab"


def test_equal_prices_go_by_zone() -> None:
    assert zones(decide([*free("b", 3), *free("a", 3)], [need(cpu(16), of=SPREAD)])) == "abab"


def test_an_exhausted_zone_holds_the_others_back() -> None:
    machines = [*free("a", 9), *free("b", 1)]
    decisions = decide(machines, [need(cpu(40), of=SPREAD)])
    assert zones(decisions) == "aba"
    assert not decisions.views[0].satisfied


def test_a_zone_that_a_better_need_emptied_still_counts() -> None:
    taker = need(cpu(4), of=profile(same(ZONE_KEY, "zone-b"), priority=2000), cluster="c0")
    decisions = decide([*free("a", 9), *free("b", 1)], [taker, need(cpu(40), of=SPREAD)])
    assert zones(decisions) == "ba"


def test_idle_before_speculative_as_far_as_the_balance_allows() -> None:
    machines = [*free("a", 3, price=9), *free("b", 3, price=1, state=SPECULATIVE)]
    assert zones(decide(machines, [need(cpu(16), of=SPREAD)])) == "aabb"
    kinds = [action.kind for action in decide(machines, [need(cpu(16), of=SPREAD)]).actions]
    assert Counter(kinds) == {ActionKind.BOOTSTRAP: 2, ActionKind.PROVISION: 2}


def test_machines_that_the_need_already_has_count() -> None:
    held = [configured(f"h{n}", zone=f"zone-{zone}") for n, zone in enumerate("aabbc")]
    machines = [*held, *free("a", 5, price=1), *free("b", 5, price=1), *free("c", 5, price=9)]
    assert zones(decide(machines, [need(cpu(24), of=SPREAD)])) == "c"


def test_a_lost_machine_is_replaced_in_its_zone() -> None:
    machines = [*free("a", 5, price=1), *free("b", 5, price=2), *free("c", 5, price=3)]
    world = World.of(machines, [need(cpu(24), of=SPREAD)])
    world.settle(3)
    lost = next(m for m in world.in_state(MachineState.CONFIGURED) if m.startswith("c"))
    world.lose(lost)
    assert zones(world.step()) == "c"
    assert world.step().actions == ()


def bound(zone: str, number: int, of: NeedProfile = SPREAD) -> Machine:
    return configured(f"{zone}-bound-{number}", zone=f"zone-{zone}", of=of)


def test_a_met_need_keeps_its_only_machine_of_a_zone() -> None:
    # 8 of 16 cores are asked for, so two machines would do; the scheduler needs one in each zone.
    machines = [bound("a", 0), bound("a", 1), bound("b", 0), bound("c", 0)]
    decisions = decide(machines, [need(cpu(8), of=SPREAD)])
    assert acted(decisions, ActionKind.RECLAIM) == []
    decisions = decide([*machines, bound("b", 1)], [need(cpu(8), of=SPREAD)])
    assert acted(decisions, ActionKind.RECLAIM) == ["b-bound-1"]


def test_a_met_need_takes_a_machine_in_a_zone_where_only_others_have_some() -> None:
    others = need(cpu(4), of=profile(priority=2000))
    machines = [
        bound("a", 0),
        bound("b", 0),
        bound("c", 0, profile(priority=2000)),
        *free("b", 2),
        *free("c", 2, price=9),
    ]
    decisions = decide(machines, [need(cpu(8), of=SPREAD), others])
    assert zones(decisions) == "c"
    # A zone where its cluster has nothing that it could use is no domain of the scheduler's.
    decisions = decide([*machines, *free("d", 2)], [need(cpu(8), of=SPREAD), others])
    assert zones(decisions) == "c"


def test_machines_that_a_met_need_has_in_a_zone_are_its_share() -> None:
    machines = [bound("a", 0), bound("b", 0), bound("c", 0), *free("a", 2), *free("b", 2), *free("c", 2)]
    assert decide(machines, [need(cpu(10), of=SPREAD)]).actions == ()


def test_what_others_were_given_counts_once_it_is_claimed() -> None:
    # Nothing was bound for it: it claims what another need left.
    machines = [bound(zone, 0, profile(priority=1)) for zone in "abc"]
    assert decide([*machines, *free("a", 2), *free("b", 2)], [need(cpu(10), of=SPREAD)]).actions == ()


def test_a_zone_that_cannot_be_had_is_no_shortfall() -> None:
    machines = [bound("a", 0), bound("b", 0), bound("c", 0, profile(priority=2000)), *free("b", 2)]
    decisions = decide(machines, [need(cpu(8), of=SPREAD), need(cpu(4), of=profile(priority=2000))])
    assert decisions.actions == () and decisions.shortfalls == ()
    assert all(view.satisfied for view in decisions.views)


def test_only_as_many_pods_as_leave_no_zone_empty_need_every_zone() -> None:
    machines = [bound("a", 0), bound("b", 0), bound("c", 0)]
    two, three = need(cpu(2), of=SPREAD), need(cpu(3), of=SPREAD)
    assert acted(decide(machines, [two]), ActionKind.RECLAIM) == ["b-bound-0", "c-bound-0"]
    assert acted(decide(machines, [three]), ActionKind.RECLAIM) == []
    # With a skew of two, the third Pod may be in the zone of the first.
    wide = profile(spread=[zone_spread(2)])
    machines = [bound("a", 0, wide), bound("b", 0, wide), bound("c", 0, wide)]
    assert acted(decide(machines, [need(cpu(3), of=wide)]), ActionKind.RECLAIM) == ["b-bound-0", "c-bound-0"]


def test_a_share_that_is_just_there_is_enough() -> None:
    # 14 cores less 2 × 1 of skew, over three zones: 4 in each, as one machine has.
    machines = [bound("a", 0), bound("a", 1), bound("b", 0), bound("b", 1), bound("c", 0), bound("c", 1)]
    assert len(acted(decide(machines, [need(cpu(14), of=SPREAD)]), ActionKind.RECLAIM)) == 1


def test_each_zone_has_room_for_its_share() -> None:
    # 36 cores: 12 Pods in each zone, so three machines in each, though nine anywhere would hold them.
    machines = [bound("a", n) for n in range(6)] + [bound("b", n) for n in range(2)] + [bound("c", 0)]
    spare = [*free("a", 3, price=1), *free("b", 3, price=2), *free("c", 3, price=3)]
    world = World.of([*machines, *spare], [need(cpu(36), of=SPREAD)])
    world.settle(6)
    held = Counter(name[0] for name in world.in_state(MachineState.CONFIGURED))
    assert held["b"] >= 3 and held["c"] >= 3
    assert world.step().actions == ()


def test_what_is_being_created_for_a_need_may_be_what_it_lacks() -> None:
    on_its_way = machine("c-new", MachineState.CREATING, zone="zone-c", of=SPREAD)
    machines = [bound("a", 0), bound("b", 0), bound("c", 0, profile(priority=2000)), *free("c", 2), on_its_way]
    decisions = decide(machines, [need(cpu(8), of=SPREAD), need(cpu(4), of=profile(priority=2000))])
    assert decisions.actions == ()


def test_a_lost_machine_is_replaced_even_if_the_others_would_do() -> None:
    others = need(cpu(12), of=profile(priority=2000))
    machines = [bound(zone, n, profile(priority=2000)) for n, zone in enumerate("abc")]
    machines += [bound(zone, n, SPREAD) for n, zone in enumerate("abc", 3)]
    machines += [*free("a", 2, price=1), *free("b", 2, price=2), *free("c", 2, price=3)]
    world = World.of(machines, [need(cpu(6), of=SPREAD), others])
    assert world.step().actions == ()
    world.lose("c-bound-5")
    assert zones(world.step()) == "c"
    world.settle(3)
    assert world.step().actions == ()


def test_several_terms_hold_together() -> None:
    both = profile(spread=[zone_spread(), Spread(RACK_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)])
    racks = [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")]
    machines = [machine(f"{zone}{rack}{n}", zone=f"zone-{zone}", rack=rack) for zone, rack in racks for n in range(3)]
    taken = acted(decide(machines, [need(cpu(16), of=both)]), ActionKind.BOOTSTRAP)
    assert taken == ["a10", "b30", "a20", "b40"]


def test_machines_without_the_key_are_left_alone() -> None:
    of = profile(spread=[Spread(RACK_KEY, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE)])
    assert decide([machine("no-rack")], [need(cpu(4), of=of)]).actions == ()


def test_schedule_anyway_does_not_bind() -> None:
    soft = profile(spread=[zone_spread(when=WhenUnsatisfiable.SCHEDULE_ANYWAY)])
    assert zones(decide([*free("a", 4, price=1), *free("b", 4, price=2)], [need(cpu(12), of=soft)])) == "aaa"


def test_same_wins_over_spread() -> None:
    of = profile(same(ZONE_KEY), spread=[zone_spread()])
    machines = [*free("a", 4), *free("b", 3)]
    assert zones(decide(machines, [need(cpu(12), of=of, group="g")])) == "bbb"
