"""The gates on BigFleet's own figures: each covers one hop that BigFleet owns (BF-0054)."""

from collections.abc import Iterator
from typing import Any

from scaletest.judge.gates.figures import RECLAIMS, SHORTFALLS, grown, quantile
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Noted, Promql, QuietReclaims
from scaletest.judge.gates.suspects import CONFIGURERS, SLOW_LIST, SUPPLIERS
from scaletest.judge.gates.witnesses.queries import WAITS_FOR_A_CORE
from scaletest.model.documents.profile import Slo
from scaletest.model.plan import Plan

# Of the Pods asked for, so many must be alive as demand throughout the soak.
LOAD_FRACTION = 0.999
RECLAIM_QUIET_SECONDS = 30
# Known at the end of the soak only, and not from Prometheus.
RESTARTS_KEY = "containerRestartsDuringSoak"

# A scrape that was missed leaves a hole of three intervals at most.
_ALIVE = "sum(last_over_time(scaletest_loadgen_cr_active[15s]))"
# A Pod that was deleted a moment ago has no successor yet, and that is no fault of BigFleet.
_JUST_DELETED = (
    "sum(last_over_time(scaletest_loadgen_cr_deleted_total[15s]))"
    " - sum(last_over_time(scaletest_loadgen_cr_deleted_total[15s] offset 5s))"
)
_BOOTSTRAPS = 'bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap"}'
_BOOTSTRAPPED = 'bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap",outcome="success"}'
_WRITES = "bigfleet_coordinator_apply_total"
_REFUSED_WRITES = 'bigfleet_coordinator_apply_total{outcome=~"error|fsm_error"}'
# At the end, or on three scrapes in a row anywhere in the window.
_STANDING = f"({SHORTFALLS} > 0) or max_over_time(min_over_time({SHORTFALLS}[15s:5s])[{{w}}:5s])"


