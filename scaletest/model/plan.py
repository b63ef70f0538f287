"""The plan: what a run would install, how long it may take, what it would cost. Nothing is started by making one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from scaletest.errors import UsageError
from scaletest.model.demand import seeding as fleets
from scaletest.model.demand.draw import draw_clusters
from scaletest.model.demand.needs import DrawnDemand, machines_of_burst
from scaletest.model.demand.shard_shares import shares_of
from scaletest.model.demand.sizing import SeedSizes, mean_workload, seed_sizes
from scaletest.model.documents.catalog import Catalog
from scaletest.model.documents.durations import parse_duration
from scaletest.model.documents.loadprofile import LoadProfile, Seeding
from scaletest.model.documents.profile import Burst, Profile
from scaletest.model.documents.substrate import Host, Substrate
from scaletest.model.footprint import Footprint, apiserver_memory_mib, predict_footprint
from scaletest.model.geometry import Cost, Geometry, derive_cost, derive_geometry
from scaletest.model.labels import RACK_KEY

# Settling may take the fill at this rate, and never less than the floor (docs/reference/harness.md#settle-budget).
_FILL_PODS_PER_SEC = 750
_RAMP_FLOOR_SECONDS = 15 * 60
# What one cluster's apiserver takes up besides its other work.
_CREATE_PODS_PER_SEC = 100
# The window of the gates' queries: two scrapes, or there is no growth to see; and upstream's longest, for a profile
# that moves demand without saying what is expected of it (docs/reference/harness.md#windows).
_SHORTEST_WINDOW_SECONDS, _QUIET_WINDOW_SECONDS = 10, 300
INSTALL_SECONDS = 20 * 60
EVIDENCE_SECONDS = 7 * 60
TEARDOWN_SECONDS = 5 * 60
# A plan of more draws these and stretches the counts; the run itself draws them all.
_DRAWN_CLUSTERS_MAX, _DRAWN_WORKLOADS_MAX = 400, 600_000
# More than any hosts, or any control plane, can carry; the ladder ends at 20,000 and 25,000.
_MOST_CLUSTERS, _MOST_PODS_PER_CLUSTER = 100_000, 1_000_000
# At least one cycle, roll-up and report in so long (chart/values.yaml, bigfleet/shard/options.py).
_CYCLE_SECONDS, _ROLLUP_SECONDS, _REPORT_SECONDS = 10, 10, 5
# Each replaced machine is announced at least as Registered and as Ready.
_STATES_PER_REPLACEMENT = 2
# Steady state is three quiet polls, ten seconds apart, after the last Pod was bound (BF-0045).
_QUIET_SECONDS = 40
_UPLOAD_SECONDS, _REMOVE_SECONDS = 5, 20
# Certificates live for a day and are renewed after two thirds of it (bigfleet/security).
_RENEWAL_SECONDS = 16 * 3600
# From so many clusters on Prometheus needs a host of its own size.
_MANY_CLUSTERS = 100
# Smoke has 1,245 for each of its two: control plane, four processes, the witness (90), and what shard (25) and provider
# (16) say of it. Head memory for each, and the samples of two hours.
_SERIES_PER_CLUSTER, _BYTES_PER_SERIES = 1250, 6 * 1024

# Fields of a profile's `shard` that are the chart's values of the same names.
_SHARD_VALUES = {"list_page_size", "full_reconcile_interval_seconds", "idle_hold_on_demand_seconds"}
# How long a free on-demand machine is kept where a profile does not say (chart/values.yaml).
_IDLE_HOLD_SECONDS = 300.0

# What a gate observes, so that the plan can say how often it will happen.
Cause = Literal["replacements", "node states", "rebinds", "cycles", "roll-ups", "reports"]


@dataclass(frozen=True)
class Phase:
    """One step of a run: what it will probably take, and when it is given up."""

    name: str
    predicted_seconds: float | None
    budget_seconds: float


@dataclass(frozen=True)
class Move:
    """One edge of a burst that is judged: up, and covered in time; or down, and its machines given back in time."""

    at_seconds: float
    within_seconds: float
    up: bool
    # Machines that it brings, or sets free.
    machines: int
    what: str

    @property
    def ends_seconds(self) -> float:
        return self.at_seconds + self.within_seconds

    def __str__(self) -> str:
        return f"{self.what} after {self.at_seconds:g} s"


@dataclass(frozen=True)
class Plan:
    """A profile on a substrate, worked out."""

    profile_name: str
    substrate_name: str
    profile: Profile
    substrate: Substrate
    catalog: Catalog
    host: Host
    geometry: Geometry
    cost: Cost
    soak_seconds: float
    ramp_budget_seconds: float
    seed: int
    # What the formulas predict, and what was drawn.
    sizes: SeedSizes
    demand: DrawnDemand
    # Machines that no cluster holds at the start.
    free: fleets.TierCounts

    @property
    def pods(self) -> int:
        """Pods really drawn, over all clusters."""
        return self.demand.pods

    @property
    def seeded(self) -> dict[str, int]:
        """Machines of each tier at the start."""
        return {
            "configured": sum(self.demand.bound.values()),
            "idle": sum(self.free[fleets.IDLE].values()),
            "speculative": sum(self.free[fleets.SPECULATIVE].values()),
            "spot": sum(self.free[fleets.SPOT].values()),
        }

    @property
    def window_seconds(self) -> int:
        """How far back the bars of the hops look: the whole soak, and never into the fill.

        Where the profile moves demand or strikes without saying what it expects of that, its last five minutes only.
        """
        soak = max(self.soak_seconds, _SHORTEST_WINDOW_SECONDS)
        return int(min(soak, _QUIET_WINDOW_SECONDS) if self._unjudged else soak)

    @property
    def _unjudged(self) -> bool:
        """Whether something happens in the soak of which the profile does not say what it expects."""
        load = self.profile.load_profile
        times = [burst.at_seconds for burst in load.bursts if burst.judged_seconds is None]
        times += [shed.at_seconds for shed in load.scale_downs]
        times += [step.at_seconds for step in load.demand_steps]
        times += [action.at_seconds for action in self.profile.runner_actions]
        return any(at_seconds < self.soak_seconds for at_seconds in times)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The steps of demand that are judged, in order."""
        found = [move for burst in self.bursts if burst.judged_seconds is not None for move in self._moves_of(burst)]
        return tuple(sorted(found, key=lambda move: move.at_seconds))

    @property
    def moves_left_out(self) -> tuple[Move, ...]:
        """For these the soak is too short: they do not happen."""
        out = [burst for burst in self.profile.load_profile.bursts if burst not in self.bursts]
        return tuple(move for burst in out for move in self._moves_of(burst))

    def _moves_of(self, burst: Burst) -> Iterator[Move]:
        covered, returned = burst.covered_within_seconds or 0.0, burst.returned_within_seconds or 0.0
        machines = machines_of_burst(
            burst,
            self.catalog.by_name[burst.archetype],
            range(self.geometry.kwok_clusters),
            self.profile.scale.density,
        )
        yield Move(burst.at_seconds, covered, True, machines, f"the burst of {burst.archetype}")
        ends = burst.at_seconds + burst.duration_seconds
        yield Move(ends, returned, False, machines, f"the end of the burst of {burst.archetype}")

    @cached_property
    def bursts(self) -> tuple[Burst, ...]:
        """Those that happen."""
        return _bursts_within(self.profile, self.soak_seconds)

    @property
    def idle_hold_seconds(self) -> float:
        """How long a free on-demand machine is kept before it is given back."""
        hold = self.profile.shard.idle_hold_on_demand_seconds
        return _IDLE_HOLD_SECONDS if hold is None else hold

    @property
    def certificate_renewals(self) -> int:
        """How often a session is dialled anew because its certificate was renewed, at most."""
        return int((self.ramp_budget_seconds + self.soak_seconds) / _RENEWAL_SECONDS)

    @property
    def reclaims_count_after_seconds(self) -> float:
        """From when on in the soak Reclaims are counted; a pause that the soak does not outlast is none."""
        pause = self.profile.load_profile.settle_seconds
        return pause if pause < self.soak_seconds else 0.0

    @property
    def lowest_level(self) -> float:
        """The smallest share of the target that is asked for at any time within the gates' window."""
        start = self.soak_seconds - self.window_seconds
        load = self.profile.load_profile
        levels = [(step.at_seconds, step.target_multiplier) for step in load.demand_steps]
        levels += [(shed.at_seconds, shed.target_multiplier) for shed in load.scale_downs]
        lowest = max(1.0, load.open_loop_demand_multiplier)
        for at_seconds, level in sorted(levels):
            if at_seconds <= self.soak_seconds:
                lowest = level if at_seconds <= start else min(lowest, level)
        return lowest

    @property
    def expected(self) -> dict[Cause, int]:
        """How often each thing that a gate observes will happen in the window that the gates look at."""
        seconds = min(self.soak_seconds, self.window_seconds)
        held = self.demand.total_machines * min(1.0, self.lowest_level)
        lost = int(self.profile.shard.failure_rate_per_sec * held * seconds)
        load = self.profile.load_profile
        per_second = load.churn_per_minute * self.pods / 60 + self._ageing_pods_per_sec
        clusters, shards = self.geometry.kwok_clusters, self.geometry.shards
        return {
            "replacements": lost,
            "node states": lost * _STATES_PER_REPLACEMENT,
            "rebinds": int(per_second * min(1.0, self.lowest_level) * seconds) if load.mode == "pod" else 0,
            "cycles": int(shards * seconds / _CYCLE_SECONDS) + lost,
            "roll-ups": int(clusters * seconds / _ROLLUP_SECONDS),
            "reports": int(shards * seconds / _REPORT_SECONDS),
        }

    @property
    def _ageing_pods_per_sec(self) -> float:
        """Pods of finite life that end, and are replaced, each second."""
        mortal = (a for a in self.catalog.demand if a.mean_lifetime_seconds)
        return sum(self.demand.pods_of.get(a.name, 0) / a.mean_lifetime_seconds for a in mortal)

    def losses(self, seconds: float) -> int:
        """Machines that fail in the first so many seconds of the soak, and have to be replaced by others."""
        return math.ceil(self.profile.shard.failure_rate_per_sec * self.demand.total_machines * seconds)

    @property
    def demand_events(self) -> list[tuple[str, float]]:
        """What moves the demand in the soak, and when."""
        load = self.profile.load_profile
        return [
            *((f"the burst of {burst.archetype}", burst.at_seconds) for burst in self.bursts),
            *((f"the shed to {step.target_multiplier:g}", step.at_seconds) for step in load.scale_downs),
            *((f"the step to {step.target_multiplier:g}", step.at_seconds) for step in load.demand_steps),
        ]

    @cached_property
    def footprint(self) -> Footprint:
        return self.footprint_of(self.geometry.kwok_clusters, self.geometry.pods_per_cluster)

    def footprint_of(self, clusters: int, pods_per_cluster: int) -> Footprint:
        """The same demand in another number of clusters, or more or less of it."""
        geometry = self.geometry
        share = clusters * pods_per_cluster / (geometry.kwok_clusters * geometry.pods_per_cluster)
        return predict_footprint(
            pods_per_cluster=pods_per_cluster,
            nodes_per_cluster=math.ceil(share * self.demand.total_machines / clusters),
            clusters=clusters,
            clusters_per_host=self.substrate.cluster.clusters_per_host,
            embedded=self.substrate.host_kind == "embedded",
            shards=geometry.shards,
            records_per_shard=math.ceil(share * sum(self.seeded.values()) / geometry.shards),
            lease_seconds=self.substrate.cluster.node_lease_seconds,
            churn_per_minute=self.profile.load_profile.churn_per_minute,
        )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The run by the clock. What depends on machines we never measured has no prediction."""
        embedded = self.substrate.host_kind == "embedded"
        install = 10 + 15 * self.geometry.kwok_clusters / self.host.v_cpu if embedded else None
        # What the load-driver binds itself costs the scheduler no time, but has to be created all the same.
        unbound = self.geometry.total_pods * (1 - self.profile.seed.bound_at_start)
        supply = self.geometry.ramp_supply_pods_per_sec
        side_by_side = supply / self.substrate.cluster.bind_throughput_pods_per_sec
        # Both go on side by side, so the slower one decides.
        fill = max(unbound / supply, self.geometry.total_pods / (side_by_side * _CREATE_PODS_PER_SEC))
        return (
            Phase("install", install, INSTALL_SECONDS),
            Phase("settle", fill + _QUIET_SECONDS, self.ramp_budget_seconds),
            Phase("soak", self.soak_seconds, self.soak_seconds),
            Phase("evidence", _UPLOAD_SECONDS, EVIDENCE_SECONDS),
            Phase("teardown", _REMOVE_SECONDS, TEARDOWN_SECONDS),
        )

    @property
    def capped_seconds(self) -> float:
        """What --max-duration must leave room for: the two phases whose budgets a profile sets."""
        return self.ramp_budget_seconds + self.soak_seconds

    @cached_property
    def load_profile(self) -> LoadProfile:
        shape = self.profile.load_profile
        return LoadProfile(
            target=self.geometry.pods_per_cluster,
            mode=shape.mode,
            churn_per_minute=shape.churn_per_minute,
            jittered_churn=shape.jittered_churn,
            micro_burst_rate_per_minute=shape.micro_burst_rate_per_minute,
            micro_burst_factor=shape.micro_burst_factor,
            seed=self.seed,
            pre_bind_fraction=self.profile.seed.bound_at_start,
            anchors=shape.anchors,
            bursts=self.bursts,
            scale_downs=shape.scale_downs,
            demand_steps=shape.demand_steps,
            open_loop_demand_multiplier=shape.open_loop_demand_multiplier,
            archetypes=self.catalog.demand,
        )

    @property
    def seeding(self) -> Seeding:
        geometry = self.geometry
        return Seeding.of(
            self.catalog, self.profile.seed, geometry.kwok_clusters, geometry.shards, self.profile.scale.density
        )

    def values(self, run_id: str) -> dict[str, Any]:
        """The Helm values of this run."""
        kwok_pod, embedded = self.substrate.kwok_pod, self.substrate.host_kind == "embedded"
        return {
            "runId": run_id,
            "grafana": {"enabled": not embedded},  # there are no images on the embedded host
            "portForward": not embedded,  # the pods of the embedded host are reached directly
            "kwok": {
                "clusterCount": self.geometry.kwok_clusters,
                "nodeLeaseSeconds": self.substrate.cluster.node_lease_seconds,
                "apiserverExtraFlags": list(self.substrate.apiserver.extra_flags),
                "sharedVolumeSizeLimit": kwok_pod.shared_volume_size_limit,
                "resources": kwok_pod.model_dump(include={"requests", "limits"}, by_alias=True),
                "apiserverMemoryMiB": apiserver_memory_mib(self.geometry.pods_per_cluster),
            },
            "shard": {"replicas": self.geometry.shards}
            | self.profile.shard.model_dump(include=_SHARD_VALUES, by_alias=True, exclude_none=True)
            | ({} if embedded else {"resources": self._shard_resources}),
            "prometheus": {} if embedded else {"resources": self._prometheus_resources},
            "coordinator": {"replicas": self.geometry.coordinators, "domains": self._domains},
            "provider": {"seed": self.seed, "failureRatePerSec": self.profile.shard.failure_rate_per_sec}
            | ({} if embedded else {"resources": self._provider_resources}),
            "loadProfile": self.load_profile.model_dump(mode="json", by_alias=True, exclude_defaults=True),
            "seeding": self.seeding.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        }

    @property
    def _domains(self) -> list[dict[str, str]]:
        """Which shard owns which racks, for the coordinators. A shard alone owns everything without being told."""
        shards = self.geometry.shards
        return [
            {"key": RACK_KEY, "value": rack.name, "shard": f"bigfleet-shard-{rack.shard}"}
            for rack in (fleets.owned_racks(self.catalog, shards) if shards > 1 else ())
        ]

    @property
    def _shard_resources(self) -> dict[str, Any]:
        """Half as much again as is predicted, three times that as the limit; a core for every 50,000 machines."""
        memory = math.ceil(self.footprint.shard_bytes * 1.5 / 2**28) * 256
        cores = max(1, min(6, math.ceil(sum(self.seeded.values()) / self.geometry.shards / 50_000)))
        return {
            "requests": {"cpu": str(cores), "memory": f"{memory}Mi"},
            "limits": {"cpu": str(max(4, 2 * cores)), "memory": f"{max(2048, 3 * memory)}Mi"},
        }

    @property
    def _provider_resources(self) -> dict[str, Any]:
        """One provider has the machines of all shards: half as much memory again as is predicted, three times that as
        the limit; a core for every 500,000 machines that it lists."""
        memory = math.ceil(self.footprint.provider_bytes * 1.5 / 2**28) * 256
        cores = max(1, min(6, math.ceil(sum(self.seeded.values()) / 500_000)))
        return {
            "requests": {"cpu": str(cores), "memory": f"{memory}Mi"},
            "limits": {"cpu": str(2 * cores), "memory": f"{max(4096, 3 * memory)}Mi"},
        }

    @property
    def _prometheus_resources(self) -> dict[str, Any]:
        """As upstream's runbook has them, and more where the series of very many clusters need it."""
        many = self.geometry.kwok_clusters >= _MANY_CLUSTERS
        floor, ceiling = (16, 32) if many else (4, 12)
        series = math.ceil(self.geometry.kwok_clusters * _SERIES_PER_CLUSTER * _BYTES_PER_SERIES / 2**30)
        cpu, most = ("4", "8") if many else ("1", "4")
        return {
            "requests": {"cpu": cpu, "memory": f"{max(floor, series)}Gi"},
            "limits": {"cpu": most, "memory": f"{max(ceiling, 2 * series)}Gi"},
        }


