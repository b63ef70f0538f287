"""What ships: every profile plans and passes preflight, the published figures come out, and each bar can be judged."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.core import penalty
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.provider.fake.ledger.ledger import Ledger
from bigfleet.provider.fake.ledger.shapes import FleetShapes
from bigfleet.shard.metrics import ShardMetrics
from scaletest.cluster.load.bind_latency import BindLatency
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.windows import soak_window
from scaletest.model.demand import seeding as fleets
from scaletest.model.demand.capacity import find_shortage
from scaletest.model.demand.draw import draw_clusters
from scaletest.model.demand.sizing import allocate_machines, effective_machines, machine_share, seed_sizes
from scaletest.model.documents.substrate import Substrate
from scaletest.model.files.reading import read_profile, read_substrate, shipped
from scaletest.model.geometry import derive_cost, derive_geometry
from scaletest.model.plan import Plan, make_plan
from scaletest.project import PROJECT
from scaletest.report.plan import full_plan_lines
from scaletest.run.steps.preflight import refusals_of, shortage, warnings_of
from tests.unit.plans import LAPTOP, refuse_the_impossible, shipped_plan

FAT, MID, KIND = "example-fat-host", "example-mid-host", "example-kind-laptop"
DEV = ("dev-50", "dev-500", "smoke", "smoke-2shard")

# Nominal machines, ramp, soak, settle budget, cycle bar.
VALUES = {
    "smoke": (20, 60, 160, "4m", 5),
    "smoke-2shard": (20, 60, 160, "4m", 5),
    "dev-50": (50, 300, 180, "10m", 5),
    "dev-500": (500, 900, 1800, "30m", 5),
    "5k": (5_000, 1800, 1800, "60m", 5),
    "25k": (25_000, 2400, 3600, "90m", 25),
    "50k": (50_000, 3600, 3600, "120m", 25),
    "50k-2shard": (50_000, 3600, 3600, "120m", 25),
    "500k": (500_000, 7200, 3600, "240m", 100),
    "1m": (1_000_000, 7200, 3600, "240m", 100),
    "5m": (5_000_000, 7200, 3600, "240m", 100),
    "failover-leader-kill": (5_000, 1800, 1200, "60m", 5),
    "failover-shard-kill": (5_000, 1800, 1200, "60m", 5),
    "failover-partition": (5_000, 1800, 1200, "60m", 5),
    "failover-soak": (5_000, 1800, 3600, "60m", 5),
    "reclaim-cycle": (5_000, 1800, 2400, "60m", 5),
    "reclaim-cycle-50k": (50_000, 3600, 2400, "120m", 25),
    "oscillation-5k": (5_000, 1800, 3600, "60m", 5),
    "preemption-5k": (5_000, 1800, 2400, "60m", 5),
    "scarcity-5k": (5_000, 1800, 1800, "60m", 5),
    "cost-routing-5k": (5_000, 1800, 1200, "60m", 5),
    "spot-churn-50k": (50_000, 3600, 3600, "120m", 25),
}


def every(*kinds: str) -> list[Path]:
    return [path for kind in kinds for path in shipped(kind)]


def packed(substrate: str, clusters_per_host: int | None) -> Substrate:
    """A shipped substrate, with another packing if one is given."""
    model, _ = read_substrate(substrate)
    if clusters_per_host is None:
        return model
    return model.model_copy(
        update={"cluster": model.cluster.model_copy(update={"clusters_per_host": clusters_per_host})}
    )


def test_the_profiles_catalogs_and_substrates_of_the_runbook_ship() -> None:
    assert {path.stem for path in shipped("profile")} == VALUES.keys()
    assert {path.stem for path in shipped("catalog")} == {
        "realistic",
        "realistic-dev",
        "cost-routing",
        "priorities",
        "smoke",
    }
    assert {path.stem for path in shipped("substrate")} == {"embedded", FAT, MID, KIND}


@pytest.mark.parametrize("path", every("profile", "substrate", "catalog"), ids=lambda path: path.name)
def test_an_editor_finds_the_schema_from_the_first_line(path: Path) -> None:
    kind = {"profiles": "profile", "substrates": "substrate", "archetypes": "catalog"}[path.parent.name]
    first = path.read_text().splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == PROJECT / "docs" / "schemas" / f"{kind}.schema.json"


@pytest.mark.parametrize("path", every("profile", "substrate"), ids=lambda path: path.name)
def test_a_document_is_named_after_its_file_and_says_what_it_is_for(path: Path) -> None:
    document = read_profile(path.stem)[0] if path.parent.name == "profiles" else read_substrate(path.stem)[0]
    assert document.metadata.name == path.stem
    assert 0 < len(document.metadata.description) <= 90
    assert "\n" not in document.metadata.description


@pytest.mark.parametrize("name", VALUES)
def test_a_profile_has_the_published_values(name: str) -> None:
    profile, _, _ = read_profile(name)
    load = profile.load_profile
    assert (
        profile.scale.machines,
        load.ramp_seconds,
        load.soak_seconds,
        profile.ramp_budget,
        profile.slo.shard_cycle_duration_p99_seconds,
    ) == VALUES[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_profile_plans_on_fat_hosts_and_passes_preflight_at_its_own_soak(name: str) -> None:
    plan = shipped_plan(name, FAT)
    refuse_the_impossible(plan)
    assert plan.demand.pods == plan.geometry.total_pods


@pytest.mark.parametrize("substrate", ["embedded", KIND])
@pytest.mark.parametrize("name", DEV)
def test_the_small_profiles_pass_preflight_on_a_laptop(name: str, substrate: str) -> None:
    refuse_the_impossible(shipped_plan(name, substrate))


@pytest.mark.parametrize("name", [name for name, values in VALUES.items() if values[0] == 5_000])
def test_the_5k_profiles_pass_preflight_on_mid_hosts(name: str) -> None:
    refuse_the_impossible(shipped_plan(name, MID))


# Clusters, hosts, shards; effective machines; per cluster configured, before and after gang floors; per shard idle and
# speculative; Pods/s asked and bound; dollars for ramp + soak + 10 min, and for the soak alone.
# The formulas: docs/reference/harness.md#geometry.
TABLE = [
    ("dev-50", KIND, None, 2, 2, 1, 610, 305, 333, 732, 3_050, 16.7, 30, 0, 0),
    ("5k", FAT, None, 20, 3, 1, 5_784, 289, 361, 1_156, 17_352, 278, 600, 2.98, 1.27),
    ("5k", FAT, 8, 20, 4, 1, 5_784, 289, 361, 1_156, 17_352, 278, 600, 3.97, 1.70),
    ("5k", MID, None, 5, 6, 1, 5_784, 1_156, 1_156, 1_156, 17_352, 278, 550, 2.94, 1.26),
    ("25k", FAT, None, 100, 11, 1, 28_500, 285, 358, 5_700, 85_500, 1_042, 3_000, 17.14, 9.35),
    ("50k", FAT, None, 200, 21, 1, 56_892, 284, 357, 11_378, 170_676, 1_389, 6_000, 38.67, 17.85),
    ("50k", MID, None, 50, 51, 1, 56_892, 1_137, 1_138, 11_378, 170_676, 1_389, 5_500, 46.41, 21.42),
    ("500k", FAT, None, 2_000, 201, 1, 567_973, 283, 356, 113_594, 1_703_919, 6_944, 60_000, 541, 171),
    ("1m", FAT, None, 4_000, 401, 2, 1_135_843, 283, 356, 113_584, 1_703_764, 13_889, 120_000, 1_079, 341),
    ("5m", FAT, None, 20_000, 2_001, 10, 5_678_787, 283, 356, 113_575, 1_703_636, 69_444, 600_000, 5_386, 1_701),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}-{row[2] or ''}".rstrip("-"))
def test_the_published_geometry_comes_out(row: tuple[object, ...]) -> None:
    name, where, packing, *published = row
    profile, catalog, _ = read_profile(str(name))
    substrate = packed(str(where), packing if isinstance(packing, int) else None)
    geometry = derive_geometry(profile, substrate)
    cost = derive_cost(profile, substrate, geometry, profile.load_profile.soak_seconds, 0)
    sizes = seed_sizes(
        profile.seed,
        catalog.seeded,
        geometry.total_pods,
        profile.scale.density,
        geometry.kwok_clusters,
        geometry.shards,
    )
    assert [
        geometry.kwok_clusters,
        geometry.hosts,
        geometry.shards,
        sizes.effective,
        sizes.configured_per_cluster,
        sizes.configured_per_cluster_floored,
        sizes.idle_per_shard,
        sizes.speculative_per_shard,
    ] == published[:8]
    asked, bound, run_usd, soak_usd = (float(str(figure)) for figure in published[8:])
    assert geometry.ramp_demand_pods_per_sec == pytest.approx(asked, abs=0.5)
    assert geometry.ramp_supply_pods_per_sec == bound
    assert geometry.ramp_feasible
    tolerance = 0.5 if run_usd > 100 else 0.011  # the published figures cut half cents, we round them up
    assert cost.run_usd == pytest.approx(run_usd, abs=tolerance)
    assert cost.soak_usd == pytest.approx(soak_usd, abs=tolerance)


def test_gang_floors_raise_the_free_machines_of_dev_50_too() -> None:
    sizes = shipped_plan("dev-50", KIND).sizes
    assert (sizes.idle_per_shard_floored, sizes.speculative_per_shard_floored) == (760, 3_070)


def test_the_runbooks_example_costs_26_78() -> None:
    plan = shipped_plan("50k", FAT, 90 * 60)
    assert (plan.geometry.kwok_clusters, plan.geometry.hosts) == (200, 21)
    assert plan.cost.soak_usd == 26.78
    assert any("$26.78 for the soak" in line for line in full_plan_lines(plan))


def test_realistic_has_the_published_machine_mix() -> None:
    archetypes = read_profile("5k")[1].demand
    shares = [float(machine_share(archetype, 100)) for archetype in archetypes]
    percent = [100 * share / sum(shares) for share in shares]
    assert [archetype.name for archetype in archetypes if archetype.burst_only] == ["gpu-training-large"]
    assert percent == pytest.approx([66.4, 11.4, 5.7, 1.5, 1.5, 5.2, 3.1, 4.2, 0, 0.95], abs=0.1)


@pytest.mark.parametrize(("asked", "seeded"), [(17, 117), (250, 326), (289, 361)])
def test_tiny_seeds_balloon_to_hold_every_gang(asked: int, seeded: int) -> None:
    assert sum(allocate_machines(read_profile("5k")[1].seeded, asked, 100).values()) == seeded


def test_the_610_machines_of_dev_50_are_the_published_ones() -> None:
    assert effective_machines(read_profile("dev-50")[1].seeded, 5_000, 100) == {
        "tiny-stateless": 26,
        "cpu-service": 10,
        "cpu-batch": 7,
        "memory-cache": 1 + 15,
        "stateful-db": 1 + 15,
        "gpu-inference": 318,
        "gpu-training-small": 72 + 12,
        "gpu-training-medium": 107 + 24,
        "critical-realtime": 2,
    }


def test_dev_50_goes_down_every_path_in_each_of_its_clusters() -> None:
    plan = shipped_plan("dev-50", "embedded")
    for draw in draw_clusters(plan.catalog.demand, plan.geometry.pods_per_cluster, plan.seed, range(2)):
        drawn = {workload.archetype.name for workload in draw.workloads()}
        assert drawn == plan.catalog.by_name.keys()


# --- Enough to judge -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES)
def test_a_profile_that_gates_materialisation_causes_it_with_room_to_spare(name: str) -> None:
    plan = shipped_plan(name, FAT)
    gated = [gate for gate in all_gates(plan) if gate.cause == "replacements"]
    if gated:
        # A loss more or less must not decide whether there is data.
        assert plan.expected["replacements"] >= 1.5 * plan.profile.slo.min_observations
    else:
        assert name == "scarcity-5k", "the only profile where nothing can be bought"
        assert plan.profile.slo.operator_node_state_update_p99_seconds is None


@pytest.mark.parametrize("seed", range(1, 31))
def test_dev_50_loses_enough_to_be_judged_with_any_seed_and_no_more_than_a_laptop_bears(seed: int) -> None:
    """Machines by seed: 299 to 1,500. Only losses before the shed have to be replaced."""
    plan = shipped_plan("dev-50", "embedded", seed=seed)
    per_second = plan.demand.total_machines * plan.profile.shard.failure_rate_per_sec
    [shed] = [move.at_seconds for move in plan.moves if not move.up]
    assert per_second * shed >= 1.5 * plan.profile.slo.min_observations
    assert per_second < 1


@pytest.mark.parametrize("name", VALUES)
def test_everything_that_happens_in_a_soak_is_over_before_the_gates_look(name: str) -> None:
    plan = shipped_plan(name, FAT)
    load = plan.profile.load_profile
    ends = [burst.at_seconds + burst.duration_seconds for burst in load.bursts if burst.judged_seconds is None]
    ends += [shed.at_seconds for shed in load.scale_downs]
    ends += [step.at_seconds for step in load.demand_steps]
    ends += [action.at_seconds for action in plan.profile.runner_actions]
    assert all(end <= plan.soak_seconds - plan.window_seconds for end in ends)
    assert all(burst.duration_seconds for burst in load.bursts), "a burst that never drains stays short"


# --- Bars that can be met, and can fail ------------------------------------------------------------------------------


def highest_buckets() -> dict[str, float]:
    """The highest finite bucket of every histogram that a gate reads."""
    registry = CollectorRegistry()
    ShardMetrics(registry)
    OperatorMetrics(registry)
    BindLatency(registry)
    Ledger(FleetShapes(), registry).opened("kwok-cluster-0", set(), set())
    tops: dict[str, float] = {}
    for metric in registry.collect():
        edges = [float(sample.labels["le"]) for sample in metric.samples if "le" in sample.labels]
        if edges:
            tops[metric.name] = max(edge for edge in edges if math.isfinite(edge))
    return tops


@pytest.mark.parametrize("name", VALUES)
def test_every_quantile_can_exceed_its_bar(name: str) -> None:
    tops = highest_buckets()
    for gate in all_gates(shipped_plan(name, FAT)):
        if gate.histogram:
            assert gate.bar < tops[gate.histogram], gate.key


def counted_seconds(plan: Plan) -> float:
    """How long a run counts reclaims."""
    steady = soak_window(plan, 0.0, plan.soak_seconds).stretches("steady")
    return sum(one.seconds for one in steady) - plan.profile.load_profile.settle_seconds


def reclaim_bar(name: str) -> int:
    return read_profile(name)[0].slo.max_reclaim_actions_during_soak


@pytest.mark.parametrize("name", DEV)
def test_a_small_profile_fails_an_engine_that_gives_back_a_machine_for_each_loss(name: str) -> None:
    plan = shipped_plan(name, "embedded")
    lost = plan.profile.shard.failure_rate_per_sec * plan.demand.total_machines * counted_seconds(plan)
    assert 0 < reclaim_bar(name) < lost


@pytest.mark.parametrize(
    ("name", "floor_per_second"),
    [("5k", 2.0), ("25k", 2.0), ("50k", 2.93), ("500k", 29.3), ("1m", 58.6), ("5m", 293.0)],
)
def test_a_rung_allows_upstreams_measured_reclaims_but_not_three_times_as_many(
    name: str, floor_per_second: float
) -> None:
    plan = shipped_plan(name, FAT)
    floor = floor_per_second * counted_seconds(plan)
    burst = sum(plan.demand.burst_machines.values())
    assert floor + burst < reclaim_bar(name) < 3 * floor + burst


@pytest.mark.parametrize(("name", "halvings"), [("reclaim-cycle", 1), ("reclaim-cycle-50k", 1), ("oscillation-5k", 2)])
def test_a_shed_may_be_given_back_once_but_not_three_times(name: str, halvings: int) -> None:
    shed = halvings * shipped_plan(name, FAT).demand.total_machines / 2
    assert shed < reclaim_bar(name) < 3 * shed


@pytest.mark.parametrize("name", VALUES)
def test_every_bar_comes_with_its_reason(name: str) -> None:
    path = next(path for path in shipped("profile") if path.stem == name)
    _, _, block = path.read_text().partition("\nslo:\n")
    lines = block.splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        assert "#" in line or above.lstrip().startswith("#"), line


# --- What each scenario is about -------------------------------------------------------------------------------------


def test_a_leader_is_killed_where_another_can_be_elected() -> None:
    for name in VALUES:
        profile, _, _ = read_profile(name)
        if any("leader" in action.action for action in profile.runner_actions):
            assert profile.topology.coordinator_replicas == 3, name


def test_preemption_has_machines_for_its_demand_and_losses_but_not_for_the_burst() -> None:
    plan = shipped_plan("preemption-5k", FAT)
    assert shortage(plan, Counter()) is None
    assert shortage(plan, Counter(plan.demand.burst_machines)) is not None
    (burst,) = plan.profile.load_profile.bursts
    lost = plan.losses(plan.soak_seconds) * burst.at_seconds / plan.soak_seconds
    free = plan.seeded["speculative"] - plan.demand.total_machines - lost
    assert 0 < free < 0.75 * sum(plan.demand.burst_machines.values()), "when the burst comes, a quarter must be taken"


def scarce(plan: Plan) -> tuple[bool, bool]:
    """Whether batch, and whether anyone above batch, is bound to be short."""
    asked = plan.profile.load_profile.open_loop_demand_multiplier
    seeded = {archetype.name: archetype for archetype in plan.catalog.seeded}
    short = []
    for above_batch in (False, True):
        wanted = {
            name: math.ceil(count * asked)
            for name, count in plan.demand.machines.items()
            if (max(plan.catalog[name].priority_classes) > 100) is above_batch
        }
        density = plan.profile.scale.density
        short.append(find_shortage(wanted, plan.catalog.by_name, plan.demand.bound, seeded, density) is not None)
    return short[0], short[1]


def test_scarcity_can_be_confined_to_batch() -> None:
    assert scarce(shipped_plan("scarcity-5k", FAT)) == (True, False)


def test_with_the_ladders_catalog_scarcity_could_not_be_confined() -> None:
    profile, _, name = read_profile("scarcity-5k")
    _, realistic, _ = read_profile("5k")
    assert scarce(make_plan(profile, name, realistic, read_substrate(MID)[0], MID, this_host=LAPTOP)) == (True, True)


def test_cost_routing_has_room_for_each_half_in_its_own_tier() -> None:
    plan = shipped_plan("cost-routing-5k", FAT)
    assert plan.demand.machines.keys() == {"tolerant", "sensitive"}
    for machines in plan.demand.machines.values():
        assert machines + plan.losses(plan.soak_seconds) <= min(plan.seeded["speculative"], plan.seeded["spot"])


def test_cost_routing_names_the_penalty_buckets_of_its_catalog_and_each_prefers_another_tier() -> None:
    profile, catalog, _ = read_profile("cost-routing-5k")
    cheapest = {}
    for archetype in catalog.demand:
        dollars = archetype.interruption_penalty
        cheapest[penalty.label(penalty.bucket_of(dollars))] = min(
            (fleets.SPECULATIVE, fleets.SPOT),
            key=lambda tier: penalty.effective_cost(tier.price_per_hour, tier.interruption_probability, dollars),
        )
    assert cheapest == {
        profile.slo.cost_routing_tolerant_bucket: fleets.SPOT,
        profile.slo.cost_routing_sensitive_bucket: fleets.SPECULATIVE,
    }


def test_the_documentations_own_example_plans_as_it_is_written_there(tmp_path: Path) -> None:
    text = (PROJECT / "docs" / "profiles.md").read_text()
    example, *_ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (command,) = re.findall(r"scaletest-runner plan --profile mine.yaml --substrate (\S+)", text)
    (tmp_path / "mine.yaml").write_text(example)
    profile, catalog, name = read_profile(str(tmp_path / "mine.yaml"))
    substrate, where = read_substrate(command)
    plan = make_plan(profile, name, catalog, substrate, where, this_host=LAPTOP)
    assert refusals_of(plan) == []
    assert list(warnings_of(plan)) == []


# --- Substrates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", every("substrate"), ids=lambda path: path.stem)
def test_every_substrate_stores_in_etcd_and_renews_no_leases(path: Path) -> None:
    cluster = read_substrate(path.stem)[0].cluster
    assert (cluster.storage, cluster.node_lease_seconds) == ("etcd", 0)


def test_the_embedded_host_is_whatever_machine_this_is() -> None:
    assert shipped_plan("smoke", "embedded").host == LAPTOP


@pytest.mark.parametrize(("name", "substrate"), [("5k", FAT), ("50k", FAT), ("5k", MID), ("dev-500", KIND)])
def test_a_substrates_own_profiles_raise_no_warning(name: str, substrate: str) -> None:
    assert list(warnings_of(shipped_plan(name, substrate))) == []