def hop_gates(plan: Plan) -> Iterator[Gate]:
    """In upstream's order (docs/reference/harness.md#gates)."""
    slo, load = plan.profile.slo, plan.profile.load_profile
    yield Gate(
        "loadgenPodsActive",
        "demand alive throughout",
        Promql(f"min_over_time(({_ALIVE} + {_JUST_DELETED})[{{w}}:5s])"),
        # Of what is asked for in the window: a shed or a step moves the target.
        bar=int(LOAD_FRACTION * plan.pods * plan.lowest_level),
        unit="requests",
        component="pod-controller",
        meaning="Pods that the load asked for have no CapacityRequest.",
        claim="CapacityRequests alive in the clusters",
        witness="the Pods that were drawn",
        strain="successors of deleted Pods come late",
        least=True,
    )
    yield Gate(
        "shardsReportingCycle",
        "shards that report cycles",
        # Cycles that go on, not a count that a hung shard still shows; 0 is a value, a missing series is not.
        Promql(
            'sum(sum by (pod) (rate(bigfleet_shard_cycle_duration_seconds_count{component="shard"}[{w}])) > bool 0)'
        ),
        bar=plan.geometry.shards,
        unit="shards",
        component="shard",
        meaning="A shard decided nothing in the whole window.",
        least=True,
    )
    yield _optional(
        slo,
        "shard_configure_phase_p99_seconds",
        "shardConfigurePhaseP99Seconds",
        "configure phase p99",
        quantile(0.99, "bigfleet_shard_configure_phase_seconds", "le, pod", "max"),
        unit="s",
        component="shard",
        suspects=CONFIGURERS,
        meaning="Machines take too long from Idle to Configured.",
        strain=WAITS_FOR_A_CORE,
        count="bigfleet_shard_configure_phase_seconds_count",
        cause="replacements",
        histogram="bigfleet_shard_configure_phase_seconds",
        held=True,
    )
    yield _optional(
        slo,
        "bootstrap_success_ratio",
        "bootstrapSuccessRatio",
        "bootstraps that succeed",
        _success_of_the_worst_shard(slo.min_observations),
        unit="share",
        component="shard",
        suspects=SUPPLIERS,
        meaning="Bootstraps end otherwise than with a Configured machine.",
        strain="a time-out may end a Bootstrap that would have succeeded",
        least=True,
        count=_BOOTSTRAPS,
        cause="replacements",
        held=True,
    )
    yield _optional(
        slo,
        "operator_node_state_update_p99_seconds",
        "operatorNodeStateUpdateP99Seconds",
        "node state published p99",
        quantile(0.99, "bigfleet_operator_node_state_update_duration_seconds"),
        unit="s",
        component="operator",
        meaning="UpcomingNodes are written too long after the shard's word.",
        strain=WAITS_FOR_A_CORE,
        count="bigfleet_operator_node_state_update_duration_seconds_count",
        cause="node states",
        histogram="bigfleet_operator_node_state_update_duration_seconds",
        held=True,
    )
    yield from _shortfall_gates(slo)
    yield from _expectation_gates(slo)
    yield Gate(
        "endToEndPodBindP50Seconds",
        "Pod bind p50 (loose)",
        Promql(quantile(0.5, "bigfleet_scaletest_pod_bind_latency_steady_seconds")),
        bar=slo.end_to_end_pod_bind_p50_seconds,
        unit="s",
        component="shard",
        meaning="The usual Pod waits too long for its node: a loose floor (BF-0054).",
        strain="kube-scheduler is slow",
        count="bigfleet_scaletest_pod_bind_latency_steady_seconds_count",
        cause="rebinds",
        histogram="bigfleet_scaletest_pod_bind_latency_steady_seconds",
        skip="CapacityRequests without Pods are never bound (BF-0017)" if load.mode == "cr" else "",
    )
    yield _latency(
        "shardCycleDurationP99Seconds",
        "shard cycle p99",
        "bigfleet_shard_cycle_duration_seconds",
        slo.shard_cycle_duration_p99_seconds,
        component="shard",
        suspects=(SLOW_LIST,),
        meaning="A decision cycle takes too long.",
        cause="cycles",
        by="le, pod",
        outer="max",
    )
    yield _latency(
        "operatorRollupP99Seconds",
        "roll-up p99",
        "bigfleet_operator_rollup_duration_seconds",
        slo.operator_rollup_p99_seconds,
        component="operator",
        meaning="A roll-up takes too long to make.",
        cause="roll-ups",
    )
    yield _latency(
        "operatorAckP99Seconds",
        "acknowledgement p99",
        "bigfleet_operator_acknowledge_duration_seconds",
        slo.operator_ack_p99_seconds,
        component="operator",
        meaning="A batch of CapacityRequests takes too long to be marked Acknowledged.",
        cause="roll-ups",
    )
    yield Gate(
        "coordinatorApplyErrorRate",
        "coordinator write errors",
        Promql(f"sum({grown(_REFUSED_WRITES)}) / sum({grown(_WRITES)})"),
        bar=slo.coordinator_apply_error_rate,
        unit="share",
        component="coordinator",
        meaning="Writes to the replicated state fail.",
        strain="an election in mid-write",
        count=_WRITES,
        cause="reports",
    )
    yield Gate(
        "operatorOutboxDropsPerSec",
        "operator outbox drops",
        Promql("sum(rate(bigfleet_operator_outbox_dropped_total[{w}]))"),
        bar=0,
        unit="1/s",
        component="operator",
        meaning="An operator dropped messages to its shard.",
        strain="a shard that waits for a core reads late",
    )


def reclaim_gate(plan: Plan) -> Gate:
    """Phase 3 only shrinks, so it must be inert at steady demand."""
    return Gate(
        "reclaimActionsDuringSoak",
        "reclaims at steady demand",
        QuietReclaims(RECLAIMS),
        plan.profile.slo.max_reclaim_actions_during_soak,
        unit="machines",
        component="shard",
        meaning="Machines are taken away although the demand has not fallen.",
        window="steady",
    )


def restart_gate(plan: Plan) -> Gate:
    """What of BigFleet ended and came back during the soak: a recovery is good, but it is not a clean run.

    What the profile kills on purpose comes back once each.
    """
    kills = sum(action.kills for action in plan.profile.runner_actions)
    return Gate(
        RESTARTS_KEY,
        "restarts of BigFleet",
        Noted("uid, restartCount and exit codes of the run's pods"),
        kills,
        unit="times",
        component="BigFleet",
        meaning="A process of BigFleet ended during the soak, or its pod was replaced.",
    )


