"""A profile: how much demand, how it moves, which faults, which bars it must hold.

See docs/reference/harness.md#profile.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from bigfleet.core import penalty
from scaletest.model.documents.base import Document, refuse_all
from scaletest.model.documents.durations import MOST_SECONDS, parse_duration

NonNegative = Annotated[float, Field(ge=0, le=1e9)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
Offset = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
WholeSeconds = Annotated[int, Field(ge=0, le=MOST_SECONDS)]

# Far above any fleet that was ever planned, far below what makes arithmetic slow.
MOST_MACHINES = 100_000_000
# JSON and Helm carry whole numbers exactly up to here; a larger seed would be another one in the pods.
MOST_SEED = 2**53 - 1
SeedNumber = Annotated[int, Field(ge=0, le=MOST_SEED)]
# What the priority classes of the shortfall metrics are called (docs/reference/harness.md#priority-classes).
PRIORITY_CLASSES = {"batch": 100, "service": 1000, "critical": 1_000_000}
# One percent a day of the machines that serve a cluster (the chart's default upstream).
DEFAULT_FAILURE_RATE_PER_SEC = 1.16e-7
_ACTION = re.compile(r"kill-coordinator-leader|(?:kill-shard|partition-coordinator-from-shard)-(bigfleet-shard-\d+)")


def _has_a_unit(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value} is not a duration such as 90s or 10m: its unit would be a guess")
    return value


def _is_duration(text: str | None) -> str | None:
    if text is not None and parse_duration(text) <= 0:
        raise ValueError(f"{text} must be above zero")
    return text


def _is_action(text: str) -> str:
    if not _ACTION.fullmatch(text):
        raise ValueError(
            f"unknown action {text!r}; allowed: kill-coordinator-leader, kill-shard-bigfleet-shard-<n>, "
            "partition-coordinator-from-shard-bigfleet-shard-<n>"
        )
    return text


def _is_a_bucket(label: str) -> str:
    if label not in penalty.LABELS:
        raise ValueError(f"{label!r} is no penalty bucket; they are {', '.join(penalty.LABELS)}")
    return label


Bucket = Annotated[str, AfterValidator(_is_a_bucket)]


class Metadata(Document):
    """Its name, and one line about it."""

    name: str = ""
    """For people; a run is named after the file."""
    description: str = ""
    """One line for the tables of `profiles` and `substrates`."""


class Scale(Document):
    """The nominal size."""

    machines: Annotated[int, Field(gt=0, le=MOST_MACHINES)]
    """Nominal machines; together with the density they define the demand."""
    density: Annotated[int, Field(gt=0, le=1000)]
    """Pods per machine: totalPods = machines × density."""

    @property
    def total_pods(self) -> int:
        return self.machines * self.density


DEFAULT_CATALOG = "realistic"


class CatalogRef(Document):
    """Where the demand's shapes come from."""

    archetypes: Annotated[str, AfterValidator(lambda name: name or DEFAULT_CATALOG)] = DEFAULT_CATALOG
    """Name of a file in `archetypes/` beside the profile, or of one that ships; empty: realistic."""


class Seed(Document):
    """What the provider owns before the first Pod exists."""

    configured_fraction: Fraction = 1.0
    """Share of the machines that the demand needs which start bound to their cluster."""
    speculative_multiplier: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Speculative slots = multiplier × effective machines. Excludes speculativeCount."""
    speculative_count: Annotated[int, Field(ge=0, le=MOST_MACHINES)] | None = None
    """Speculative slots per shard, absolute. Excludes speculativeMultiplier."""
    spot_count: Annotated[int, Field(ge=0, le=MOST_MACHINES)] = 0
    """Slots per shard of a second elastic tier: cheaper, interrupted more often."""
    idle_headroom_fraction: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Idle machines = fraction × effective machines."""
    pre_bind: bool | None = None
    """The load-driver binds the whole initial fill itself; the same as preBindFraction 1.0."""
    pre_bind_fraction: Fraction | None = None
    """Share of the initial fill that the load-driver binds itself. Excludes preBind."""

    @model_validator(mode="after")
    def _exclusive(self) -> Self:
        refuse_all(self._excluding())
        return self

    def _excluding(self) -> Iterator[str]:
        if self.speculative_multiplier is not None and self.speculative_count is not None:
            yield "speculativeMultiplier and speculativeCount exclude each other"
        if self.pre_bind is not None and self.pre_bind_fraction is not None:
            yield "preBind and preBindFraction exclude each other"

    @property
    def bound_at_start(self) -> float:
        """Share of the fill that is bound by the load-driver, whichever way it was spelled."""
        return float(self.pre_bind or 0) if self.pre_bind_fraction is None else self.pre_bind_fraction

    @property
    def is_elastic(self) -> bool:
        """Whether OnDemand slots exist that can be bought."""
        return bool(self.speculative_multiplier or self.speculative_count)


