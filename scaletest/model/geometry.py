"""How many clusters, hosts and shards a profile needs on a substrate, and what that costs.

See docs/reference/harness.md#geometry.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from scaletest.model.demand.sizing import exact
from scaletest.model.documents.profile import Profile
from scaletest.model.documents.substrate import Substrate

MACHINES_PER_SHARD = 500_000
# Start, install and teardown around ramp and soak, for the price of the whole run.
OVERHEAD_SECONDS = 600
_SYSTEM_HOSTS = 1  # shard, coordinator, provider and Prometheus


@dataclass(frozen=True)
class Geometry:
    """The derived shape of a run."""

    kwok_clusters: int
    # What each cluster is asked to fill; the sum over the clusters covers total_pods.
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

    @property
    def clusters_of_largest_shard(self) -> int:
        """Cluster N belongs to shard N % shards."""
        return math.ceil(self.kwok_clusters / self.shards)


@dataclass(frozen=True)
class Cost:
    """The prices: of the soak alone (upstream's), of the whole run, and of the longest that the run may become."""

    soak_usd: float
    run_usd: float
    # If settling takes all of its budget.
    worst_usd: float
    soak_hours: float

    @property
    def larger_usd(self) -> float:
        """What guards go by."""
        return max(self.soak_usd, self.run_usd)


def derive_geometry(profile: Profile, substrate: Substrate) -> Geometry:
    wanted = profile.scale.total_pods
    clusters = profile.topology.kwok_clusters or math.ceil(wanted / substrate.cluster.pods_per_cluster)
    return Geometry(
        kwok_clusters=clusters,
        pods_per_cluster=math.ceil(wanted / clusters),
        total_pods=wanted,
        hosts=_hosts(substrate, clusters),
        shards=profile.topology.shard_replicas or max(1, math.ceil(profile.scale.machines / MACHINES_PER_SHARD)),
        coordinators=profile.topology.coordinator_replicas or 1,
        ramp_demand_pods_per_sec=wanted / profile.load_profile.ramp_seconds,
        ramp_supply_pods_per_sec=_side_by_side(substrate, clusters) * substrate.cluster.bind_throughput_pods_per_sec,
    )


def _hosts(substrate: Substrate, clusters: int) -> int:
    if substrate.host_kind == "embedded":
        return 1  # this machine, whatever runs on it
    return math.ceil(clusters / substrate.cluster.clusters_per_host) + _SYSTEM_HOSTS


def _side_by_side(substrate: Substrate, clusters: int) -> int:
    """Clusters that bind at the same time: on hosts of their own all of them, on this machine as many as fit on it."""
    return min(clusters, substrate.cluster.clusters_per_host) if substrate.host_kind == "embedded" else clusters


def derive_cost(
    profile: Profile, substrate: Substrate, geometry: Geometry, soak_seconds: float, ramp_budget_seconds: float
) -> Cost:
    rate = geometry.hosts * exact(substrate.cost_estimate.per_host_usd_per_hour)
    soak = exact(soak_seconds)
    ramp = profile.load_profile.ramp_seconds
    longest = max(exact(ramp_budget_seconds), Fraction(ramp))
    return Cost(
        soak_usd=_cents(rate * soak / 3600),
        run_usd=_cents(rate * (ramp + soak + OVERHEAD_SECONDS) / 3600),
        worst_usd=_cents(rate * (longest + soak + OVERHEAD_SECONDS) / 3600),
        soak_hours=soak_seconds / 3600,
    )


def _cents(usd: Fraction) -> float:
    """Dollars to the cent, half a cent up, as a bill does."""
    return math.floor(usd * 100 + Fraction(1, 2)) / 100
