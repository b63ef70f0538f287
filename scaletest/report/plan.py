"""The plan for people and for machines: what would be installed, how long it would take, what it would cost."""

from collections.abc import Sequence
from textwrap import indent
from typing import NotRequired, TypedDict

from scaletest.errors import UsageError
from scaletest.judge.gates.gate import Gate, Unit
from scaletest.judge.gates.listing import all_gates
from scaletest.model.counting import counted
from scaletest.model.demand.sizing import SeedSizes
from scaletest.model.documents.durations import format_duration
from scaletest.model.footprint import GIB
from scaletest.model.json_types import Json
from scaletest.model.plan import Cause, Plan
from scaletest.report.fitting import fitted
from scaletest.run.steps.guard import DEFAULT_CAPS, Caps, needed_flags
from scaletest.run.steps.preflight import parts_not_built, refusals_of_run, warnings_of


class HostDocument(TypedDict):
    """One host."""

    vCPU: float
    memoryGiB: float


class FormulaDocument(TypedDict):
    """What the formula predicts; `Floored` is what gang floors make of it."""

    effectiveMachines: int
    configuredPerCluster: int
    configuredPerClusterFloored: int
    idlePerShard: int
    idlePerShardFloored: int
    speculativePerShard: int
    speculativePerShardFloored: int
    spotPerShard: int


class RampDocument(TypedDict):
    """Whether the clusters bind as fast as the ramp asks."""

    demandPodsPerSec: float
    supplyPodsPerSec: float
    feasible: bool


class MemoryDocument(TypedDict):
    """What each part is predicted to take."""

    kwokPodBytes: int
    shardBytes: int
    providerBytes: int
    hostBytes: int


class PhaseDocument(TypedDict):
    """A step of the run by the clock."""

    name: str
    # None: it depends on machines that were never measured.
    predictedSeconds: float | None
    budgetSeconds: float


class CapsDocument(TypedDict):
    """What the run may take at most."""

    maxDurationSeconds: float
    maxCostUsd: float


class GateDocument(TypedDict):
    """A bar, before the run."""

    key: str
    title: str
    unit: Unit
    bar: float
    least: bool
    # What is counted, and how often it will happen, where the gate counts.
    observes: NotRequired[Cause]
    expectedObservations: NotRequired[int]


class ArchetypeDocument(TypedDict):
    """What was drawn of an archetype."""

    name: str
    pods: int
    machines: int


class PlanDocument(TypedDict):
    """plan.json, without the inputs."""

    profile: str
    substrate: str
    kwokClusters: int
    podsPerCluster: int
    totalPods: int
    hosts: int
    host: HostDocument
    shards: int
    coordinators: int
    machines: int
    machinesDemanded: int
    needs: int
    # By tier.
    seeded: dict[str, int]
    formula: FormulaDocument
    ramp: RampDocument
    memory: MemoryDocument
    leaseWritesPerSec: float
    seed: int
    soakSeconds: float
    rampBudgetSeconds: float
    windowSeconds: int
    phases: list[PhaseDocument]
    soakUsd: float
    runUsd: float
    worstUsd: float
    caps: CapsDocument
    neededFlags: list[str]
    gates: list[GateDocument]
    archetypes: list[ArchetypeDocument]
    warnings: list[str]
    refusals: list[str]
    notBuilt: list[str]
    # The Helm values.
    values: dict[str, Json]


def plan_lines(plan: Plan) -> list[str]:
    """The essentials, a few aligned lines: shown before every run."""
    expected = plan.expected
    lines = [
        f"time        {_time(plan)}",
        f"cost        {_price(plan)}",
        f"expected    about {counted(expected['replacements'], 'machine')} replaced and "
        f"{counted(expected['rebinds'], 'Pod')} rebound in "
        f"the {format_duration(plan.window_seconds)} that the gates look at",
        *(f"{'warning':<12}{line}" for line in warnings_of(plan)),
    ]
    return [*fleet_lines(plan), *fitted(lines)]


def fleet_lines(plan: Plan) -> list[str]:
    """What is going to stand, whether a run uses it or `up` leaves it."""
    geometry, seeded = plan.geometry, plan.seeded
    lines = [
        f"profile     {plan.profile_name} on {plan.substrate_name}, seed {plan.seed}",
        f"scale       {counted(geometry.kwok_clusters, 'cluster')} × {counted(geometry.pods_per_cluster, 'Pod')}"
        f" = {counted(plan.pods, 'Pod')}{_times_asked_for(plan)}, "
        f"{counted(plan.demand.total_machines, 'machine')} needed",
        f"seeded      {', '.join(f'{count:,} {tier}' for tier, count in seeded.items() if count or tier != 'spot')}",
        f"hosts       {_hosts(plan)}; {counted(geometry.shards, 'shard')}, "
        f"{counted(geometry.coordinators, 'coordinator')}",
    ]
    return fitted(lines)