class Burst(Document):
    """Extra demand of one archetype for a while."""

    at_seconds: Offset
    """Offset from soak start."""
    archetype: Annotated[str, Field(min_length=1)]
    """Which archetype of the catalog; the only way to ask for a burstOnly one."""
    extra_target: Annotated[int, Field(gt=0, le=MOST_MACHINES)]
    """Pods on top, per cluster; for a gang: whole gangs."""
    duration_seconds: Offset = 0
    """The burst drains after this long; 0: never."""
    selectivity: Fraction = 1.0
    """Share of the clusters that take part."""
    covered_within_seconds: Seconds | None = None
    """From its beginning its demand must be covered so soon; that long is a window of its own. Left out, or without
    returnedWithinSeconds: the burst is not judged."""
    returned_within_seconds: Seconds | None = None
    """From its end its machines must be given back so soon; bars for steady demand leave that window out."""

    @model_validator(mode="after")
    def _judged_as_a_whole(self) -> Self:
        bars = (self.covered_within_seconds, self.returned_within_seconds)
        if any(bar is not None for bar in bars):
            refuse_all(self._unfit())
        return self

    def _unfit(self) -> Iterator[str]:
        if self.covered_within_seconds is None or self.returned_within_seconds is None:
            yield "coveredWithinSeconds and returnedWithinSeconds go together"
        elif self.duration_seconds < self.covered_within_seconds:
            yield f"durationSeconds {self.duration_seconds:g} is shorter than coveredWithinSeconds"

    @property
    def judged_seconds(self) -> float | None:
        """From its beginning to the end of its last window; None: it is not judged."""
        if self.returned_within_seconds is None:
            return None
        return self.duration_seconds + self.returned_within_seconds


class ScaleDown(Document):
    """A sustained shed to a share of the target."""

    at_seconds: Offset
    """Offset from soak start."""
    target_multiplier: Annotated[float, Field(gt=0, lt=1)]
    """What is left of the target."""


class DemandStep(Document):
    """A new level of demand, up or down."""

    at_seconds: Offset
    """Offset from soak start."""
    target_multiplier: Annotated[float, Field(gt=0, le=100)]
    """The new level, of the original target."""


# `pod`: Deployments and StatefulSets, whose Pods ask. `cr`: CapacityRequests without Pods; nothing is ever bound.
DemandMode = Literal["pod", "cr"]


class LoadShape(Document):
    """How demand arrives and moves."""

    mode: DemandMode = "pod"
    """What is created: `pod` Deployments, whose Pods are bound; `cr` CapacityRequests alone, so no bind is measured."""
    ramp_seconds: Annotated[int, Field(gt=0, le=MOST_SECONDS)] = 300
    """How fast the demand should be filled; for the feasibility warning and the price."""
    soak_seconds: WholeSeconds = 600
    """Length of the soak; `--duration` overrides it."""
    churn_per_minute: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Share of the Pods that is replaced each minute of the soak; 60 replaces all of them each second."""
    jittered_churn: bool = True
    """Each second's number of replaced Pods is drawn around its mean (Poisson); off: as even as can be."""
    micro_burst_rate_per_minute: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Seconds of a minute, on average, in which the churn is a multiple of itself."""
    micro_burst_factor: Annotated[float, Field(ge=1, le=1000)] = 5.0
    """That multiple."""
    settle_seconds: WholeSeconds = 0
    """How far into the soak the reclaim count starts."""
    bursts: Annotated[tuple[Burst, ...], Field(max_length=100)] = ()
    """Extra demand for a while."""
    scale_downs: tuple[ScaleDown, ...] = ()
    """Sustained sheds."""
    demand_steps: tuple[DemandStep, ...] = ()
    """Levels of demand, up and down."""
    open_loop_demand_multiplier: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Above 1: so many times the target is asked for; the surplus never binds."""
    anchors: bool = False
    """Force-bind one Pod of a gang so that the others can follow (BF-0025); a speed aid, not a need."""
    seed: SeedNumber = 1
    """Repeats the demand draw, the churn and the losses; `--seed` overrides it."""