def make_plan(
    profile: Profile,
    profile_name: str,
    catalog: Catalog,
    substrate: Substrate,
    substrate_name: str,
    *,
    this_host: Host,
    soak_seconds: float | None = None,
    seed: int | None = None,
) -> Plan:
    """Work out a run."""
    soak = soak_seconds if soak_seconds is not None else float(profile.load_profile.soak_seconds)
    seed = profile.load_profile.seed if seed is None else seed
    geometry = derive_geometry(profile, substrate)
    _refuse_absurd(geometry)
    budget = _ramp_budget(profile, geometry, soak)
    density, clusters = profile.scale.density, geometry.kwok_clusters
    unknown = {burst.archetype for burst in profile.load_profile.bursts} - catalog.by_name.keys()
    if unknown:
        raise UsageError(
            f"loadProfile.bursts: the catalog has no archetype {min(unknown)!r}",
            hint=f"use one of {', '.join(catalog.by_name)}",
        )
    shares = shares_of(
        draw_clusters(catalog.demand, geometry.pods_per_cluster, seed, range(_clusters_to_draw(catalog, geometry))),
        clusters=clusters,
        shards=geometry.shards,
        density=density,
        configured_fraction=profile.seed.configured_fraction,
        bursts=_bursts_within(profile, soak),
        archetypes=catalog.by_name,
    )
    return Plan(
        profile_name=profile_name,
        substrate_name=substrate_name,
        profile=profile,
        substrate=substrate,
        catalog=catalog,
        host=substrate.host or this_host,
        geometry=geometry,
        cost=derive_cost(profile, substrate, geometry, soak, budget),
        soak_seconds=soak,
        ramp_budget_seconds=budget,
        seed=seed,
        sizes=seed_sizes(
            profile.seed, catalog.seeded, geometry.total_pods, density, geometry.kwok_clusters, geometry.shards
        ),
        demand=DrawnDemand.total([share.demand for share in shares]),
        free=fleets.total_of(fleets.free_machines(catalog, share.demand, profile.seed, density) for share in shares),
    )


