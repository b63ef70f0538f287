"""The prediction of a simulation, for people and for machines."""

from dataclasses import asdict
from typing import TypedDict

from scaletest.model.counting import counted
from scaletest.model.documents.durations import format_duration
from scaletest.model.json_types import Json
from scaletest.model.plan import Plan
from scaletest.report.screen.plain import gate_lines
from scaletest.run.offline.simulate import Activity, Prediction


def prediction_lines(plan: Plan, prediction: Prediction, wall_seconds: float) -> list[str]:
    """Bars first, then what lies behind them."""
    states = ", ".join(f"{count:,} {state}" for state, count in prediction.states.items())
    lines = [
        f"{plan.profile_name} on {plan.substrate_name}, seed {plan.seed}: "
        f"{counted(plan.geometry.kwok_clusters, 'cluster')}, {counted(plan.pods, 'Pod')}, "
        f"{counted(plan.demand.total_machines, 'machine')} needed (simulated in {wall_seconds:.1f} s)",
        "",
        *gate_lines(prediction.gates),
        "",
        "PREDICTED TO PASS what a simulation can judge" if prediction.passes else "PREDICTED NOT TO PASS",
        "",
        f"steady       {format_duration(prediction.steady_after_seconds)} after the demand exists; "
        f"{_activity(prediction.settle)}",
        f"soak         {format_duration(plan.soak_seconds)}: {counted(prediction.machines_lost, 'machine')} lost; "
        f"{_activity(prediction.soak)}",
        f"reclaims     {_counting(prediction)}",
        f"shortfalls   {prediction.shortfalls_most:,} at most at once during the soak",
        f"at the end   {prediction.pods_bound:,} of {prediction.pods:,} Pods bound; machines: {states}",
        f"not judged   {counted(len(prediction.left_out), 'gate')} that only a real run can judge (-o json names them)",
    ]
    if plan.geometry.shards > 1:
        lines.append(f"note         one simulated shard stands for all {plan.geometry.shards}")
    return lines


class PredictionDocument(TypedDict):
    """What `simulate -o json` says."""

    profile: str
    substrate: str
    seed: int
    passes: bool
    steadyAfterSeconds: float
    # How often each action was decided, by its name.
    settle: dict[str, int]
    soakSeconds: float
    soak: dict[str, int]
    machinesLost: int
    reclaimsCountedFromSeconds: float | None
    shortfallsMost: int
    pods: int
    podsBound: int
    cycles: int
    # By state.
    machines: dict[str, int]
    gates: list[dict[str, Json]]
    notJudged: list[str]
    wallSeconds: float


def prediction_document(plan: Plan, prediction: Prediction, wall_seconds: float) -> PredictionDocument:
    return {
        "profile": plan.profile_name,
        "substrate": plan.substrate_name,
        "seed": plan.seed,
        "passes": prediction.passes,
        "steadyAfterSeconds": prediction.steady_after_seconds,
        "settle": asdict(prediction.settle),
        "soakSeconds": plan.soak_seconds,
        "soak": asdict(prediction.soak),
        "machinesLost": prediction.machines_lost,
        "reclaimsCountedFromSeconds": prediction.reclaims_counted_from_seconds,
        "shortfallsMost": prediction.shortfalls_most,
        "pods": prediction.pods,
        "podsBound": prediction.pods_bound,
        "cycles": prediction.cycles,
        "machines": prediction.states,
        "gates": [gate.document() for gate in prediction.gates],
        "notJudged": list(prediction.left_out),
        "wallSeconds": round(wall_seconds, 2),
    }


def _activity(activity: Activity) -> str:
    done = [counted(count, name.removesuffix("s")) for name, count in asdict(activity).items() if count]
    return ", ".join(done) or "nothing is decided"


def _counting(prediction: Prediction) -> str:
    since = prediction.reclaims_counted_from_seconds
    if since is None:
        return "they never pause, so counting never begins"
    return f"counted from {format_duration(since)} into the soak"
