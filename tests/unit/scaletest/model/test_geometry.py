"""For any valid profile and substrate: the geometry covers the demand, grows with it, and never divides by zero."""

import math
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from scaletest.cluster.fleet_file import owner_of
from scaletest.model.demand import seeding as fleets
from scaletest.model.demand.draw import draw_clusters
from scaletest.model.demand.needs import count_demand
from scaletest.model.demand.shard_shares import DemandShare
from scaletest.model.demand.sizing import (
    allocate_machines,
    effective_machines,
    gang_floor,
    largest_remainder,
    seed_sizes,
)
from scaletest.model.documents.profile import Profile, Seed
from scaletest.model.documents.substrate import Substrate
from scaletest.model.footprint import predict_footprint
from scaletest.model.geometry import Geometry, derive_cost, derive_geometry
from tests.unit.plans import smoke_plan
from tests.unit.scaletest.model.test_draw import MIXED, archetype

machines = st.integers(1, 100_000_000)
fractions = st.floats(0, 1)


@st.composite
def profiles(draw: st.DrawFn, size: st.SearchStrategy[int] = machines) -> Profile:
    scale = {"machines": draw(size), "density": draw(st.integers(1, 1000))}
    pods = scale["machines"] * scale["density"]
    return Profile.model_validate(
        {
            "apiVersion": "bigfleet.io/scaletest/v1",
            "kind": "Profile",
            "scale": scale,
            "loadProfile": {"rampSeconds": draw(st.integers(1, 10**6)), "soakSeconds": draw(st.integers(0, 10**6))},
            "topology": {
                "shardReplicas": draw(st.integers(0, 20)),
                "kwokClusters": draw(st.integers(0, min(pods, 1000))),
            },
        }
    )


@st.composite
def substrates(draw: st.DrawFn) -> Substrate:
    resources = {"cpu": "1", "memory": "1Gi"}
    return Substrate.model_validate(
        {
            "apiVersion": "bigfleet.io/scaletest/v1",
            "kind": "Substrate",
            **draw(st.sampled_from([{"hostKind": "embedded"}, {"host": {"vCPU": 64, "memoryGiB": 128}}])),
            "cluster": {
                "podsPerCluster": draw(st.integers(1, 1_000_000)),
                "clustersPerHost": draw(st.integers(1, 1000)),
                "storage": "etcd",
                "bindThroughputPodsPerSec": draw(st.floats(0.001, 1e6)),
            },
            "kwokPod": {"requests": resources, "limits": resources},
            "costEstimate": {"perHostUsdPerHour": draw(st.floats(0, 1000))},
        }
    )


@given(profile=profiles(), substrate=substrates(), soak=st.floats(0, 10**6), budget=st.floats(0, 10**6))
def test_the_geometry_covers_the_demand(profile: Profile, substrate: Substrate, soak: float, budget: float) -> None:
    geometry = derive_geometry(profile, substrate)
    assert geometry.kwok_clusters * geometry.pods_per_cluster >= geometry.total_pods == profile.scale.total_pods
    assert geometry.kwok_clusters * geometry.pods_per_cluster - geometry.total_pods < geometry.kwok_clusters
    if not profile.topology.kwok_clusters:
        assert geometry.pods_per_cluster <= substrate.cluster.pods_per_cluster
    if substrate.host_kind == "context":
        assert (geometry.hosts - 1) * substrate.cluster.clusters_per_host >= geometry.kwok_clusters
    assert geometry.shards * geometry.clusters_of_largest_shard >= geometry.kwok_clusters
    cost = derive_cost(profile, substrate, geometry, soak, budget)
    assert 0 <= cost.soak_usd <= cost.run_usd == cost.larger_usd <= cost.worst_usd < math.inf
    assert geometry.ramp_supply_pods_per_sec > 0


@given(profile=profiles(st.integers(1, 10**6)), substrate=substrates(), more=st.integers(0, 10**6))
def test_more_machines_never_need_less(profile: Profile, substrate: Substrate, more: int) -> None:
    def at(count: int) -> Geometry:
        topology = profile.topology.model_copy(update={"kwok_clusters": 0})
        scale = profile.scale.model_copy(update={"machines": count})
        return derive_geometry(profile.model_copy(update={"scale": scale, "topology": topology}), substrate)

    small, large = at(profile.scale.machines), at(profile.scale.machines + more)
    assert small.kwok_clusters <= large.kwok_clusters
    assert small.hosts <= large.hosts
    assert small.shards <= large.shards
    assert small.total_pods <= large.total_pods


@given(
    total_pods=st.integers(1, 10**10),
    density=st.integers(1, 1000),
    clusters=st.integers(1, 20_000),
    shards=st.integers(1, 20),
    fraction=fractions,
    idle=st.floats(0, 3),
    multiplier=st.integers(0, 5),
)
def test_seed_sizes_cover_the_demand_and_the_gangs(
    total_pods: int, density: int, clusters: int, shards: int, fraction: float, idle: float, multiplier: int
) -> None:
    seed = Seed(configured_fraction=fraction, idle_headroom_fraction=idle, speculative_multiplier=multiplier)
    sizes = seed_sizes(seed, MIXED, total_pods, density, clusters, shards)
    rooms = {a.name: a.pods_per_machine(density) for a in MIXED}
    needed = effective_machines(MIXED, total_pods, density)
    assert sum(needed[name] * room for name, room in rooms.items()) >= total_pods
    assert needed["rare"] == 0, "bursts are not part of the steady demand"
    assert sizes.configured_per_cluster * clusters <= sizes.effective
    assert sizes.configured_per_cluster_floored >= sizes.configured_per_cluster
    assert sizes.idle_per_shard_floored >= sizes.idle_per_shard
    bigger = seed_sizes(seed, MIXED, total_pods + density, density, clusters, shards)
    assert bigger.effective >= sizes.effective


