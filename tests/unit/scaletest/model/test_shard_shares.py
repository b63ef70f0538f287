"""Several shards: each one's machines fit its own clusters, and stand where no other shard's do."""

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaletest.cluster.fleet_file import render_fleet
from scaletest.model.demand.draw import draw_clusters, ordinal_of
from scaletest.model.demand.needs import DrawnDemand
from scaletest.model.demand.seeding import RACKS_PER_ZONE, owned_racks
from scaletest.model.demand.shard_shares import shares_of
from scaletest.model.documents.profile import Burst, Profile
from scaletest.model.labels import RACK_KEY
from scaletest.model.plan import Plan, make_plan
from tests.unit.plans import LAPTOP, shipped_plan, smoke_plan


def spread_over(shards: int, clusters: int, base: Plan | None = None) -> Plan:
    """The plan of smoke with so many shards and clusters."""
    plan = base or smoke_plan()
    given = plan.profile.model_dump(by_alias=True, exclude_defaults=True)
    topology = {"kwokClusters": clusters, "shardReplicas": shards}
    profile = Profile.model_validate(given | {"topology": topology})
    return make_plan(
        profile, plan.profile_name, plan.catalog, plan.substrate, plan.substrate_name, this_host=LAPTOP, soak_seconds=60
    )


def seed_file(plan: Plan) -> dict[str, Any]:
    return render_fleet(plan.load_profile, plan.seeding)


def shards_of_racks(plan: Plan) -> dict[str, int]:
    return {rack.name: rack.shard for rack in owned_racks(plan.catalog, plan.geometry.shards)}


@given(shards=st.integers(1, 5), clusters=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_every_machine_stands_in_a_rack_of_the_shard_that_serves_its_cluster(shards: int, clusters: int) -> None:
    plan = spread_over(shards, clusters)
    document, owners = seed_file(plan), shards_of_racks(plan)
    for entry in document["machines"]:
        shard = owners[document["kinds"][entry["kind"]]["labels"][RACK_KEY]]
        if "cluster" in entry:
            assert ordinal_of(entry["cluster"]) % shards == shard
    assert sum(entry["count"] for entry in document["machines"]) == sum(plan.seeded.values())


def test_the_coordinators_are_told_of_every_rack_once() -> None:
    plan = spread_over(2, 4)
    domains = plan.values("run")["coordinator"]["domains"]
    told = {domain["value"]: domain["shard"] for domain in domains}
    assert len(told) == len(domains) == 2 * RACKS_PER_ZONE * 3
    assert {domain["key"] for domain in domains} == {RACK_KEY}
    racks = {kind["labels"][RACK_KEY] for kind in seed_file(plan)["kinds"].values()}
    assert racks <= told.keys()
    assert told == {name: f"bigfleet-shard-{shard}" for name, shard in shards_of_racks(plan).items()}


def test_a_shard_alone_is_told_of_no_domain_and_its_machines_are_those_of_before() -> None:
    plan = smoke_plan()
    assert plan.values("run")["coordinator"]["domains"] == []
    racks = {kind["labels"][RACK_KEY] for kind in seed_file(plan)["kinds"].values()}
    assert max(int(rack.rpartition("-")[2]) for rack in racks) < RACKS_PER_ZONE


def test_free_machines_come_in_the_mix_of_the_clusters_that_they_are_for() -> None:
    """Seeded by the fleet's mean, one shard would have too many of what the other one lacks."""
    plan = spread_over(2, 4)
    document, owners = seed_file(plan), shards_of_racks(plan)
    free: dict[int, Counter[str]] = defaultdict(Counter)
    held: dict[int, Counter[str]] = defaultdict(Counter)
    for entry in document["machines"]:
        kind = document["kinds"][entry["kind"]]
        shard, name = owners[kind["labels"][RACK_KEY]], kind["labels"]["scaletest.bigfleet/archetype"]
        (held if "cluster" in entry else free)[shard][name] += entry["count"]
    for shard in range(2):
        assert held[shard].keys() <= free[shard].keys(), "what a cluster holds can be replaced by its own shard"


@given(shards=st.integers(1, 6), clusters=st.integers(1, 12), selectivity=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_the_shares_add_up_to_the_whole(shards: int, clusters: int, selectivity: float) -> None:
    catalog = smoke_plan().catalog
    burst = Burst(at_seconds=5, archetype="web", extra_target=4, selectivity=selectivity)

    def total(shards: int) -> DrawnDemand:
        shares = shares_of(
            draw_clusters(catalog.demand, 40, 7, range(clusters)),
            clusters=clusters,
            shards=shards,
            density=4,
            configured_fraction=0.5,
            bursts=[burst],
            archetypes=catalog.by_name,
        )
        return DrawnDemand.total([share.demand for share in shares])

    assert total(shards) == total(1)


@pytest.mark.parametrize("profile", ["50k-2shard", "1m", "5m", "failover-shard-kill"])
def test_of_large_fleets_every_shard_has_clusters_that_were_drawn(profile: str) -> None:
    plan = shipped_plan(profile, "example-fat-host")
    assert plan.demand.clusters_drawn >= plan.geometry.shards > 1
    assert plan.pods == pytest.approx(plan.geometry.total_pods, rel=0.01)
