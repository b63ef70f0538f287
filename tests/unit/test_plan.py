"""From profile and substrate to a plan: geometry, cost, demand, seeded machines."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.core.machines import MachineState
from scaletest.errors import UsageError
from scaletest.model import fleet as fleets
from scaletest.model.catalog import Catalog
from scaletest.model.draw import draw_demand, ordinal_of, total_pods
from scaletest.model.durations import format_duration, parse_duration
from scaletest.model.fleet import machines_for, seed_fleet
from scaletest.model.plan import make_plan, plan_lines
from scaletest.model.profile import Profile, Seed
from scaletest.model.reading import read_profile, read_substrate
from tests.unit.plans import smoke_plan


def test_smoke_is_two_clusters_of_forty_pods() -> None:
    geometry = smoke_plan().geometry
    assert (geometry.kwok_clusters, geometry.pods_per_cluster, geometry.total_pods) == (2, 40, 80)


def test_smoke_draws_a_gang_a_hard_spread_and_two_priorities_in_each_cluster() -> None:
    for draw in smoke_plan().draws:
        assert total_pods(draw) == 40
        assert {workload.archetype.name for workload in draw} == {"web", "api", "trainer"}
        assert {workload.priority for workload in draw} == {100, 1000}
        assert sum(1 for workload in draw if workload.group) == 1
        assert any(workload.has_spread for workload in draw)


def test_smoke_causes_what_it_gates() -> None:
    plan = smoke_plan()
    fill = plan.fleet.demanded - plan.fleet.count(fleets.CONFIGURED)
    assert fill + plan.expected_losses >= 30, "Bootstraps over the run"
    assert fill + plan.expected_losses - plan.fleet.count(fleets.IDLE) >= 10, "Provisions over the run"
    assert plan.expected_losses >= plan.profile.slo.min_observations
    assert plan.expected_rebinds >= plan.profile.slo.min_observations


def test_half_of_what_each_need_takes_is_seeded_as_configured() -> None:
    plan = smoke_plan()
    for ordinal, draw in enumerate(plan.draws):
        bound = Counter[str]()
        for group in plan.fleet.groups:
            if group.cluster == f"kwok-cluster-{ordinal}":
                bound[group.archetype] += group.count
        needed = Counter[str]()
        for (name, _, _, _), count in machines_for(draw, plan.profile.scale.density).items():
            needed[name] += round(count / 2)
        assert bound == needed


def test_a_gang_is_seeded_in_one_rack_where_spare_machines_stand_too() -> None:
    plan = smoke_plan()
    for ordinal in range(2):
        racks = {
            (g.slot.zone, g.slot.rack)
            for g in plan.fleet.groups
            if g.archetype == "trainer" and g.cluster == f"kwok-cluster-{ordinal}"
        }
        assert len(racks) == 1
        spare = sum(
            g.count
            for g in plan.fleet.groups
            if g.archetype == "trainer" and g.tier is fleets.SPECULATIVE and (g.slot.zone, g.slot.rack) in racks
        )
        assert spare >= 4


def test_the_seed_file_is_plain_json_with_legal_states_and_unique_ids() -> None:
    document = json.loads(smoke_plan().values("run")["provider"]["fleet"])
    states = {entry["state"] for entry in document["machines"]}
    assert states <= {state.label for state in MachineState}
    ids = [f"{e['idPrefix']}-{e['kind']}-{i}" for e in document["machines"] for i in range(e["count"])]
    assert len(ids) == len(set(ids)) == 34 + 25 + 189
    assert max(len(f"fake-{machine}") for machine in ids) <= 63, "node names are label values too"


@given(seed=st.integers(0, 10_000), ordinal=st.integers(0, 50), target=st.integers(0, 300))
def test_a_draw_is_repeatable_and_reaches_its_target_exactly(seed: int, ordinal: int, target: int) -> None:
    catalog = smoke_plan().catalog
    drawn = draw_demand(catalog, target, seed, ordinal)
    assert drawn == draw_demand(catalog, target, seed, ordinal)
    assert total_pods(drawn) == target
    for workload in drawn:
        if workload.archetype.gang:
            low, high = workload.archetype.gang.group_size_range
            assert low <= workload.replicas <= high
    assert len({workload.name for workload in drawn}) == len(drawn)


@given(
    seed=st.integers(0, 1000),
    fraction=st.floats(0, 1),
    idle=st.floats(0, 3),
    multiplier=st.integers(0, 5),
    target=st.integers(1, 200),
)
def test_seeding_counts_add_up(seed: int, fraction: float, idle: float, multiplier: int, target: int) -> None:
    catalog = smoke_plan().catalog
    draws = [draw_demand(catalog, target, seed, ordinal) for ordinal in range(2)]
    wanted = Seed(configured_fraction=fraction, idle_headroom_fraction=idle, speculative_multiplier=multiplier)
    fleet = seed_fleet(catalog, draws, wanted, density=4, shards=1)
    assert fleet.count(fleets.CONFIGURED) <= fleet.demanded + len(draws) * 10
    assert fleet.count(fleets.IDLE) == int(fleet.demanded * idle)
    assert fleet.count(fleets.SPECULATIVE) == fleet.demanded * multiplier


def test_both_spellings_of_pre_bind_parse_and_exclude_each_other() -> None:
    assert Seed.model_validate({"preBind": True}).pre_bind_fraction == 1.0
    assert Seed.model_validate({"preBindFraction": 0.5}).pre_bind_fraction == 0.5
    with pytest.raises(ValueError, match="exclude each other"):
        Seed.model_validate({"preBind": True, "preBindFraction": 0.5})


def test_an_unknown_field_is_refused_with_its_path(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.yaml"
    path.write_text(
        "apiVersion: bigfleet.io/scaletest/v1\nkind: Profile\nscale: {machines: 1, density: 1, machinez: 2}\n"
    )
    with pytest.raises(UsageError, match=r"scale\.machinez"):
        read_profile(str(path))


def test_a_missing_profile_names_those_that_ship() -> None:
    with pytest.raises(UsageError) as caught:
        read_profile("no-such")
    assert "smoke" in caught.value.hint


def test_what_is_not_built_yet_is_refused_before_anything_starts() -> None:
    profile, catalog, name = read_profile("smoke")
    substrate, substrate_name = read_substrate("embedded")
    asking = Profile.model_validate(
        profile.model_dump(by_alias=True, exclude={"seed"})
        | {"seed": {"preBind": True}, "runnerActions": [{"atSeconds": 1, "action": "x"}]}
    )
    with pytest.raises(UsageError, match=r"seed\.preBind, runnerActions"):
        make_plan(asking, name, catalog, substrate, substrate_name)


def test_a_catalog_without_steady_demand_is_refused() -> None:
    archetype = smoke_plan().catalog["web"].model_dump(by_alias=True) | {"burstOnly": True}
    with pytest.raises(ValueError, match="no steady demand"):
        Catalog.model_validate({"archetypes": [archetype]})


def test_the_plan_tells_people_the_essentials() -> None:
    text = "\n".join(plan_lines(smoke_plan()))
    for essential in ("2 clusters × 40 Pods", "34 configured, 25 idle, 189 speculative", "soak 1m00s", "$0.00"):
        assert essential in text


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
