"""Figures by name: what settling, the live view and the dashboard look at, and what is shown but never judged.

`{w}` is the window in seconds. No query turns absence into a value: a missing series, NaN and infinity
are no data.
"""

DEMAND_ALIVE = "sum(scaletest_loadgen_cr_active)"
DEMAND_BY_CLUSTER = "sum by (pod) (scaletest_loadgen_cr_active)"
SHORTFALLS = "sum(bigfleet_shard_shortfalls)"
RECLAIMS = 'bigfleet_shard_actions_total{kind="Reclaim"}'
PODS_BOUND = "sum(bigfleet_scaletest_node_creator_bound_pods)"
MACHINES_LOST = "sum(bigfleet_provider_losses_total)"
MACHINES_BY_STATE = "sum by (state) (bigfleet_shard_inventory_machines)"
MACHINES_HELD = 'sum(bigfleet_provider_ledger_bound_machines{edge="highest"})'
PRICE_HELD = 'sum(bigfleet_provider_ledger_bound_price_per_hour{edge="highest"})'
PRICE_IDLE = "sum(bigfleet_provider_ledger_idle_price_per_hour)"


def quantile(rank: float, metric: str, by: str = "le", outer: str = "") -> str:
    """Of what was observed in the window, and nothing else.

    Not by rate(): it extrapolates buckets that began at zero otherwise than those that did not. Of 50 observations, one
    from before the window then counts as the slowest one in it (ADR-27).
    """
    inner = f"histogram_quantile({rank}, sum by ({by}) ({grown(f'{metric}_bucket')}))"
    return f"{outer}({inner})" if outer else inner


def grown(counter: str) -> str:
    """What a counter has counted in the window."""
    return f"max_over_time({counter}[{{w}}]) - min_over_time({counter}[{{w}}])"


def by_cluster(selector: str) -> str:
    """A figure of a kwok-cluster pod, under the name of its cluster."""
    return f'label_replace({selector}, "cluster", "$1", "pod", "(.*)")'


def _phase_p99(metric: str, phase: str, by: str = "le", outer: str = "") -> str:
    return quantile(0.99, metric, by, outer).replace("_bucket[", f'_bucket{{phase="{phase}"}}[')


_STEADY_BIND = "bigfleet_scaletest_pod_bind_latency_steady_seconds"
_STEADY_BIND_MAX = "bigfleet_scaletest_pod_bind_latency_steady_max_seconds"
_UPCOMING_TO_NODE = "bigfleet_scaletest_node_creator_upcoming_to_node_latency_seconds"
_INVENTORY = "sum by (pod) (bigfleet_shard_inventory_machines)"

# By phase, as pictures; the gates and the figures below take them apart.
CYCLE_P99_BY_PHASE = quantile(0.99, "bigfleet_shard_cycle_phase_duration_seconds", "le, pod, phase", "max by (phase) ")
NODE_STATE_P99_BY_PHASE = quantile(0.99, "bigfleet_operator_node_state_update_duration_seconds", "le, phase")

# Written to summary.json for people, never judged (docs/reference/harness.md#informational-figures). Upstream has
# nodeToBound too; here kube-scheduler binds (BF-0023), and a Pod does not say which Node it waited for.
INFORMATIONAL = {
    "shardShortfallsMax": f"max_over_time({SHORTFALLS}[{{w}}:5s])",
    "internalBindingLatencyP99Seconds": quantile(0.99, _STEADY_BIND),
    # A load-driver that has bound nothing says 0, which is no latency (BF-0017).
    "internalBindingLatencyMaxSeconds": f"max({_STEADY_BIND_MAX} and {_STEADY_BIND}_count > 0)",
    **{
        f"{key}P{rank}Seconds": quantile(rank / 100, metric)
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
    # What the fleet cost by the provider's ledger: machines in service, over the window.
    "machinesHeldMean": f"avg_over_time({MACHINES_HELD}[{{w}}:5s])",
    "idlePricePerHourMean": f"avg_over_time({PRICE_IDLE}[{{w}}:5s])",
    "pricePerHourMean": f"avg_over_time({PRICE_HELD}[{{w}}:5s])",
}
