"""From profile and substrate to a plan: demand, seeded machines, observations, values."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.machines import MachineState
from scaletest.cluster.fleet_file import owner_of, render_fleet
from scaletest.cluster.workloads.podclass import pods_of
from scaletest.errors import UsageError
from scaletest.model.demand import seeding as fleets
from scaletest.model.demand.draw import Draw, draw_clusters, ordinal_of, takes_part
from scaletest.model.demand.needs import DrawnNeed, burst_machines, held_at_start, needs_of
from scaletest.model.demand.seeding import MachineGroup, seed_share
from scaletest.model.demand.shard_shares import DemandShare
from scaletest.model.demand.sizing import exact
from scaletest.model.documents.durations import format_duration, parse_duration
from scaletest.model.documents.loadprofile import LoadProfile, Seeding
from scaletest.model.documents.profile import Burst, Profile, Seed
from scaletest.model.plan import Plan, make_plan
from scaletest.report.plan import full_plan_lines, plan_document, plan_lines
from scaletest.run.steps.guard import Caps
from tests.unit.plans import LAPTOP, shipped_plan, smoke_plan


def draws_of(plan: Plan) -> list[Draw]:
    target, clusters = plan.geometry.pods_per_cluster, plan.geometry.kwok_clusters
    return list(draw_clusters(plan.catalog.demand, target, plan.seed, range(clusters)))


def fleet_of(plan: Plan) -> list[MachineGroup]:
    share = DemandShare(0, tuple(draws_of(plan)), plan.demand)
    return list(
        seed_share(plan.catalog, share, plan.free, plan.profile.seed, plan.profile.scale.density, owner_of),
    )


@pytest.mark.parametrize("profile", ["smoke", "dev-50", "dev-500"])
def test_plain_needs_are_those_of_a_roll_up(profile: str) -> None:
    """A need too many is a machine too many: it would be reclaimed while the run settles, and its Pods evicted."""
    plan = shipped_plan(profile)
    for draw in draws_of(plan):
        asked = {
            (workload.archetype.name, pods_of(workload).profile.fingerprint)
            for workload in draw.workloads()
            if not workload.archetype.gang
        }
        seeded = [need for need in needs_of(draw, plan.profile.scale.density) if not need.archetype.gang]
        assert Counter(need.archetype.name for need in seeded) == Counter(name for name, _ in asked)


def changed(plan: Plan, soak_seconds: float | None = None, **fields: object) -> Plan:
    """The same plan with other fields in its profile."""
    profile = Profile.model_validate(plan.profile.model_dump(by_alias=True, exclude_defaults=True) | fields)
    return make_plan(
        profile,
        plan.profile_name,
        plan.catalog,
        plan.substrate,
        plan.substrate_name,
        this_host=LAPTOP,
        soak_seconds=plan.soak_seconds if soak_seconds is None else soak_seconds,
    )


def test_smoke_is_two_clusters_of_forty_pods() -> None:
    geometry = smoke_plan().geometry
    assert (geometry.kwok_clusters, geometry.pods_per_cluster, geometry.total_pods) == (2, 40, 80)


def test_smoke_draws_a_gang_a_hard_spread_and_two_priorities_in_each_cluster() -> None:
    for draw in draws_of(smoke_plan()):
        workloads = list(draw.workloads())
        assert draw.pods == 40
        assert {workload.archetype.name for workload in workloads} == {"web", "api", "trainer"}
        assert {workload.priority for workload in workloads} == {100, 1000}
        assert sum(1 for workload in workloads if workload.group) == 1
        assert any(workload.has_spread for workload in workloads)


def test_smoke_causes_what_it_gates() -> None:
    plan = smoke_plan()
    fill = plan.demand.total_machines - plan.seeded["configured"]
    lost = plan.expected["replacements"]
    assert fill + lost >= 30, "Bootstraps over the run"
    assert fill + lost - plan.seeded["idle"] >= 10, "Provisions over the run"
    assert lost >= plan.profile.slo.min_observations
    assert plan.expected["rebinds"] >= plan.profile.slo.min_observations


def test_half_of_what_a_cluster_needs_is_seeded_as_configured_in_the_mix_of_its_needs() -> None:
    plan = smoke_plan()
    for ordinal, draw in enumerate(draws_of(plan)):
        bound = Counter[str]()
        for group in fleet_of(plan):
            if group.cluster == f"kwok-cluster-{ordinal}":
                bound[group.archetype.name] += group.count
        needed = Counter[str]()
        for need in needs_of(draw, plan.profile.scale.density):
            needed[need.archetype.name] += need.machines
        assert bound.total() == needed.total() // 2
        assert all(abs(bound[name] - machines / 2) < 1 for name, machines in needed.items())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=30), st.floats(0, 1))
def test_the_machines_held_at_the_start_are_shared_out_to_the_last_one(
    drawn: list[tuple[int, int]], fraction: float
) -> None:
    archetypes = smoke_plan().catalog.demand
    needs = [DrawnNeed(archetypes[of], 100, machines, (), False, 0) for of, machines in drawn]
    held = held_at_start(needs, fraction)
    total = sum(need.machines for need in needs)
    assert sum(held) == int(total * exact(fraction))
    assert all(0 <= number <= need.machines for number, need in zip(held, needs, strict=True))
    for archetype in archetypes:
        mine = [
            (number, need.machines) for number, need in zip(held, needs, strict=True) if need.archetype is archetype
        ]
        assert abs(sum(number for number, _ in mine) - sum(machines for _, machines in mine) * fraction) < 2


def test_a_gang_is_seeded_in_one_rack_where_spare_machines_stand_too() -> None:
    plan = smoke_plan()
    trainers = [group for group in fleet_of(plan) if group.archetype.name == "trainer"]
    for ordinal in range(2):
        racks = {(g.slot.zone, g.slot.rack) for g in trainers if g.cluster == f"kwok-cluster-{ordinal}"}
        assert len(racks) == 1
        spare = [g.count for g in trainers if g.tier is fleets.SPECULATIVE and (g.slot.zone, g.slot.rack) in racks]
        assert sum(spare) >= 4


def test_seeded_machines_carry_the_stamps_of_the_needs_that_the_operator_will_report() -> None:
    plan = smoke_plan()
    for ordinal, draw in enumerate(draws_of(plan)):
        machines = plan.profile.scale.density
        reported = {owner_of(draw.workload(need.workload), need.is_gang) for need in needs_of(draw, machines)}
        stamped = {group.owner for group in fleet_of(plan) if group.cluster == f"kwok-cluster-{ordinal}"}
        assert stamped == reported
        gangs = {workload.group for workload in draw.workloads() if workload.group}
        # The group as roll-ups have it: topology key, NUL, selector.
        assert {group.partition("=")[2].rstrip(",;") for _, group in stamped if group} == gangs
    assert all(group.owner == fleets.NO_OWNER for group in fleet_of(plan) if not group.cluster)


def test_the_pods_files_render_the_seed_file_that_the_plan_counted() -> None:
    plan = smoke_plan()
    values = plan.values("run")
    load, seeding = LoadProfile.model_validate(values["loadProfile"]), Seeding.model_validate(values["seeding"])
    document = render_fleet(load, seeding)
    states = Counter[str]()
    for entry in document["machines"]:
        states[entry["state"]] += entry["count"]
    assert states == {
        "Configured": plan.seeded["configured"],
        "Idle": plan.seeded["idle"],
        "Speculative": plan.seeded["speculative"],
    }
    assert states.keys() <= {state.label for state in MachineState}
    ids = [f"{e['idPrefix']}-{e['kind']}-{i}" for e in document["machines"] for i in range(e["count"])]
    assert len(ids) == len(set(ids)) == sum(plan.seeded.values())
    assert max(len(f"fake-{machine}") for machine in ids) <= 63, "node names are label values too"


def test_both_spellings_of_pre_bind_parse_and_exclude_each_other() -> None:
    assert Seed.model_validate({"preBind": True}).bound_at_start == 1.0
    assert Seed.model_validate({"preBindFraction": 0.5}).bound_at_start == 0.5
    assert Seed().bound_at_start == 0.0
    with pytest.raises(ValueError, match="exclude each other"):
        Seed.model_validate({"preBind": True, "preBindFraction": 0.5})


def test_the_load_asked_for_follows_sheds_and_steps_into_the_window() -> None:
    plan = smoke_plan()
    shed = {"scaleDowns": [{"atSeconds": 600, "targetMultiplier": 0.5}]}
    assert changed(plan, 2400, loadProfile=shed).lowest_level == 0.5
    assert changed(plan, 600, loadProfile=shed).lowest_level == 0.5, "at the very end of the window"
    assert changed(plan, 599, loadProfile=shed).lowest_level == 1.0
    waves = {"demandSteps": [{"atSeconds": 720, "targetMultiplier": 0.5}, {"atSeconds": 1440, "targetMultiplier": 1.0}]}
    assert changed(plan, 1500, loadProfile=waves).lowest_level == 0.5
    assert changed(plan, 1800, loadProfile=waves).lowest_level == 1.0
    assert changed(plan, 1800, loadProfile={"openLoopDemandMultiplier": 2.0}).lowest_level == 2.0


def test_a_burst_of_an_unknown_archetype_names_those_there_are() -> None:
    bursts = {"bursts": [{"atSeconds": 1, "archetype": "webb", "extraTarget": 1}]}
    with pytest.raises(UsageError, match="no archetype 'webb'") as refused:
        changed(smoke_plan(), loadProfile=bursts)
    assert "web" in refused.value.hint


def test_a_burst_gets_machines_of_its_own_on_top() -> None:
    plan = smoke_plan()
    bursts = {"bursts": [{"atSeconds": 1, "archetype": "trainer", "extraTarget": 2}], "seed": plan.seed}
    more = changed(plan, loadProfile=bursts)
    assert more.seeded["speculative"] - plan.seeded["speculative"] == 2 * 2 * 4, "two clusters, two gangs, four each"


@pytest.mark.parametrize(
    ("machines", "topology", "sentence", "hint"),
    [
        (100_000_000, {}, r"4,000,000 KWOK clusters, 100,000 are the most", "cluster.podsPerCluster"),
        (100_000_000, {"kwokClusters": 1}, r"100,000,000,000 Pods in each KWOK cluster", "topology.kwokClusters"),
    ],
)
def test_sizes_that_nobody_has_are_refused_at_once(
    machines: int, topology: dict[str, int], sentence: str, hint: str
) -> None:
    plan = shipped_plan("5k", "example-fat-host")
    with pytest.raises(UsageError, match=sentence) as refused:
        changed(plan, scale={"machines": machines, "density": 1000}, topology=topology)
    assert hint in refused.value.hint


def test_of_very_many_clusters_the_first_ones_tell_how_many_take_part_in_a_burst() -> None:
    archetypes = smoke_plan().catalog.by_name

    def machines(clusters: int, selectivity: float) -> int:
        burst = Burst(at_seconds=5, archetype="web", extra_target=1, selectivity=selectivity)
        return burst_machines([burst], archetypes, range(clusters), 4)["web"]

    assert machines(10, 0.5) == sum(
        takes_part(Burst(at_seconds=5, archetype="web", extra_target=1, selectivity=0.5), n) for n in range(10)
    )
    assert machines(100_000, 0.5) == 5 * machines(20_000, 0.5)
    assert (machines(100_000, 1.0), machines(100_000, 0.0)) == (100_000, 0)


def test_the_plan_tells_people_the_essentials() -> None:
    plan = smoke_plan()
    text = "\n".join(plan_lines(plan))
    seeded = f"{plan.seeded['configured']} configured, {plan.seeded['idle']} idle, {plan.seeded['speculative']:,} spec"
    for essential in (
        "2 clusters × 40 Pods",
        seeded,
        "soak 1m00s",
        "cost        nothing",
        "this machine, 2 vCPU / 24 GiB",
    ):
        assert essential in text
    whole = "\n".join(full_plan_lines(plan))
    for essential in (text, "teardown", "configure phase p99", f"{plan.expected['replacements']} replacements"):
        assert essential in whole


def test_a_plan_that_is_refused_still_says_which_flags_its_run_would_need() -> None:
    lines = full_plan_lines(shipped_plan("50k", "example-fat-host"), Caps(7200, 20))
    assert lines[-4:] == [
        "a run would be refused:",
        "  settle and soak alone may take 3h00m00s, --max-duration is 2h00m00s",
        "  the run is estimated at $38.68, --max-cost-usd is $20",
        "a run needs --max-duration 3h32m --max-cost-usd 39",
    ]
    assert full_plan_lines(smoke_plan())[-1] == "a run would start"


def test_the_plans_json_has_what_scripts_look_for_at_its_top() -> None:
    document = plan_document(smoke_plan())
    assert {"kwokClusters", "hosts", "shards", "totalPods", "soakUsd", "runUsd"} <= document.keys()
    values: dict[str, Any] = document["values"]
    assert values["kwok"]["clusterCount"] == 2
    assert document["caps"] == {"maxDurationSeconds": 7200, "maxCostUsd": 50}
    assert document["neededFlags"] == []
    assert plan_document(smoke_plan(), Caps(60, 50))["neededFlags"] == ["--max-duration 37m"]
    assert {"reclaimActionsDuringSoak", "shardShortfalls"} <= {gate["key"] for gate in document["gates"]}
    configure = next(gate for gate in document["gates"] if gate["key"] == "shardConfigurePhaseP99Seconds")
    assert configure["expectedObservations"] == smoke_plan().expected["replacements"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("3m", 180), ("1h30m", 5400), ("1.5m", 90), ("250ms", 0.25)]
)
def test_durations_parse(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "3 m", "-3m", "3d", "1m x"])
def test_bad_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_durations_print_short() -> None:
    assert [format_duration(s) for s in (12, 185, 3723)] == ["12s", "3m05s", "1h02m03s"]


def test_the_ordinal_is_the_end_of_a_name() -> None:
    assert ordinal_of("kwok-cluster-17") == 17


def test_reclaims_count_from_the_start_of_a_soak_that_is_shorter_than_the_pause_before_them() -> None:
    load = {"settleSeconds": 90, "seed": 1}
    whole = changed(shipped_plan("dev-50", "embedded"), loadProfile=load)
    assert whole.reclaims_count_after_seconds == 90
    assert changed(whole, soak_seconds=75, loadProfile=load).reclaims_count_after_seconds == 0


@pytest.mark.parametrize(("soak", "window"), [(20, 20), (60, 60), (180, 180), (5400, 5400)])
def test_gates_look_at_the_soak_and_never_back_into_the_fill(soak: int, window: int) -> None:
    assert smoke_plan(soak).window_seconds == window