@given(total=st.integers(0, 10**6), density=st.integers(1, 200))
def test_an_allocation_is_exact_and_raises_only_gangs(total: int, density: int) -> None:
    allocated = allocate_machines(MIXED, total, density)
    floors = {a.name: gang_floor(a) for a in MIXED}
    assert sum(allocated.values()) >= total
    if total:
        assert all(allocated[name] >= floor for name, floor in floors.items())
        assert sum(allocated.values()) <= total + sum(floors.values())
    assert allocated["rare"] == 0


@given(
    total=st.integers(0, 10**9),
    weights=st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 10**6), min_size=1, max_size=8),
)
def test_largest_remainders_share_out_to_the_last_one(total: int, weights: dict[str, int]) -> None:
    shares = largest_remainder(total, weights)
    whole = sum(weights.values())
    assert sum(shares.values()) == (total if whole else 0)
    for name, weight in weights.items():
        if whole:
            assert abs(shares[name] - total * weight / whole) <= 1


@given(
    seed=st.integers(0, 1000),
    fraction=fractions,
    idle=st.floats(0, 3),
    multiplier=st.integers(0, 5),
    target=st.integers(1, 400),
)
@settings(max_examples=40)
def test_the_seeded_machines_are_those_that_were_counted(
    seed: int, fraction: float, idle: float, multiplier: int, target: int
) -> None:
    catalog = smoke_plan().catalog
    wanted = Seed(configured_fraction=fraction, idle_headroom_fraction=idle, speculative_multiplier=multiplier)
    draws = list(draw_clusters(catalog.demand, target, seed, range(2)))
    demand = count_demand(draws, 2, 4, fraction, {})
    free = fleets.free_machines(catalog, demand, wanted, 4)
    groups = list(fleets.seed_share(catalog, DemandShare(0, tuple(draws), demand), free, wanted, 4, owner_of))
    for tier, counts in free.items():
        assert sum(group.count for group in groups if group.tier is tier) == sum(counts.values())
    bound = sum(group.count for group in groups if group.tier is fleets.CONFIGURED)
    assert bound == sum(demand.bound.values())
    assert sum(free[fleets.IDLE].values()) >= int(demand.total_machines * idle)
    assert sum(free[fleets.SPECULATIVE].values()) >= demand.total_machines * multiplier


@given(
    pods=st.integers(0, 10**6),
    nodes=st.integers(0, 10**5),
    clusters=st.integers(1, 20_000),
    lease=st.integers(0, 100),
    churn=st.floats(0, 10),
)
def test_a_footprint_grows_with_what_it_carries(pods: int, nodes: int, clusters: int, lease: int, churn: float) -> None:
    def at(pods: int, nodes: int) -> float:
        return predict_footprint(
            pods_per_cluster=pods,
            nodes_per_cluster=nodes,
            clusters=clusters,
            clusters_per_host=10,
            embedded=False,
            shards=1,
            records_per_shard=nodes,
            lease_seconds=lease,
            churn_per_minute=churn,
        ).host_bytes

    assert 0 < at(pods, nodes) <= at(pods + 1000, nodes) <= at(pods + 1000, nodes + 10)


def test_leases_are_a_tenth_of_the_nodes_a_second_at_kwoks_default() -> None:
    footprint = predict_footprint(
        pods_per_cluster=100,
        nodes_per_cluster=1000,
        clusters=2,
        clusters_per_host=2,
        embedded=True,
        shards=1,
        records_per_shard=1000,
        lease_seconds=40,
        churn_per_minute=0,
    )
    assert footprint.lease_writes_per_sec == 200


def test_a_gangs_machines_stand_together_and_types_meet_all_zones() -> None:
    zones = {"zones": ["a", "b", "c"]}
    rack = archetype("rack", podsPerNode=1, gang={"scope": "sameRack", "groupSizeRange": [4, 4]}, **zones)
    zone = archetype("zone", podsPerNode=1, gang={"scope": "sameZone", "groupSizeRange": [4, 4]}, **zones)
    plain = archetype("plain", instanceTypes=["x", "y", "z"], **zones)
    blocks = [list(islice(fleets._slots(rack, 0), start, start + 4)) for start in (0, 4, 120)]
    assert all(len({(slot.zone, slot.rack) for slot in block}) == 1 for block in blocks)
    blocks = [list(islice(fleets._slots(zone, 0), start, start + 4)) for start in (0, 4, 120)]
    assert all(len({slot.zone for slot in block}) == 1 for block in blocks)
    assert len({slot.rack for slot in blocks[0]}) == 4, "a zone gang need not crowd one rack"
    places = {(slot.zone, slot.instance_type) for slot in islice(fleets._slots(plain, 0), 9)}
    assert len(places) == 9