def full_plan_lines(plan: Plan, caps: Caps = DEFAULT_CAPS, refusals: Sequence[UsageError] | None = None) -> list[str]:
    """Everything that `plan` shows. `refusals` are those of a run; None: what plan and caps give reason for."""
    footprint, geometry, sizes = plan.footprint, plan.geometry, plan.sizes
    lines = [
        *plan_lines(plan),
        f"ramp        asks for {geometry.ramp_demand_pods_per_sec:,.1f} Pods/s, the clusters bind "
        f"{geometry.ramp_supply_pods_per_sec:,.0f}",
        f"memory      {footprint.kwok_pod_bytes / GIB:.1f} GiB per KWOK cluster, {footprint.shard_bytes / GIB:.1f} per "
        f"shard, {footprint.provider_bytes / GIB:.1f} for the provider, "
        f"{footprint.host_bytes / GIB:.1f} on the fullest host",
        f"writes      {footprint.work_writes_per_sec:,.0f} a second for the churn, "
        f"{footprint.lease_writes_per_sec:,.0f} for node leases",
        f"formula     predicts {counted(sizes.effective, 'machine')} (the draw above is what counts); "
        f"per cluster {_tier(sizes, 'configured_per_cluster')} configured; "
        f"per shard {_tier(sizes, 'idle_per_shard')} idle, {_tier(sizes, 'speculative_per_shard')} speculative",
        "",
        "phase         predicted  given up after",
        *(
            f"  {phase.name:<10}  {_about(phase.predicted_seconds):>9}  {format_duration(phase.budget_seconds):>14}"
            for phase in plan.phases
        ),
        "",
        "archetype                   Pods    machines  of them held  idle, speculative, spot",
        *_archetype_lines(plan),
        "",
        f"{'gate':<38} {'bar':<16} observations expected",
        *(_gate_line(gate, plan) for gate in all_gates(plan)),
    ]
    return fitted([*lines, "", *_outlook(plan, caps, refusals_of_run(plan, caps) if refusals is None else refusals)])


def _outlook(plan: Plan, caps: Caps, refusals: Sequence[UsageError]) -> list[str]:
    """Whether a run would start, and if not, why."""
    against = [refusal.message for refusal in refusals]
    if not against:
        return ["a run would start"]
    flags = needed_flags(plan, caps)
    needs = [f"a run needs {' '.join(flags)}"] if flags else []
    return ["a run would be refused:", *(indent(reason, "  ") for reason in against), *needs]


def _archetype_lines(plan: Plan) -> list[str]:
    lines = []
    for archetype in plan.catalog.demand:
        name = archetype.name
        free = " ".join(f"{counts.get(name, 0):>8,}" for tier, counts in plan.free.items() if counts)
        lines.append(
            f"  {name:<20} {plan.demand.pods_of.get(name, 0):>11,} {plan.demand.machines.get(name, 0):>11,} "
            f"{plan.demand.bound.get(name, 0):>13,} {free}".rstrip()
        )
    return lines