def _bursts_within(profile: Profile, soak_seconds: float) -> tuple[Burst, ...]:
    """A burst that is judged needs a soak that holds its windows; else it does not happen."""
    return tuple(
        burst
        for burst in profile.load_profile.bursts
        if burst.judged_seconds is None or burst.at_seconds + burst.judged_seconds <= soak_seconds
    )


def _refuse_absurd(geometry: Geometry) -> None:
    """Sizes that no run has, and that a plan would work on for hours."""
    if geometry.kwok_clusters > _MOST_CLUSTERS:
        raise UsageError(
            f"that is {geometry.kwok_clusters:,} KWOK clusters, {_MOST_CLUSTERS:,} are the most",
            hint="lower scale.machines or scale.density, or raise the substrate's cluster.podsPerCluster",
        )
    if geometry.pods_per_cluster > _MOST_PODS_PER_CLUSTER:
        raise UsageError(
            f"that is {geometry.pods_per_cluster:,} Pods in each KWOK cluster, {_MOST_PODS_PER_CLUSTER:,} are the most",
            hint="raise topology.kwokClusters, or leave it out",
        )


def _clusters_to_draw(catalog: Catalog, geometry: Geometry) -> int:
    workloads = geometry.pods_per_cluster / mean_workload(catalog.demand)
    affordable = min(_DRAWN_CLUSTERS_MAX, int(_DRAWN_WORKLOADS_MAX / workloads))
    # One of each shard at the least: its machines are counted by its own clusters.
    return min(geometry.kwok_clusters, max(geometry.shards, affordable))


def _ramp_budget(profile: Profile, geometry: Geometry, soak_seconds: float) -> float:
    if profile.ramp_budget:
        return parse_duration(profile.ramp_budget)
    return max(_RAMP_FLOOR_SECONDS, geometry.total_pods / _FILL_PODS_PER_SEC + 1, soak_seconds / 2)