class RunnerAction(Document):
    """A fault."""

    at_seconds: Offset
    """Offset from soak start."""
    action: Annotated[str, AfterValidator(_is_action)]
    """kill-coordinator-leader, kill-shard-<pod> or partition-coordinator-from-shard-<pod>."""

    @property
    def kills(self) -> bool:
        """Whether a container ends by it, and comes back."""
        return self.action.startswith("kill-")

    @property
    def shard(self) -> str:
        """The shard pod that is hit; empty if none is."""
        match = _ACTION.fullmatch(self.action)
        return (match and match.group(1)) or ""


class Checkpoint(Document):
    """What must be true by a moment of settling; a run that misses it is given up."""

    at_seconds: Seconds
    """Since settling began."""
    fill_fraction: Fraction | None = None
    """So much of the demand must exist."""
    cycle_p99_seconds: Seconds | None = None
    """The shards' cycles must not take longer."""

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if self.fill_fraction is None and self.cycle_p99_seconds is None:
            raise ValueError("abortCheckpoint asks for nothing: give fillFraction or cycleP99Seconds")
        return self


class Topology(Document):
    """Overrides of what the geometry derives."""

    shard_replicas: Annotated[int, Field(ge=0, le=1000)] = 0
    """Shards; 0: one for every 500,000 machines."""
    coordinator_replicas: Literal[0, 1, 3] = 0
    """Members of the coordinator; 0: one."""
    kwok_clusters: Annotated[int, Field(ge=0, le=100_000)] = 0
    """KWOK clusters, the Pods shared out evenly; 0: as many as the substrate's podsPerCluster asks for."""


class ShardTuning(Document):
    """Failure injection, and the shard's slow paths: what a run of minutes would otherwise never see of them."""

    failure_rate_per_sec: Annotated[float, Field(ge=0, le=1)] = DEFAULT_FAILURE_RATE_PER_SEC
    """Machines lost per second and Configured machine during the soak; left out: 1 % a day; 0: none."""
    list_page_size: Annotated[int, Field(gt=0, le=MOST_MACHINES)] | None = None
    """Machines in one answer of the provider's List; left out: 10,000, so that a small fleet fits into one."""
    full_reconcile_interval_seconds: Seconds | None = None
    """How often a shard walks through all machines, one page a cycle, whatever changed; left out: 600."""
    idle_hold_on_demand_seconds: Offset | None = None
    """How long a free on-demand machine is kept before it is given back; left out: 300."""