def _success_of_the_worst_shard(least: int) -> str:
    """Of all shards together, where none has enough Bootstraps of its own to be judged by."""
    succeeded, all_of_them = grown(_BOOTSTRAPPED), grown(_BOOTSTRAPS)
    by_shard = f"sum by (pod) ({succeeded}) / (sum by (pod) ({all_of_them}) >= {least})"
    return f"min({by_shard}) or sum({succeeded}) / sum({all_of_them})"


def _latency(
    key: str,
    title: str,
    histogram: str,
    bar: float,
    *,
    by: str = "le",
    outer: str = "",
    **rest: Any,
) -> Gate:
    return Gate(
        key,
        title,
        Promql(quantile(0.99, histogram, by, outer)),
        bar=bar,
        unit="s",
        strain=WAITS_FOR_A_CORE,
        count=f"{histogram}_count",
        histogram=histogram,
        **rest,
    )


def _shortfall_gates(slo: Slo) -> Iterator[Gate]:
    """Demand covered by bound capacity (BF-0045), or, where scarcity is the subject, short as it was meant to be."""
    if not slo.expect_standing_shortfall:
        yield Gate(
            "shardShortfalls",
            "standing shortfalls",
            Promql(_STANDING),
            bar=0,
            unit="profiles",
            component="shard",
            meaning="The shard says that it cannot meet some demand.",
        )
        return
    yield Gate(
        "shardShortfalls",
        "shortfall, wanted here",
        Promql(SHORTFALLS),
        bar=1,
        unit="profiles",
        component="shard",
        meaning="Demand exceeds supply on purpose, and the shard does not say so.",
        least=True,
    )
    if slo.shortfall_stability_max is not None:
        yield Gate(
            "shardShortfallsDelta",
            "shortfall moves by",
            Promql(f"abs(delta({SHORTFALLS}[{{w}}:15s]))"),
            bar=slo.shortfall_stability_max,
            unit="profiles",
            component="shard",
            meaning="The shortfall moves although supply and demand do not.",
        )
    if slo.shortfall_confined_below:
        others = f'sum(bigfleet_shard_shortfalls_by_priority{{priority_class!="{slo.shortfall_confined_below}"}})'
        yield Gate(
            "shortfallAboveLowestClass",
            f"shortfall beyond {slo.shortfall_confined_below}",
            Promql(others),
            bar=0,
            unit="profiles",
            component="shard",
            meaning="A higher priority is short while a lower one is served.",
        )


def _expectation_gates(slo: Slo) -> Iterator[Gate]:
    """What a profile is there to show."""
    if slo.expect_preemptions:
        yield Gate(
            "preemptActions",
            "preemptions, wanted here",
            Promql('sum(bigfleet_shard_actions_total{kind="Preempt"})'),
            bar=1,
            unit="machines",
            component="shard",
            meaning="No machine was taken from a lower priority for a higher one.",
            least=True,
        )
    if slo.expect_cost_routing:
        tolerant, sensitive = slo.cost_routing_tolerant_bucket or "", slo.cost_routing_sensitive_bucket or ""
        yield Gate(
            "costRoutingCorrect",
            "machines in the right tier",
            Promql(f"{_held('Spot', tolerant)} + {_held('OnDemand', sensitive)}"),
            bar=1,
            unit="machines",
            component="shard",
            meaning="No machine of the two priced tiers serves the demand that it should.",
            least=True,
        )
        yield Gate(
            "costRoutingMisrouted",
            "machines in the wrong tier",
            Promql(f"{_held('Spot', sensitive)} + {_held('OnDemand', tolerant)}"),
            bar=slo.cost_routing_misrouted_max or 0,
            unit="machines",
            component="shard",
            meaning="Sensitive workloads stand on Spot, or tolerant ones on OnDemand.",
        )


def _held(capacity_type: str, bucket: str) -> str:
    labels = f'state="Configured",capacity_type="{capacity_type}",interruption_penalty_bucket="{bucket}"'
    return f"sum(bigfleet_shard_inventory_machines{{{labels}}})"


def _optional(slo: Slo, field: str, key: str, title: str, query: str, **rest: Any) -> Gate:
    """A bar that a profile may switch off; it is then shown beside its default."""
    bar = getattr(slo, field)
    return Gate(
        key,
        title,
        Promql(query),
        Slo.model_fields[field].default if bar is None else bar,
        off=bar is None,
        **rest,
    )
