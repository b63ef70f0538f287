"""What the engine remembers from cycle to cycle must follow every change, however small."""

from dataclasses import replace

from bigfleet.core.machines import Assignment, Machine, MachineState
from bigfleet.core.needs import Need
from bigfleet.core.requirements import RACK_KEY, ZONE_KEY, NeedProfile, Requirement, RequirementOperator
from bigfleet.engine import ActionKind, Decisions, Engine, EngineOptions, Fleet
from tests.unit.engine_world import (
    NO_CAP,
    EngineAndOracle,
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


class Story:
    """One engine that is shown one world after the other."""

    def __init__(self) -> None:
        self._engine = EngineAndOracle(NO_CAP)

    def then(
        self, machines: list[Machine], *needs: Need, now: float = 0.0, idle_since: dict[str, float] | None = None
    ) -> Decisions:
        demand: dict[str, list[Need]] = {}
        for one in needs:
            demand.setdefault(one.cluster, []).append(one)
        return self._engine.cycle({one.id: one for one in machines}, demand, now, idle_since or {})


def bootstraps(decisions: Decisions) -> list[str]:
    return acted(decisions, ActionKind.BOOTSTRAP)


def gang(units: float, cluster: str = "c1", arrival: float = 0.0) -> Need:
    return need(cpu(units), of=GANG, cluster=cluster, group="g", arrival=arrival)


def domains(decisions: Decisions) -> list[str]:
    return [view.same_domain for view in decisions.views]


def test_a_gang_has_the_choice_of_another_clusters_gang_that_went() -> None:
    story = Story()
    racks = [machine(f"{rack}{n}", rack=rack) for rack in ("r1", "r2") for n in range(2)]
    first, second = gang(8, "c1"), gang(8, "c2", arrival=1.0)
    assert domains(story.then(racks, first, second)) == ["r1", "r2"]
    assert domains(story.then(racks, second)) == ["r1"]


def test_a_gang_that_has_its_place_moves_to_where_machines_are_on_their_way_for_it() -> None:
    story = Story()
    there = [configured(f"a{n}", rack="r1", of=None) for n in range(2)]
    own = Assignment(fingerprint=GANG.fingerprint, group="g")
    coming = [replace(machine(f"b{n}", MachineState.CREATING, rack="r2"), assignment=own) for n in range(2)]
    assert domains(story.then(there, gang(8))) == ["r1"]
    assert domains(story.then([*there, *coming], gang(8))) == ["r2"]


def test_a_gang_whose_rivals_are_alike_follows_what_comes_free() -> None:
    story = Story()
    there = [configured(f"{rack}{n}", rack=rack, of=None) for rack in ("r1", "r2") for n in range(2)]
    assert domains(story.then(there, gang(8))) == ["r1"]
    assert domains(story.then([*there, machine("free", rack="r1")], gang(8))) == ["r2"]


def test_a_gang_that_was_served_reckons_with_the_others_once_it_needs_more() -> None:
    story = Story()
    served = [configured(f"s{n}", rack="r1", of=GANG, group="g", cluster="c2") for n in range(2)]
    racks = [machine(f"{rack}{n}", rack=rack) for rack in ("r1", "r2") for n in range(3)]
    second = gang(8, "c2", arrival=1.0)
    assert domains(story.then([*served, *racks], second)) == ["r1"]
    assert domains(story.then([*served, *racks], gang(12, "c1"), second)) == ["r1", "r1"]
    assert domains(story.then([*served, *racks], gang(12, "c1"), replace(second, aggregate=cpu(12)))) == ["r1", "r2"]


def test_a_gang_folds_when_a_machine_comes_that_holds_it_and_unfolds_when_it_goes() -> None:
    story = Story()
    small, large = [machine(f"s{n}", rack="r1") for n in range(2)], machine("l", allocatable=cpu(8), rack="r2")
    folded = [
        story.then(machines, gang(8)).views[0].need.profile.same is None
        for machines in (small, [*small, large], small, [*small, replace(large, allocatable=cpu(7))])
    ]
    assert folded == [False, True, False, False]


def test_a_gang_folds_onto_a_machine_that_its_cluster_was_given() -> None:
    story = Story()
    large = machine("l", MachineState.FAILED, allocatable=cpu(8), rack="r1")
    bound = configured("l", allocatable=cpu(8), rack="r1")
    assert story.then([large], gang(8)).views[0].need.profile.same is not None
    assert story.then([bound], gang(8)).views[0].need.profile.same is None


def test_a_gang_stays_folded_while_its_host_is_being_created() -> None:
    plain = GANG.without_same()
    bought = replace(machine("l", MachineState.CREATING, allocatable=cpu(8), rack="r1"), assignment=for_(plain))
    story = Story()
    assert story.then([replace(bought, assignment=for_(GANG))], gang(8)).views[0].need.profile.same is not None
    assert story.then([bought], gang(8)).views[0].claimed == 1


def for_(of: NeedProfile) -> Assignment:
    return Assignment(fingerprint=of.fingerprint)


def test_what_is_created_for_a_profile_counts_once_someone_asks_for_it() -> None:
    story = Story()
    of = profile(priority=7)
    bought = replace(machine("m", MachineState.CREATING), assignment=for_(of))
    story.then([bought], need(cpu(4)))
    (view,) = story.then([bought], need(cpu(4), of=of)).views
    assert (view.claimed, view.satisfied) == (1, True)


def test_a_label_that_nobody_asked_about_counts_once_someone_does() -> None:
    story = Story()
    ssd, hdd = (replace(machine(disk), labels={"disk": disk}) for disk in ("ssd", "hdd"))
    assert bootstraps(story.then([ssd, hdd], need(cpu(1)))) == ["hdd"]
    picky = need(cpu(1), of=profile(Requirement("disk", RequirementOperator.IN, ("ssd",))))
    assert bootstraps(story.then([ssd, hdd], picky)) == ["ssd"]


def test_a_new_price_changes_who_is_taken_first() -> None:
    story = Story()
    one, other = machine("a", price=1.0), machine("b", price=2.0)
    assert bootstraps(story.then([one, other], need(cpu(1)))) == ["a"]
    assert bootstraps(story.then([one, replace(other, price_per_hour=0.5)], need(cpu(1)))) == ["b"]


def test_a_new_label_moves_a_machine_to_another_domain() -> None:
    story = Story()
    racks = [machine(f"m{n}", rack="r1" if n < 2 else "r2") for n in range(3)]
    assert domains(story.then(racks, gang(8))) == ["r1"]
    racks[0] = replace(racks[0], labels={RACK_KEY: "r2"})
    assert domains(story.then(racks, gang(8))) == ["r2"]


def test_a_machine_that_shrinks_no_longer_covers_what_it_did() -> None:
    story = Story()
    whole = configured("m", allocatable=cpu(4))
    assert story.then([whole], need(cpu(4))).views[0].satisfied
    assert not story.then([replace(whole, allocatable=cpu(3))], need(cpu(4))).views[0].satisfied


def test_a_machine_that_changes_hands_counts_for_its_new_cluster_only() -> None:
    story = Story()
    ours, theirs = need(cpu(4)), need(cpu(4), cluster="c2")
    assert [v.claimed for v in story.then([configured("m", "c1")], ours, theirs).views] == [1, 0]
    assert [v.claimed for v in story.then([configured("m", "c2")], ours, theirs).views] == [0, 1]


def test_a_new_penalty_changes_who_is_kept() -> None:
    story = Story()
    machines = [configured("a"), configured("b")]
    assert acted(story.then(machines, need(cpu(4))), ActionKind.RECLAIM) == ["b"]
    dear = replace(machines[1], assignment=Assignment(reclamation_dollars=128.0))
    assert acted(story.then([machines[0], dear], need(cpu(4))), ActionKind.RECLAIM) == ["a"]


def test_a_machine_that_is_bound_for_another_need_changes_who_is_kept() -> None:
    story, of, terms = Story(), profile(), Assignment(priority=1000)
    machines = [configured("a", of=of), replace(configured("b"), assignment=terms)]
    assert acted(story.then(machines, need(cpu(4), of=of)), ActionKind.RECLAIM) == ["b"]
    swapped = [replace(machines[0], assignment=terms), replace(machines[1], assignment=machines[0].assignment)]
    assert acted(story.then(swapped, need(cpu(4), of=of)), ActionKind.RECLAIM) == ["a"]


def test_a_machine_that_goes_and_comes_back_is_as_good_as_new() -> None:
    story = Story()
    for there in (True, False, True):
        machines = [machine("m")] if there else []
        assert bootstraps(story.then(machines, need(cpu(1)))) == ["m"] * there


def test_an_amount_finer_than_all_before_changes_no_other() -> None:
    story = Story()
    story.then([machine("a"), configured("b")], need(cpu(8)))
    finer = need({"cpu": 4001})
    decisions = story.then([machine("a"), configured("b")], finer)
    assert bootstraps(decisions) == ["a"]
    assert decisions.views[0].satisfied


def test_a_dimension_that_is_new_is_wanted_too() -> None:
    story = Story()
    plain, with_gpu = machine("a"), machine("b", allocatable={"cpu": 4000, "gpu": 1000})
    assert bootstraps(story.then([plain, with_gpu], need(cpu(1)))) == ["a"]
    assert bootstraps(story.then([plain, with_gpu], need({"cpu": 1000, "gpu": 1000}, {"gpu": 1000}))) == ["b"]


def test_ids_keep_their_order_in_whatever_order_they_come() -> None:
    story = Story()
    machines: list[Machine] = []
    for number, machine_id in enumerate(["m", "z", "a", "mm", "é", "ma", "m-1", "Z"]):
        machines.append(machine(machine_id))
        decisions = story.then(machines, need(cpu(4 * (number + 1))))
        assert bootstraps(decisions) == sorted(one.id for one in machines)


def test_gangs_park_and_probe_though_nothing_changes() -> None:
    story = Story()
    held = [configured("held", rack="r1", of=GANG, group="g")]
    parked = [story.then(held, gang(12)).views[0].parked for _ in range(34)]
    assert parked == [False] * 8 + [True] * 24 + [False] + [True]


def test_a_shortfall_ages_though_nothing_changes() -> None:
    story = Story()
    assert [story.then([], need(cpu(4))).shortfalls[0].age_cycles for _ in range(4)] == [1, 2, 3, 4]


def test_time_alone_releases_a_machine() -> None:
    story = Story()
    late = [story.then([machine("m")], now=now, idle_since={"m": 0.0}).actions for now in (10.0, 300.0, 301.0)]
    assert [len(actions) for actions in late] == [0, 0, 1]


def test_time_alone_lets_more_be_reclaimed() -> None:
    engine, a, b = EngineAndOracle(EngineOptions()), configured("a"), configured("b")
    history = [(0.0, [a, b]), (1.0, [b]), (9.9, [b]), (10.0, [b])]
    gone = [decide(machines, reported=["c1"], engine=engine, now=now).actions for now, machines in history]
    assert [len(actions) for actions in gone] == [1, 0, 0, 1]


def test_a_roll_up_that_is_replaced_is_forgotten() -> None:
    story = Story()
    machines = [configured("a"), configured("b")]
    assert not story.then(machines, need(cpu(8))).actions
    assert acted(story.then(machines, need(cpu(4))), ActionKind.RECLAIM) == ["b"]
    assert not story.then(machines).actions, "the cluster is as if it had never reported"


def test_a_drain_that_begins_counts_for_the_one_who_waits() -> None:
    story = Story()
    low = profile(priority=1)
    victim = configured("v", "c2", of=low)
    demand = need(cpu(4)), need(cpu(4), of=low, cluster="c2")
    assert acted(story.then([victim], *demand), ActionKind.PREEMPT) == ["v"]
    assert not story.then([replace(victim, state=MachineState.DRAINING)], *demand).actions


def test_a_machine_that_is_cheaper_is_kept_whatever_its_kind() -> None:
    machines = [configured("a", price=2.0), configured("b", price=1.0, zone="zone-b", allocatable=cpu(5))]
    zonal = need(cpu(1), of=profile(Requirement(ZONE_KEY, RequirementOperator.IN, ("zone-b",)), priority=1))
    assert acted(Story().then(machines, need(cpu(4)), zonal), ActionKind.RECLAIM) == ["a"]


def test_a_machine_being_created_counts_for_one_cluster() -> None:
    of = profile()
    bought = replace(machine("m", MachineState.CREATING), assignment=for_(of))
    views = Story().then([bought], need(cpu(4), of=of), need(cpu(4), of=of, cluster="c2")).views
    assert [view.claimed for view in views] == [1, 0]


def test_ids_give_the_order_across_kinds() -> None:
    machines = [machine("a", zone="zone-b"), machine("b", zone="zone-a"), machine("c", zone="zone-b")]
    assert bootstraps(Story().then(machines, need(cpu(8)))) == ["a", "b"]


def test_machines_too_small_for_a_whole_gang_do_not_serve_a_folded_one() -> None:
    small, large = configured("s", rack="r1"), configured("l", allocatable=cpu(6), rack="r1", price=9.0)
    decisions = Story().then([small, large], gang(6))
    assert decisions.views[0].need.profile.same is None
    assert acted(decisions, ActionKind.RECLAIM) == ["s"]


def test_machines_on_their_way_in_count_each_for_what_it_is() -> None:
    coming = [
        machine("a", MachineState.CONFIGURING, cluster="c1"),
        machine("b", MachineState.CONFIGURING, cluster="c1", allocatable=cpu(2)),
    ]
    assert Story().then(coming, need(cpu(7))).views[0].residual == cpu(1)


def test_a_machine_that_just_covers_min_unit_is_of_use() -> None:
    assert Story().then([configured("m")], need(cpu(4), cpu(4))).views[0].satisfied


def test_the_older_of_a_clusters_needs_is_served_first() -> None:
    young, old = need(cpu(4), of=profile(same("a-key")), arrival=2.0), need(cpu(4), arrival=1.0)
    other = need(cpu(4), of=profile(Requirement(ZONE_KEY, RequirementOperator.EXISTS)), arrival=2.0)
    views = Story().then([configured("m")], young, old, other).views
    assert [(view.need.arrival, view.claimed) for view in views] == [(1.0, 1), (2.0, 0), (2.0, 0)]


def test_of_needs_that_change_in_amounts_only_each_is_served_by_its_own() -> None:
    story = Story()
    machines = [machine(f"m{n}") for n in range(4)]
    late = replace(need(cpu(4), of=profile(priority=1)), arrival=5.0)
    assert bootstraps(story.then(machines, late, need(cpu(4)))) == ["m0", "m1"]
    assert bootstraps(story.then(machines, late, need(cpu(12)))) == ["m0", "m1", "m2", "m3"]
    assert bootstraps(story.then(machines, replace(late, aggregate=cpu(1)), need(cpu(12)))) == ["m0", "m1", "m2", "m3"]
    views = story.then(machines, replace(late, aggregate=cpu(8), min_unit=cpu(64)), need(cpu(12))).views
    assert [(view.need.aggregate, view.need.min_unit, view.bootstraps) for view in views] == [
        (cpu(12), cpu(1), 3),
        (cpu(8), cpu(64), 0),
    ]


def test_an_amount_that_grows_is_wanted_of_each_machine_too() -> None:
    story = Story()
    machines = [machine("a", allocatable={"cpu": 4000}), machine("b", allocatable={"cpu": 4000, "disk": 1000})]
    assert bootstraps(story.then(machines, need(cpu(4)))) == ["a"]
    assert bootstraps(story.then(machines, need({"cpu": 4000, "disk": 1000}))) == ["b"]


def test_a_need_that_was_gone_for_a_while_is_the_younger_one() -> None:
    story = Story()
    one = need(cpu(4), arrival=1.0)
    other = need(cpu(4), of=profile(Requirement(ZONE_KEY, RequirementOperator.EXISTS)), arrival=2.0)
    assert [view.need.arrival for view in story.then([configured("m")], one, other).views] == [1.0, 2.0]
    again = story.then([configured("m")], replace(one, arrival=3.0), other).views
    assert [(view.need.arrival, view.claimed) for view in again] == [(2.0, 1), (3.0, 0)]


def test_a_gang_that_outgrows_every_machine_no_longer_folds() -> None:
    story = Story()
    rack = [machine(f"m{n}", rack="r1") for n in range(2)]
    assert domains(story.then(rack, gang(4))) == [""]
    assert domains(story.then(rack, gang(8))) == ["r1"]


def test_another_gangs_machines_come_after_its_own() -> None:
    machines = [
        configured("a", rack="r1", of=GANG, group="other"),
        configured("b", rack="r1", of=GANG, group="g"),
        configured("c", rack="r1", of=GANG, group="g"),
    ]
    decisions = Story().then(machines, gang(8))
    assert acted(decisions, ActionKind.RECLAIM) == ["a"]


def test_a_gang_leaves_a_better_victim_of_another_domain_alone() -> None:
    held = configured("held", rack="r1", of=GANG, group="g")
    near = configured("near", "c2", rack="r1", of=profile(priority=500))
    far = configured("far", "c2", rack="r2", of=profile(priority=1))
    theirs = need(cpu(8), of=profile(priority=500), cluster="c2")
    assert acted(Story().then([held, near, far], gang(8), theirs), ActionKind.PREEMPT) == ["near"]


def test_releases_go_by_id_across_kinds() -> None:
    machines = [machine("b", zone="zone-a"), machine("a", zone="zone-b", price=3.0), machine("c", zone="zone-b")]
    stamps = {one.id: 0.0 for one in machines}
    assert acted(Story().then(machines, now=1e6, idle_since=stamps), ActionKind.DELETE) == ["a", "b", "c"]


def test_views_that_are_read_late_tell_of_their_own_cycle() -> None:
    """People ask for them when the roll-up has been replaced, and amounts are counted in finer units."""
    fleet, engine = Fleet(), Engine(NO_CAP)
    fleet.replace_needs("c1", [need(cpu(4), arrival=1.0), gang(8)])
    decisions = engine.cycle(fleet, 0.0)
    fleet.replace_needs("c1", [])
    fleet.put(machine("m", allocatable={"cpu": 1001, "memory": 7}))
    engine.cycle(fleet, 1.0)
    assert [view.need for view in decisions.views] == [gang(8), need(cpu(4), arrival=1.0)]
    assert [view.residual for view in decisions.views] == [cpu(8), cpu(4)]
    assert decisions.views_of("c1") == list(decisions.views)
    assert decisions.views_of("never-heard-of") == []
