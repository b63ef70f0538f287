"""How many clusters, hosts and shards a profile needs on a substrate, and what that costs (spec/harness.md §2.4)."""

import math
from dataclasses import dataclass

from scaletest.model.profile import Profile
from scaletest.model.substrate import Substrate

MACHINES_PER_SHARD = 500_000
# Start, install and teardown around ramp and soak, for the price of the whole run.
OVERHEAD_SECONDS = 600
_SYSTEM_HOSTS = 1  # shard, coordinator, provider and Prometheus


@dataclass(frozen=True)
class Geometry:
    """The derived shape of a run."""

    kwok_clusters: int
    pods_per_cluster: int
    total_pods: int
    hosts: int
    shards: int
    coordinators: int
    ramp_demand_pods_per_sec: float
    ramp_supply_pods_per_sec: float

    @property
    def ramp_feasible(self) -> bool:
        return self.ramp_demand_pods_per_sec <= self.ramp_supply_pods_per_sec


@dataclass(frozen=True)
class Cost:
    """Both prices: the soak alone (the runbook's) and the whole run."""

    soak_usd: float
    run_usd: float
    soak_hours: float


def derive_geometry(profile: Profile, substrate: Substrate) -> Geometry:
    wanted = profile.scale.total_pods
    fixed = profile.topology.kwok_clusters
    clusters = fixed or math.ceil(wanted / substrate.cluster.pods_per_cluster)
    # Every cluster gets the substrate's full operating point, so the sum can exceed what the profile names.
    pods_per_cluster = math.ceil(wanted / fixed) if fixed else min(wanted, substrate.cluster.pods_per_cluster)
    return Geometry(
        kwok_clusters=clusters,
        pods_per_cluster=pods_per_cluster,
        total_pods=clusters * pods_per_cluster,
        hosts=math.ceil(clusters / substrate.cluster.clusters_per_host) + _SYSTEM_HOSTS,
        shards=profile.topology.shard_replicas or max(1, math.ceil(profile.scale.machines / MACHINES_PER_SHARD)),
        coordinators=profile.topology.coordinator_replicas,
        ramp_demand_pods_per_sec=wanted / profile.load_profile.ramp_seconds,
        ramp_supply_pods_per_sec=clusters * substrate.cluster.bind_throughput_pods_per_sec,
    )


def derive_cost(profile: Profile, substrate: Substrate, geometry: Geometry, soak_seconds: float) -> Cost:
    rate = geometry.hosts * substrate.cost_estimate.per_host_usd_per_hour
    whole = profile.load_profile.ramp_seconds + soak_seconds + OVERHEAD_SECONDS
    return Cost(soak_usd=rate * soak_seconds / 3600, run_usd=rate * whole / 3600, soak_hours=soak_seconds / 3600)