def plan_document(
    plan: Plan, caps: Caps = DEFAULT_CAPS, run_id: str = "", refusals: Sequence[UsageError] | None = None
) -> PlanDocument:
    """The plan as JSON, for plan.json and `--output json`. `refusals` as in `full_plan_lines`."""
    against = refusals_of_run(plan, caps) if refusals is None else refusals
    geometry, footprint, sizes = plan.geometry, plan.footprint, plan.sizes
    return {
        "profile": plan.profile_name,
        "substrate": plan.substrate_name,
        "kwokClusters": geometry.kwok_clusters,
        "podsPerCluster": geometry.pods_per_cluster,
        "totalPods": geometry.total_pods,
        "hosts": geometry.hosts,
        "host": {"vCPU": plan.host.v_cpu, "memoryGiB": plan.host.memory_gi_b},
        "shards": geometry.shards,
        "coordinators": geometry.coordinators,
        "machines": plan.profile.scale.machines,
        "machinesDemanded": plan.demand.total_machines,
        "needs": plan.demand.needs,
        "seeded": plan.seeded,
        "formula": {
            "effectiveMachines": sizes.effective,
            "configuredPerCluster": sizes.configured_per_cluster,
            "configuredPerClusterFloored": sizes.configured_per_cluster_floored,
            "idlePerShard": sizes.idle_per_shard,
            "idlePerShardFloored": sizes.idle_per_shard_floored,
            "speculativePerShard": sizes.speculative_per_shard,
            "speculativePerShardFloored": sizes.speculative_per_shard_floored,
            "spotPerShard": sizes.spot_per_shard,
        },
        "ramp": {
            "demandPodsPerSec": round(geometry.ramp_demand_pods_per_sec, 3),
            "supplyPodsPerSec": round(geometry.ramp_supply_pods_per_sec, 3),
            "feasible": geometry.ramp_feasible,
        },
        "memory": {
            "kwokPodBytes": footprint.kwok_pod_bytes,
            "shardBytes": footprint.shard_bytes,
            "providerBytes": footprint.provider_bytes,
            "hostBytes": footprint.host_bytes,
        },
        "leaseWritesPerSec": round(footprint.lease_writes_per_sec, 1),
        "seed": plan.seed,
        "soakSeconds": plan.soak_seconds,
        "rampBudgetSeconds": plan.ramp_budget_seconds,
        "windowSeconds": plan.window_seconds,
        "phases": [
            {"name": p.name, "predictedSeconds": p.predicted_seconds, "budgetSeconds": p.budget_seconds}
            for p in plan.phases
        ],
        "soakUsd": plan.cost.soak_usd,
        "runUsd": plan.cost.run_usd,
        "worstUsd": plan.cost.worst_usd,
        "caps": {"maxDurationSeconds": caps.max_duration_seconds, "maxCostUsd": caps.max_cost_usd},
        "neededFlags": needed_flags(plan, caps),
        "gates": [_gate_document(gate, plan) for gate in all_gates(plan)],
        "archetypes": [
            {
                "name": archetype.name,
                "pods": plan.demand.pods_of.get(archetype.name, 0),
                "machines": plan.demand.machines.get(archetype.name, 0),
            }
            for archetype in plan.catalog.demand
        ],
        "warnings": list(warnings_of(plan)),
        "refusals": [refusal.message for refusal in against],
        "notBuilt": parts_not_built(plan),
        "values": plan.values(run_id),
    }


def _gate_document(gate: Gate, plan: Plan) -> GateDocument:
    document: GateDocument = {
        "key": gate.key,
        "title": gate.title,
        "unit": gate.unit,
        "bar": gate.bar,
        "least": gate.least,
    }
    if gate.cause:
        document["observes"] = gate.cause
        document["expectedObservations"] = plan.expected[gate.cause]
    return document


def _gate_line(gate: Gate, plan: Plan) -> str:
    number = f"{gate.bar:,.0f}" if gate.bar == int(gate.bar) else f"{gate.bar:g}"
    bar = f"{'≥' if gate.least else '≤'} {number} {gate.unit}"
    expected = counted(plan.expected[gate.cause], gate.cause.removesuffix("s")) if gate.cause else ""
    return f"  {gate.title:<36} {bar:<16} {expected}".rstrip()


def _times_asked_for(plan: Plan) -> str:
    times = plan.profile.load_profile.open_loop_demand_multiplier
    return f" (× {times:g} are asked for)" if times > 1 else ""


def _price(plan: Plan) -> str:
    cost = plan.cost
    if not cost.worst_usd:
        return "nothing"
    return (
        f"${cost.soak_usd:,.2f} for the soak, ${cost.run_usd:,.2f} for the whole run; "
        f"${cost.worst_usd:,.2f} if settling takes all of its budget"
    )


def _hosts(plan: Plan) -> str:
    shape = f"{plan.host.v_cpu} vCPU / {plan.host.memory_gi_b:g} GiB"
    return f"this machine, {shape}" if plan.substrate.host_kind == "embedded" else f"{plan.geometry.hosts:,} × {shape}"


def _time(plan: Plan) -> str:
    predicted = [phase.predicted_seconds for phase in plan.phases]
    known = sum(seconds for seconds in predicted if seconds is not None)
    about = f"about {format_duration(known)}{' without the install' if None in predicted else ''}"
    return (
        f"{about}: settle within {format_duration(plan.ramp_budget_seconds)}, soak {format_duration(plan.soak_seconds)}"
    )


def _about(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _tier(sizes: SeedSizes, name: str) -> str:
    """`289 → 361` where gang floors raise a tier."""
    asked, given = getattr(sizes, name), getattr(sizes, f"{name}_floored")
    return f"{asked:,}" if asked == given else f"{asked:,} → {given:,}"
