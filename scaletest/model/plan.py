"""The plan: what a run would install, how long it may take, what it would cost. Nothing is started by making one."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scaletest.errors import UsageError
from scaletest.model import fleet as fleets
from scaletest.model.catalog import Catalog
from scaletest.model.draw import Workload, draw_demand, total_pods
from scaletest.model.durations import format_duration, parse_duration
from scaletest.model.geometry import Cost, Geometry, derive_cost, derive_geometry
from scaletest.model.loadprofile import LoadProfile
from scaletest.model.profile import Profile
from scaletest.model.substrate import Substrate

# Settling may take the fill at this rate, and never less than the floor (spec/harness.md §5.4).
_FILL_PODS_PER_SEC = 750
_RAMP_FLOOR_SECONDS = 15 * 60
# The window of the gates' queries (spec/harness.md §6.1).
_WINDOW_MIN_SECONDS, _WINDOW_MAX_SECONDS = 60, 300
INSTALL_SECONDS = 20 * 60
EVIDENCE_SECONDS = 7 * 60
TEARDOWN_SECONDS = 5 * 60


@dataclass(frozen=True)
class Plan:
    """A profile on a substrate, worked out."""

    profile_name: str
    substrate_name: str
    profile: Profile
    substrate: Substrate
    catalog: Catalog
    geometry: Geometry
    cost: Cost
    soak_seconds: float
    ramp_budget_seconds: float
    seed: int
    draws: tuple[tuple[Workload, ...], ...]
    fleet: fleets.Fleet

    @property
    def window_seconds(self) -> int:
        """How far back a gate looks: the soak, but at least one minute and at most five."""
        return int(min(max(self.soak_seconds, _WINDOW_MIN_SECONDS), _WINDOW_MAX_SECONDS))

    @property
    def pods(self) -> int:
        """Pods really drawn, over all clusters."""
        return sum(total_pods(draw) for draw in self.draws)

    @property
    def expected_losses(self) -> int:
        """Machines lost, and so Bootstraps caused, in the window that the gates look at."""
        seconds = min(self.soak_seconds, self.window_seconds)
        return int(self.profile.shard.failure_rate_per_sec * self.fleet.demanded * seconds)

    @property
    def expected_rebinds(self) -> int:
        """Pods replaced by churn in the window that the gates look at."""
        minutes = min(self.soak_seconds, self.window_seconds) / 60
        return int(self.profile.load_profile.churn_per_minute * self.pods * minutes)

    @cached_property
    def load_profile(self) -> LoadProfile:
        shape = self.profile.load_profile
        return LoadProfile(
            target=self.geometry.pods_per_cluster,
            churn_per_minute=shape.churn_per_minute,
            seed=self.seed,
            pre_bind_fraction=self.profile.seed.pre_bind_fraction,
            anchors=shape.anchors,
            bursts=shape.bursts,
            scale_downs=shape.scale_downs,
            demand_steps=shape.demand_steps,
            open_loop_demand_multiplier=shape.open_loop_demand_multiplier,
            archetypes=self.catalog.archetypes,
        )

    def values(self, run_id: str) -> dict[str, Any]:
        """The Helm values of this run."""
        resources = self.substrate.kwok_pod.model_dump(include={"requests", "limits"}, by_alias=True)
        return {
            "runId": run_id,
            "kwok": {
                "clusterCount": self.geometry.kwok_clusters,
                "nodeLeaseSeconds": self.substrate.cluster.node_lease_seconds,
                "apiserverExtraFlags": list(self.substrate.apiserver.extra_flags),
                "sharedVolumeSizeLimit": self.substrate.kwok_pod.shared_volume_size_limit,
                "resources": resources,
            },
            "shard": {"replicas": self.geometry.shards},
            "coordinator": {"replicas": self.geometry.coordinators},
            "provider": {
                "fleet": json.dumps(fleets.fleet_document(self.fleet, self.catalog, self.profile.scale.density)),
                "seed": self.seed,
                "failureRatePerSec": self.profile.shard.failure_rate_per_sec,
            },
            "loadProfile": self.load_profile.model_dump(mode="json", by_alias=True, exclude_none=True),
        }

    def document(self) -> dict[str, Any]:
        """The plan as JSON, for plan.json and `--output json`."""
        geometry, fleet = self.geometry, self.fleet
        return {
            "profile": self.profile_name,
            "substrate": self.substrate_name,
            "kwokClusters": geometry.kwok_clusters,
            "hosts": geometry.hosts,
            "shards": geometry.shards,
            "coordinators": geometry.coordinators,
            "podsPerCluster": geometry.pods_per_cluster,
            "totalPods": geometry.total_pods,
            "machines": self.profile.scale.machines,
            "machinesDemanded": fleet.demanded,
            "seeded": {
                "configured": fleet.count(fleets.CONFIGURED),
                "idle": fleet.count(fleets.IDLE),
                "speculative": fleet.count(fleets.SPECULATIVE),
                "spot": fleet.count(fleets.SPOT),
            },
            "seed": self.seed,
            "soakSeconds": self.soak_seconds,
            "rampBudgetSeconds": self.ramp_budget_seconds,
            "soakUsd": round(self.cost.soak_usd, 2),
            "runUsd": round(self.cost.run_usd, 2),
            "expectedObservations": {"bootstraps": self.expected_losses, "podBinds": self.expected_rebinds},
        }


def make_plan(
    profile: Profile,
    profile_name: str,
    catalog: Catalog,
    substrate: Substrate,
    substrate_name: str,
    *,
    soak_seconds: float | None = None,
    seed: int | None = None,
) -> Plan:
    """Work out a run. Raises UsageError for a profile that asks for what does not exist yet."""
    _refuse_what_is_not_built(profile, substrate)
    soak = soak_seconds if soak_seconds is not None else float(profile.load_profile.soak_seconds)
    if profile.topology.kwok_clusters > profile.scale.total_pods:
        raise UsageError(
            f"topology.kwokClusters is {profile.topology.kwok_clusters}, but there are {profile.scale.total_pods} Pods"
        )
    seed = profile.load_profile.seed if seed is None else seed
    geometry = derive_geometry(profile, substrate)
    draws = tuple(
        tuple(draw_demand(catalog, geometry.pods_per_cluster, seed, ordinal))
        for ordinal in range(geometry.kwok_clusters)
    )
    plan = Plan(
        profile_name=profile_name,
        substrate_name=substrate_name,
        profile=profile,
        substrate=substrate,
        catalog=catalog,
        geometry=geometry,
        cost=derive_cost(profile, substrate, geometry, soak),
        soak_seconds=soak,
        ramp_budget_seconds=_ramp_budget(profile, geometry, soak),
        seed=seed,
        draws=draws,
        fleet=fleets.seed_fleet(catalog, draws, profile.seed, profile.scale.density, geometry.shards),
    )
    _refuse_what_cannot_be_judged(plan)
    return plan


def _refuse_what_cannot_be_judged(plan: Plan) -> None:
    """A soak that cannot bring the observations its gates need would end in no-data (design.md §4, Enough to judge)."""
    least = plan.profile.slo.min_observations
    expected = {
        "machines replaced (shard.failureRatePerSec)": plan.expected_losses,
        "Pods rebound (loadProfile.churnPerMinute)": plan.expected_rebinds,
    }
    for what, count in expected.items():
        if count < least:
            raise UsageError(
                f"a soak of {format_duration(plan.soak_seconds)} brings about {count} {what}; the gates need {least}",
                hint="make --duration longer, or raise the rate in the profile",
            )


def _ramp_budget(profile: Profile, geometry: Geometry, soak_seconds: float) -> float:
    if profile.ramp_budget:
        try:
            return parse_duration(profile.ramp_budget)
        except ValueError as error:
            raise UsageError(f"rampBudget: {error}") from error
    return max(_RAMP_FLOOR_SECONDS, geometry.total_pods / _FILL_PODS_PER_SEC + 1, soak_seconds / 2)


def _refuse_what_is_not_built(profile: Profile, substrate: Substrate) -> None:
    load = profile.load_profile
    asked = {
        "seed.preBind": profile.seed.pre_bind_fraction > 0,
        "loadProfile.anchors": load.anchors,
        "loadProfile.bursts": bool(load.bursts),
        "loadProfile.scaleDowns": bool(load.scale_downs),
        "loadProfile.demandSteps": bool(load.demand_steps),
        "loadProfile.openLoopDemandMultiplier": load.open_loop_demand_multiplier > 1,
        "runnerActions": bool(profile.runner_actions),
        "topology.coordinatorReplicas": profile.topology.coordinator_replicas > 1,
        "topology.shardReplicas": profile.topology.shard_replicas > 1,
        "cluster.storage kine": substrate.cluster.storage == "kine",
        "hostKind context": substrate.host_kind == "context",
    }
    missing = [name for name, wanted in asked.items() if wanted]
    if missing:
        raise UsageError(
            f"not built yet: {', '.join(missing)}",
            hint="remove it from the profile or substrate; `smoke` on `embedded` runs today",
        )


def plan_lines(plan: Plan) -> list[str]:
    """The plan for people, a few aligned lines."""
    geometry, fleet = plan.geometry, plan.fleet
    budget = format_duration(plan.ramp_budget_seconds)
    return [
        f"profile    {plan.profile_name} on {plan.substrate_name}, seed {plan.seed}",
        f"scale      {geometry.kwok_clusters} clusters × {geometry.pods_per_cluster} Pods = {geometry.total_pods} Pods"
        f", {fleet.demanded} machines needed",
        f"seeded     {fleet.count(fleets.CONFIGURED)} configured, {fleet.count(fleets.IDLE)} idle, "
        f"{fleet.count(fleets.SPECULATIVE)} speculative",
        f"hosts      {geometry.hosts} × {plan.substrate.host.v_cpu} vCPU / {plan.substrate.host.memory_gi_b} GiB; "
        f"{geometry.shards} shard, {geometry.coordinators} coordinator",
        f"time       settle within {budget}, soak {format_duration(plan.soak_seconds)}",
        f"cost       ${plan.cost.soak_usd:.2f} for the soak, ${plan.cost.run_usd:.2f} for the whole run",
        f"expected   about {plan.expected_losses} machines replaced and {plan.expected_rebinds} Pods rebound in the "
        f"{format_duration(plan.window_seconds)} that the gates look at",
    ]
