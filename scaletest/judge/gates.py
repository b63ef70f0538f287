"""The gates: each covers one hop that BigFleet owns (ADR-0054). Data here, judged by one pure function.

The only place where a gate's query is written. `{w}` is the window in seconds. No query turns absence into a value:
a series that is missing, NaN or infinite is no data, and no data is never a pass.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scaletest.model.counting import counted
from scaletest.model.plan import Cause, Plan
from scaletest.model.profile import Slo

Verdict = Literal["pass", "fail", "no-data", "saturated", "skipped"]

# A reading of a metric that was not measured (ADR-0017).
UNMEASURED_VALUE = -1.0
# Of the Pods asked for, so many must be alive as demand throughout the soak.
LOAD_FRACTION = 0.999

# What settling, the live view and the dashboard look at too.
DEMAND_ALIVE = "sum(scaletest_loadgen_cr_active)"
DEMAND_BY_CLUSTER = "sum by (pod) (scaletest_loadgen_cr_active)"
SHORTFALLS = "sum(bigfleet_shard_shortfalls)"
RECLAIMS = 'bigfleet_shard_actions_total{kind="Reclaim"}'
PODS_BOUND = "sum(bigfleet_scaletest_node_creator_bound_pods)"
MACHINES_LOST = "sum(bigfleet_provider_losses_total)"
MACHINES_BY_STATE = "sum by (state) (bigfleet_shard_inventory_machines)"


@dataclass(frozen=True)
class Gate:
    """One bar. `least` bars fail below the bound, others above it."""

    key: str
    title: str
    query: str
    bound: float
    least: bool = False
    # A counter; what it grew by over the window is the number of observations behind the value.
    count: str = ""
    # What is counted; the plan knows how often it will happen.
    cause: Cause | None = None
    # The histogram behind a quantile; a quantile at its highest finite bucket is saturated.
    histogram: str = ""
    # The profile switched it off with `null`: measured and shown, never judged.
    off: bool = False
    # Why nothing may have been observed; it is skipped then, instead of no-data.
    skip: str = ""
    # Held bars are the same at every size (ADR-0028); scaled ones grow with the fleet.
    held: bool = False

    def windowed(self, seconds: int) -> str:
        return self.query.replace("{w}", f"{seconds}s")


@dataclass(frozen=True)
class Reading:
    """What was measured for a gate."""

    value: float | None
    observations: int | None = None
    # Highest finite bucket of the gate's histogram.
    ceiling: float | None = None
    # Overrides the sentence when the reading itself went wrong.
    problem: str = ""
    # What the value is made of, for the sentence of a bar that it fails.
    detail: str = ""


@dataclass(frozen=True)
class GateRecord:
    """A judged gate, as summary.json keeps it."""

    key: str
    title: str
    query: str
    value: float | None
    bound: float
    least: bool
    observations: int | None
    verdict: Verdict
    reason: str
    held: bool

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def judge(gate: Gate, reading: Reading, window_seconds: int, min_observations: int) -> GateRecord:
    """The verdict on one gate."""
    verdict, reason = _verdict(gate, reading, min_observations)
    return GateRecord(
        key=gate.key,
        title=gate.title,
        query=gate.windowed(window_seconds),
        value=reading.value,
        bound=gate.bound,
        least=gate.least,
        observations=reading.observations,
        verdict=verdict,
        reason=reason,
        held=gate.held,
    )


def _verdict(gate: Gate, reading: Reading, min_observations: int) -> tuple[Verdict, str]:
    value, seen = reading.value, reading.observations
    if gate.off:
        return "skipped", "the profile switches this bar off"
    if reading.problem:
        return ("fail" if value is not None else "no-data"), reading.problem
    if gate.skip and seen == 0:
        return "skipped", gate.skip
    if value is None:
        return "no-data", "there is no value for it"
    if gate.count and (seen is None or seen < min_observations):
        return "no-data", f"{counted(seen or 0, 'observation')}, {min_observations} are needed to judge"
    if reading.ceiling is not None and value >= reading.ceiling:
        return "saturated", f"beyond the histogram's last bucket ({reading.ceiling:g})"
    holds = value >= gate.bound if gate.least else value <= gate.bound
    relation = ("≥" if gate.least else "≤") if holds else ("<" if gate.least else ">")
    sentence = f"{value:g} {relation} {gate.bound:g}"
    return ("pass", sentence) if holds else ("fail", f"{sentence}: {reading.detail}" if reading.detail else sentence)


def _quantile(rank: float, metric: str, by: str = "le", outer: str = "") -> str:
    """Of what was observed in the window, and nothing else.

    Not by rate(): it extrapolates buckets that began at zero otherwise than those that did not. Of 50 observations, one
    from before the window then counts as the slowest one in it (docs/adr/0027).
    """
    inner = f"histogram_quantile({rank}, sum by ({by}) ({grown(f'{metric}_bucket')}))"
    return f"{outer}({inner})" if outer else inner


def grown(counter: str) -> str:
    """What a counter has counted in the window."""
    return f"max_over_time({counter}[{{w}}]) - min_over_time({counter}[{{w}}])"


_BOOTSTRAPS = 'bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap"}'
_BOOTSTRAPPED = 'bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap",outcome="success"}'
_WRITES = "bigfleet_coordinator_apply_total"
_REFUSED_WRITES = 'bigfleet_coordinator_apply_total{outcome=~"error|fsm_error"}'


def gates_for(plan: Plan) -> list[Gate]:
    """The gates that are queries, with their bounds, in the order of spec/harness.md §6.2."""
    slo, load = plan.profile.slo, plan.profile.load_profile
    return [
        Gate(
            "loadgenPodsActive",
            "demand alive throughout",
            f"min_over_time({DEMAND_ALIVE}[{{w}}:15s])",
            # Of what is asked for in the window: a shed or a step moves the target (spec/harness.md §11.2, 1).
            bound=int(LOAD_FRACTION * plan.pods * plan.lowest_level),
            least=True,
        ),
        Gate(
            "shardsReportingCycle",
            "shards that report cycles",
            # Cycles that go on, not a count that a hung shard still shows; 0 is a value, a missing series is not.
            'sum(sum by (pod) (rate(bigfleet_shard_cycle_duration_seconds_count{component="shard"}[{w}])) > bool 0)',
            bound=plan.geometry.shards,
            least=True,
        ),
        _optional(
            slo,
            "shard_configure_phase_p99_seconds",
            "shardConfigurePhaseP99Seconds",
            "configure phase p99",
            _quantile(0.99, "bigfleet_shard_configure_phase_seconds", "le, pod", "max"),
            count="bigfleet_shard_configure_phase_seconds_count",
            cause="replacements",
            histogram="bigfleet_shard_configure_phase_seconds",
            held=True,
        ),
        _optional(
            slo,
            "bootstrap_success_ratio",
            "bootstrapSuccessRatio",
            "bootstraps that succeed",
            f"sum({grown(_BOOTSTRAPPED)}) / sum({grown(_BOOTSTRAPS)})",
            least=True,
            count=_BOOTSTRAPS,
            cause="replacements",
            held=True,
        ),
        _optional(
            slo,
            "operator_node_state_update_p99_seconds",
            "operatorNodeStateUpdateP99Seconds",
            "node state published p99",
            _quantile(0.99, "bigfleet_operator_node_state_update_duration_seconds"),
            count="bigfleet_operator_node_state_update_duration_seconds_count",
            cause="node states",
            histogram="bigfleet_operator_node_state_update_duration_seconds",
            held=True,
        ),
        *_shortfall_gates(slo),
        *_expectation_gates(slo),
        Gate(
            "endToEndPodBindP50Seconds",
            "Pod bind p50 (loose)",
            _quantile(0.5, "bigfleet_scaletest_pod_bind_latency_steady_seconds"),
            bound=slo.end_to_end_pod_bind_p50_seconds,
            count="bigfleet_scaletest_pod_bind_latency_steady_seconds_count",
            cause="rebinds",
            histogram="bigfleet_scaletest_pod_bind_latency_steady_seconds",
            skip="CapacityRequests without Pods are never bound (ADR-0017)" if load.mode == "cr" else "",
        ),
        Gate(
            "shardCycleDurationP99Seconds",
            "shard cycle p99",
            _quantile(0.99, "bigfleet_shard_cycle_duration_seconds", "le, pod", "max"),
            bound=slo.shard_cycle_duration_p99_seconds,
            count="bigfleet_shard_cycle_duration_seconds_count",
            cause="cycles",
            histogram="bigfleet_shard_cycle_duration_seconds",
        ),
        Gate(
            "operatorRollupP99Seconds",
            "roll-up p99",
            _quantile(0.99, "bigfleet_operator_rollup_duration_seconds"),
            bound=slo.operator_rollup_p99_seconds,
            count="bigfleet_operator_rollup_duration_seconds_count",
            cause="roll-ups",
            histogram="bigfleet_operator_rollup_duration_seconds",
        ),
        Gate(
            "operatorAckP99Seconds",
            "acknowledgement p99",
            _quantile(0.99, "bigfleet_operator_acknowledge_duration_seconds"),
            bound=slo.operator_ack_p99_seconds,
            count="bigfleet_operator_acknowledge_duration_seconds_count",
            cause="roll-ups",
            histogram="bigfleet_operator_acknowledge_duration_seconds",
        ),
        Gate(
            "coordinatorApplyErrorRate",
            "coordinator write errors",
            f"sum({grown(_REFUSED_WRITES)}) / sum({grown(_WRITES)})",
            bound=slo.coordinator_apply_error_rate,
            count=_WRITES,
            cause="reports",
        ),
        Gate(
            "operatorOutboxDropsPerSec",
            "operator outbox drops",
            "sum(rate(bigfleet_operator_outbox_dropped_total[{w}]))",
            bound=0,
        ),
    ]


# At the end, or on three scrapes in a row anywhere in the window.
_STANDING = f"({SHORTFALLS} > 0) or max_over_time(min_over_time({SHORTFALLS}[15s:5s])[{{w}}:5s])"


def _shortfall_gates(slo: Slo) -> Iterator[Gate]:
    """Demand covered by bound capacity (ADR-0045), or, where scarcity is the subject, short as it was meant to be."""
    if not slo.expect_standing_shortfall:
        yield Gate("shardShortfalls", "standing shortfalls", _STANDING, bound=0)
        return
    yield Gate("shardShortfalls", "shortfall, wanted here", SHORTFALLS, bound=1, least=True)
    if slo.shortfall_stability_max is not None:
        moved = f"abs(delta({SHORTFALLS}[{{w}}:15s]))"
        yield Gate("shardShortfallsDelta", "shortfall moves by", moved, bound=slo.shortfall_stability_max)
    if slo.shortfall_confined_below:
        others = f'sum(bigfleet_shard_shortfalls_by_priority{{priority_class!="{slo.shortfall_confined_below}"}})'
        yield Gate("shortfallAboveLowestClass", f"shortfall beyond {slo.shortfall_confined_below}", others, bound=0)


def _expectation_gates(slo: Slo) -> Iterator[Gate]:
    """What a profile is there to show."""
    if slo.expect_preemptions:
        preempts = 'sum(bigfleet_shard_actions_total{kind="Preempt"})'
        yield Gate("preemptActions", "preemptions, wanted here", preempts, bound=1, least=True)
    if slo.expect_cost_routing:
        tolerant, sensitive = slo.cost_routing_tolerant_bucket or "", slo.cost_routing_sensitive_bucket or ""
        right = f"{_held('Spot', tolerant)} + {_held('OnDemand', sensitive)}"
        wrong = f"{_held('Spot', sensitive)} + {_held('OnDemand', tolerant)}"
        yield Gate("costRoutingCorrect", "machines in the right tier", right, bound=1, least=True)
        yield Gate(
            "costRoutingMisrouted", "machines in the wrong tier", wrong, bound=slo.cost_routing_misrouted_max or 0
        )


def _held(capacity_type: str, bucket: str) -> str:
    labels = f'state="Configured",capacity_type="{capacity_type}",interruption_penalty_bucket="{bucket}"'
    return f"sum(bigfleet_shard_inventory_machines{{{labels}}})"


def _optional(slo: Slo, field: str, key: str, title: str, query: str, **rest: Any) -> Gate:
    """A bar that a profile may switch off; it is then shown beside its default."""
    bound = getattr(slo, field)
    return Gate(
        key, title, query, Slo.model_fields[field].default if bound is None else bound, off=bound is None, **rest
    )


RECLAIM_QUIET_SECONDS = 30
# Known at the end of the soak only, and not from Prometheus.
RESTARTS_KEY = "containerRestartsDuringSoak"


def reclaim_gate(plan: Plan) -> Gate:
    """Phase 3 only shrinks, so it must be inert at steady demand."""
    bound = plan.profile.slo.max_reclaim_actions_during_soak
    return Gate("reclaimActionsDuringSoak", "reclaims at steady demand", RECLAIMS, bound)


def all_gates(plan: Plan) -> list[Gate]:
    """Every gate that a run of this plan is judged by."""
    return [gate for gate in [*gates_for(plan), reclaim_gate(plan), restart_gate(plan)] if not gate.off]


def restart_gate(plan: Plan) -> Gate:
    """Whatever ended and came back during the soak: a recovery is good, but it is not a clean run.

    What the profile kills on purpose comes back once each.
    """
    kills = sum(action.kills for action in plan.profile.runner_actions)
    return Gate(RESTARTS_KEY, "containers that restarted", "restartCount of the run's pods", kills)


def _phase_p99(metric: str, phase: str, by: str = "le", outer: str = "") -> str:
    return _quantile(0.99, metric, by, outer).replace("_bucket[", f'_bucket{{phase="{phase}"}}[')


_STEADY_BIND = "bigfleet_scaletest_pod_bind_latency_steady_seconds"
_STEADY_BIND_MAX = "bigfleet_scaletest_pod_bind_latency_steady_max_seconds"
_UPCOMING_TO_NODE = "bigfleet_scaletest_node_creator_upcoming_to_node_latency_seconds"
_INVENTORY = "sum by (pod) (bigfleet_shard_inventory_machines)"

# By phase, as pictures; the gates and the figures below take them apart.
CYCLE_P99_BY_PHASE = _quantile(0.99, "bigfleet_shard_cycle_phase_duration_seconds", "le, pod, phase", "max by (phase) ")
NODE_STATE_P99_BY_PHASE = _quantile(0.99, "bigfleet_operator_node_state_update_duration_seconds", "le, phase")

# Written to summary.json for people, never judged (spec/harness.md §6.3). Its nodeToBound has no metric any more:
# kube-scheduler binds (ADR-0023), and a Pod does not say which Node it waited for.
INFORMATIONAL = {
    "shardShortfallsMax": f"max_over_time({SHORTFALLS}[{{w}}:5s])",
    "internalBindingLatencyP99Seconds": _quantile(0.99, _STEADY_BIND),
    # A load-driver that has bound nothing says 0, which is no latency (ADR-0017).
    "internalBindingLatencyMaxSeconds": f"max({_STEADY_BIND_MAX} and {_STEADY_BIND}_count > 0)",
    **{
        f"{key}P{rank}Seconds": _quantile(rank / 100, metric)
        for key, metric, ranks in (
            ("shardConfigurePhase", "bigfleet_shard_configure_phase_seconds", (50,)),
            ("shardCreatePhase", "bigfleet_shard_create_phase_seconds", (99, 50)),
            ("shardProvisioningLatency", "bigfleet_shard_provisioning_latency_seconds", (99, 50)),
            ("shardRequestBootstrap", "bigfleet_shard_request_bootstrap_seconds", (99, 50)),
            ("shardDrainPhase", "bigfleet_shard_drain_phase_seconds", (99, 50)),
            ("upcomingToNode", _UPCOMING_TO_NODE, (99, 50)),
        )
        for rank in ranks
    },
    **{
        f"operatorRollup{phase.capitalize()}P99Seconds": _phase_p99(
            "bigfleet_operator_rollup_phase_duration_seconds", phase
        )
        for phase in ("list", "build", "enqueue")
    },
    **{
        f"shardPhase{phase.removeprefix('phase').capitalize()}P99Seconds": _phase_p99(
            "bigfleet_shard_cycle_phase_duration_seconds", phase, "le, pod", "max"
        )
        for phase in ("reconcile", "phase1", "phase2", "phase3", "execute")
    },
    "coordinatorApplyOpsPerSec": "sum(rate(bigfleet_coordinator_apply_total[{w}]))",
    "coordinatorPendingMax": "max(bigfleet_coordinator_pending_instructions)",
    "coordinatorTermChanges15m": "max(changes(bigfleet_coordinator_raft_term[15m]))",
    "loadgenPodsCreatedPerSec": "sum(rate(scaletest_loadgen_cr_created_total[{w}]))",
    "loadgenPodsBoundPerSec": f"sum(rate({_STEADY_BIND}_count[{{w}}]))",
    "shardInventoryMinMaxRatio": f"min({_INVENTORY}) / max({_INVENTORY})",
    "machinesLost": MACHINES_LOST,
    "provisions": 'sum(bigfleet_shard_actions_total{kind="Provision"})',
    "bootstraps": 'sum(bigfleet_shard_actions_total{kind="Bootstrap"})',
    "podsBound": PODS_BOUND,
}

# Looked at once, early in a long soak, over a short window: a run that fails by then only burns money.
FAIL_FAST_KEYS = ("shardConfigurePhaseP99Seconds", "shardCycleDurationP99Seconds")
FAIL_FAST_AFTER_SECONDS, FAIL_FAST_WINDOW_SECONDS = 600, 120