class Slo(Document):
    """The bars. A field left out keeps its default; `null` switches a bar off where that is allowed."""

    shard_configure_phase_p99_seconds: Seconds | None = 15.0
    """Idle → Configured per machine; `null`: not gated."""
    bootstrap_success_ratio: Annotated[float, Field(gt=0, le=1)] | None = 0.99
    """Share of the Bootstraps that succeed, at least; `null`: not gated."""
    operator_node_state_update_p99_seconds: Seconds | None = 1.5
    """From the shard's word to the UpcomingNode; `null`: not gated."""
    end_to_end_pod_bind_p50_seconds: Seconds = 10.0
    """A loose floor under the usual way of a Pod, not the release gate (BF-0054)."""
    shard_cycle_duration_p99_seconds: Seconds = 5.0
    """One decision cycle."""
    operator_rollup_p99_seconds: Seconds = 1.0
    """One roll-up."""
    operator_ack_p99_seconds: Seconds = 12.0
    """Acknowledging CapacityRequests."""
    coordinator_apply_error_rate: Fraction = 0.001
    """Share of the coordinator's writes that fail, at most."""
    max_reclaim_actions_during_soak: Annotated[int, Field(ge=0, le=10 * MOST_MACHINES)] = 0
    """Reclaims counted from settleSeconds to the end of the soak, at most."""
    min_observations: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Fewer observations than this are no data."""
    internal_binding_latency_p99_seconds: Seconds | None = None
    """Of old profiles; parsed, never gated (BF-0054)."""
    expect_preemptions: bool = False
    """The run must preempt at least once."""
    expect_standing_shortfall: bool = False
    """Inverts the shortfall gate: demand exceeds supply on purpose."""
    shortfall_stability_max: NonNegative | None = None
    """With expectStandingShortfall: how much the shortfall may move in the window."""
    shortfall_confined_below: Literal["batch", "service", "critical"] | None = None
    """With expectStandingShortfall: the priority class that may be short (batch 100, service 1000, critical 10⁶)."""
    expect_cost_routing: bool = False
    """Workloads that tolerate interruption must land on Spot, sensitive ones on OnDemand."""
    cost_routing_tolerant_bucket: Bucket | None = None
    """The interruption-penalty bucket of the tolerant workloads."""
    cost_routing_sensitive_bucket: Bucket | None = None
    """The interruption-penalty bucket of the sensitive workloads."""
    cost_routing_misrouted_max: Annotated[int, Field(ge=0, le=10 * MOST_MACHINES)] | None = None
    """Machines in the wrong tier, at most; left out: none."""

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        refuse_all(self._lacking())
        return self

    def _lacking(self) -> Iterator[str]:
        tolerant, sensitive = self.cost_routing_tolerant_bucket, self.cost_routing_sensitive_bucket
        of_scarcity = {
            "shortfallStabilityMax": self.shortfall_stability_max,
            "shortfallConfinedBelow": self.shortfall_confined_below,
        }
        of_routing = {
            "costRoutingTolerantBucket": tolerant,
            "costRoutingSensitiveBucket": sensitive,
            "costRoutingMisroutedMax": self.cost_routing_misrouted_max,
        }
        if not self.expect_standing_shortfall:
            yield from (f"{name}: needs expectStandingShortfall" for name in _given(of_scarcity))
        if not self.expect_cost_routing:
            yield from (f"{name}: needs expectCostRouting" for name in _given(of_routing))
        elif tolerant is None or sensitive is None or tolerant == sensitive:
            yield (
                "expectCostRouting needs costRoutingTolerantBucket and costRoutingSensitiveBucket, and they must differ"
            )


def _given(fields: Mapping[str, object]) -> list[str]:
    return [name for name, value in fields.items() if value is not None]


class Profile(Document):
    """The test definition, independent of where it runs."""

    api_version: Literal["bigfleet.io/scaletest/v1"]
    kind: Literal["Profile"]
    metadata: Metadata = Metadata()
    """Its name, and one line about it."""
    scale: Scale
    """The nominal size."""
    catalog: CatalogRef = CatalogRef()
    """Where the demand's shapes come from."""
    seed: Seed = Seed()
    """What the provider owns before the first Pod exists."""
    load_profile: LoadShape = LoadShape()
    """How demand arrives and moves."""
    ramp_budget: Annotated[str | None, BeforeValidator(_has_a_unit), AfterValidator(_is_duration)] = None
    """How long settling may take, as `10m`; left out: the longest of 15 min, Pods ÷ 750 s and half the soak."""
    abort_checkpoint: Checkpoint | None = None
    """What must be true by a moment of settling, else the run is given up."""
    runner_actions: tuple[RunnerAction, ...] = ()
    """Faults."""
    topology: Topology = Topology()
    """Overrides of what the geometry derives."""
    shard: ShardTuning = ShardTuning()
    """Failure injection, and the shard's slow paths."""
    slo: Slo = Slo()
    """The bars."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_all(self._contradictions())
        return self

    def _contradictions(self) -> Iterator[str]:
        if self.topology.kwok_clusters > self.scale.total_pods:
            yield f"topology.kwokClusters is {self.topology.kwok_clusters}, but there are {self.scale.total_pods} Pods"
        checkpoint, budget = self.abort_checkpoint, self.ramp_budget
        if checkpoint and budget and checkpoint.at_seconds >= parse_duration(budget):
            yield f"abortCheckpoint.atSeconds is not within rampBudget {budget}"
        if self.load_profile.mode == "cr" and (self.seed.bound_at_start or self.load_profile.anchors):
            yield "loadProfile.mode cr has no Pods to bind: leave seed.preBind and loadProfile.anchors out"
        if self.slo.expect_cost_routing and not (self.seed.spot_count and self.seed.is_elastic):
            yield "slo.expectCostRouting needs both tiers: seed.spotCount and seed.speculativeCount above zero"
