"""A profile: how much demand, how it moves, which bars it must hold (spec/harness.md §2.1)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from scaletest.model.base import Document

NonNegative = Annotated[float, Field(ge=0)]


class Metadata(Document):
    """Who the document is."""

    name: str = ""
    description: str = ""


class Scale(Document):
    """The nominal size: totalPods = machines × density."""

    machines: Annotated[int, Field(gt=0)]
    density: Annotated[int, Field(gt=0)]

    @property
    def total_pods(self) -> int:
        return self.machines * self.density


class CatalogRef(Document):
    """Which file of profiles/archetypes/ the demand is drawn from."""

    archetypes: str = "realistic"


class Seed(Document):
    """What the provider owns before the first Pod exists."""

    # Share of the machines that the demand needs which start bound to their cluster.
    configured_fraction: Annotated[float, Field(ge=0, le=1)] = 1.0
    speculative_multiplier: Annotated[int, Field(ge=0)] | None = None
    # Absolute slots per shard; excludes the multiplier.
    speculative_count: Annotated[int, Field(ge=0)] | None = None
    spot_count: Annotated[int, Field(ge=0)] = 0
    idle_headroom_fraction: NonNegative = 0.0
    # Share of the initial fill that the load-driver binds itself; `preBind: true` is 1.0.
    pre_bind_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _pre_bind_spelling(cls, data: object) -> object:
        if isinstance(data, dict) and "preBind" in data:
            if "preBindFraction" in data:
                raise ValueError("preBind and preBindFraction exclude each other")
            data = dict(data)
            pre_bind = data.pop("preBind")
            if not isinstance(pre_bind, bool):
                raise ValueError("preBind must be true or false")
            data["preBindFraction"] = 1.0 if pre_bind else 0.0
        return data

    @model_validator(mode="after")
    def _one_speculative(self) -> Self:
        if self.speculative_multiplier is not None and self.speculative_count is not None:
            raise ValueError("speculativeMultiplier and speculativeCount exclude each other")
        return self


class Burst(Document):
    """Extra demand of one archetype for a while."""

    at_seconds: NonNegative
    archetype: str
    extra_target: Annotated[int, Field(gt=0)]
    # 0: the burst never drains.
    duration_seconds: NonNegative = 0
    selectivity: Annotated[float, Field(ge=0, le=1)] = 1.0


class ScaleDown(Document):
    """A sustained shed to a share of the target."""

    at_seconds: NonNegative
    target_multiplier: Annotated[float, Field(gt=0, lt=1)]


class DemandStep(Document):
    """A new level of demand, up or down."""

    at_seconds: NonNegative
    target_multiplier: Annotated[float, Field(gt=0)]


class LoadShape(Document):
    """How demand arrives and moves. Times are seconds from soak start."""

    ramp_seconds: Annotated[int, Field(gt=0)] = 300
    soak_seconds: Annotated[int, Field(ge=0)] = 600
    churn_per_minute: NonNegative = 0.0
    # How far into the soak the reclaim count starts.
    settle_seconds: Annotated[int, Field(ge=0)] = 0
    bursts: tuple[Burst, ...] = ()
    scale_downs: tuple[ScaleDown, ...] = ()
    demand_steps: tuple[DemandStep, ...] = ()
    open_loop_demand_multiplier: NonNegative = 1.0
    # Force-bind one Pod of a gang so that the others can follow (ADR-0025); a speed aid, not a need.
    anchors: bool = False
    # Repeats the demand draw, the churn and the losses; `--seed` overrides it.
    seed: int = 1


class RunnerAction(Document):
    """A fault, at an offset from soak start."""

    at_seconds: NonNegative
    action: str


class Topology(Document):
    """Overrides of what the geometry derives."""

    shard_replicas: Annotated[int, Field(ge=0)] = 0
    coordinator_replicas: Literal[1, 3] = 1
    # Fixes the number of KWOK clusters; the Pods are shared out evenly. 0: as the substrate's podsPerCluster asks.
    kwok_clusters: Annotated[int, Field(ge=0)] = 0


class ShardTuning(Document):
    """Failure injection."""

    # Machines lost per second and Configured machine, during the soak.
    failure_rate_per_sec: NonNegative = 0.0


class Slo(Document):
    """The bars. A field left out keeps its default; `None` is off (spec/harness.md §6.2)."""

    shard_configure_phase_p99_seconds: Annotated[float, Field(gt=0)] | None = 15.0
    bootstrap_success_ratio: Annotated[float, Field(gt=0, le=1)] | None = 0.99
    operator_node_state_update_p99_seconds: Annotated[float, Field(gt=0)] = 1.5
    end_to_end_pod_bind_p50_seconds: Annotated[float, Field(gt=0)] = 10.0
    shard_cycle_duration_p99_seconds: Annotated[float, Field(gt=0)] = 5.0
    operator_rollup_p99_seconds: Annotated[float, Field(gt=0)] = 1.0
    operator_ack_p99_seconds: Annotated[float, Field(gt=0)] = 12.0
    coordinator_apply_error_rate: NonNegative = 0.001
    max_reclaim_actions_during_soak: Annotated[int, Field(ge=0)] = 0
    # Fewer observations than this are no data.
    min_observations: Annotated[int, Field(ge=1)] = 10


class Profile(Document):
    """The test definition, independent of where it runs."""

    api_version: Literal["bigfleet.io/scaletest/v1"]
    kind: Literal["Profile"]
    metadata: Metadata = Metadata()
    scale: Scale
    catalog: CatalogRef = CatalogRef()
    seed: Seed = Seed()
    load_profile: LoadShape = LoadShape()
    # How long settling may take, as `10m`; default: a formula over the Pods.
    ramp_budget: str | None = None
    runner_actions: tuple[RunnerAction, ...] = ()
    topology: Topology = Topology()
    shard: ShardTuning = ShardTuning()
    slo: Slo = Slo()
