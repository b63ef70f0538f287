"""Programs between a claim and its witness, which may be to blame instead when a gate fails."""

from scaletest.judge.gates.figures import by_cluster, grown, quantile
from scaletest.judge.gates.gate import Suspect

_CALLS = "bigfleet_provider_ledger_calls_total"
_CONFIGURED = grown(f'{_CALLS}{{call="Configure",code="OK"}}')
_ANNOUNCED = grown("bigfleet_operator_machines_announced_total")
_RECLAIMS = grown('bigfleet_shard_actions_total{kind="Reclaim"}')
_REFUSED = grown('bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap",outcome="provider_error"}')
_ATTEMPTS = "sum by (pod) (bigfleet_shard_reports_total)"

# How long an operator may take to answer a request for a bootstrap blob.
BLOB_SECONDS = 15
# How long the provider may take to end a call that it has accepted.
CALL_SECONDS = 60
# Calls that the provider may refuse in a run: a machine can be struck while a call for it is on its way.
REFUSED_CALLS = 5
# What such a call is called among the rules of the provider's ledger.
REFUSED = "call_refused"

# Codes by which a provider says that it has failed itself, not that it was asked for the wrong thing.
_BROKEN = f'{_CALLS}{{code=~"INTERNAL|UNKNOWN|UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|DATA_LOSS"}}'
REFUSES_BY_ITSELF = Suspect("provider", f"sum(max_over_time({_BROKEN}[{{w}}]))", REFUSED_CALLS)

# How long the provider may take for a page of List. In the soak it tells what has changed, which takes milliseconds.
LIST_SECONDS = 2

# A shard learns nothing from its provider, and decides nothing, until the provider has answered.
SLOW_LIST = Suspect("provider", quantile(0.99, "bigfleet_provider_ledger_list_seconds"), LIST_SECONDS)
# On a machine's way from decision to Node, those that can stop it.
SUPPLIERS = (
    Suspect("operator", "max_over_time(bigfleet_shard_cluster_unanswered_seconds[{w}])", BLOB_SECONDS),
    Suspect("provider", "max_over_time(bigfleet_provider_ledger_oldest_seconds[{w}])", CALL_SECONDS),
    Suspect("provider", f"sum({_REFUSED})", 1),
    SLOW_LIST,
)
# How long after its question for a blob a shard may take to tell the operator of the machine.
TOLD_SECONDS = 10
TOLD_TOO_LATE = Suspect("shard", "max_over_time(bigfleet_operator_untold_oldest_seconds[{w}])", TOLD_SECONDS)
# A machine is Configured when its Node is Ready: the operator must have announced it, and the provider be done.
CONFIGURERS = (
    SUPPLIERS[0],
    TOLD_TOO_LATE,
    Suspect("operator", "max_over_time(bigfleet_provider_ledger_waiting_for_node_oldest_seconds[{w}])", BLOB_SECONDS),
    Suspect("provider", 'max_over_time(bigfleet_provider_ledger_oldest_seconds{call="Configure"}[{w}])', BLOB_SECONDS),
)
# The shard cannot know of machines whose Configure the provider has not told to be done.
TOLD_LATE = CONFIGURERS[-1]
# Nor of those that its walks through everything are not told of.
LEFT_OUT_OF_LIST = "left_out_of_list"
NEVER_LISTED = Suspect(
    "provider", f'sum(max_over_time(bigfleet_provider_ledger_violations_total{{rule="{LEFT_OUT_OF_LIST}"}}[{{w}}]))', 0
)
# The operator cannot write down what it was never told; a few are under way when the soak begins and when it ends.
NEVER_ANNOUNCED = Suspect("shard", f"sum({_CONFIGURED}) - sum({_ANNOUNCED})", 5)
# A report that no shard sent: the count of its attempts stood still for four scrapes.
NEVER_SENT = Suspect("shard", f"max_over_time((changes({_ATTEMPTS}[20s:5s]) == bool 0)[{{w}}:5s])", 0)
# The shard waits for the operator's word before it gives a machine up.
NOT_CARRIED_OUT = Suspect("operator", f"sum({_RECLAIMS})", 0)
# The operator cannot know of losses that the shard has not noticed.
_HELD = "sum by (cluster) (bigfleet_shard_cluster_machines)"
_IN_SERVICE = 'sum by (cluster) (bigfleet_provider_ledger_bound_machines{edge="highest"})'
NEVER_NOTICED = Suspect("shard", f"max_over_time(min_over_time(({_HELD} - {_IN_SERVICE})[30s:5s])[{{w}}:5s])", 0)
# A machine boots for as long as node-creator takes to make its Node. A shard by which machines are Configured sooner
# than that calls them so before they have joined.
_BOOT = "bigfleet_scaletest_node_creator_upcoming_to_node_latency_seconds"
_CONFIGURE = "bigfleet_shard_configure_phase_seconds"


def _mean(histogram: str) -> str:
    return f"(sum({grown(f'{histogram}_sum')}) / sum({grown(f'{histogram}_count')}))"


SAID_TOO_EARLY = Suspect("shard", f"{_mean(_BOOT)} - {_mean(_CONFIGURE)}", 0)


# Needs that the engine holds wrongly are the pod-controller's if the requests were wrong before, and the shard's if,
# most of the time, the operator of that cluster had sent what the draw says.
ASKED_WRONGLY = Suspect("pod-controller", "scaletest_witness_requests_wrong_total", 0)
_SENT = "max by (pod) (bigfleet_operator_sent_needs_checksum)"
_DRAWN = "max by (pod) (scaletest_witness_needs_checksum)"
_NEEDS_WRONG = "max by (pod) (scaletest_witness_needs_wrong) > 0"
SENT_RIGHTLY = Suspect("shard", f"avg_over_time(({_SENT} == bool {_DRAWN} and on (pod) {_NEEDS_WRONG})[{{w}}:5s])", 0.5)
# The operator sees how each stream ended. One that its shard ends without a complaint is not the operator's doing.
_BY_SHARD, _BY_OPERATOR = (
    grown(f'bigfleet_operator_sessions_ended_total{{by="{side}"}}') for side in ("shard", "operator")
)
HUNG_UP = Suspect("shard", f"sum({_BY_SHARD}) - sum({_BY_OPERATOR})", 0)
# The operator does as it is told: of the Nodes that vanish, the shard has called away at least half, although it called
# their machines Configured, neither draining nor lost.
_CALLED_AWAY = grown("bigfleet_operator_removed_in_service_total")
_VANISHED = grown('bigfleet_provider_ledger_violations_total{rule="node_vanished"}')
CALLED_AWAY = Suspect("shard", f"sum({_CALLED_AWAY}) - 0.5 * sum({_VANISHED})", 0)
# More machines of a cluster were configured than blobs were asked for: some blobs were made for another machine. A
# tenth and a few may be asked for before the soak begins, or by a call that is repeated.
_ASKED_FOR = by_cluster(grown("bigfleet_operator_blob_requests_total"))
_CONFIGURES = grown("bigfleet_provider_ledger_configures_total")
BLOB_USED_AGAIN = Suspect("shard", f"0.9 * sum by (cluster) ({_CONFIGURES}) - sum by (cluster) ({_ASKED_FOR})", 3)
# The operator cannot empty a Node that it was told another name of, or that it was not asked to empty: fewer than half
# of the Drains were asked of an operator, by the name of a machine or Node that it knows.
MISNAMED = Suspect("shard", "sum(max_over_time(bigfleet_scaletest_node_creator_misnamed_nodes_total[{w}]))", 0)
_DRAINED = grown(f'{_CALLS}{{call="Drain",code="OK"}}')
_ASKED_TO_DRAIN = grown("bigfleet_operator_drains_total")
NEVER_ASKED = Suspect("shard", f"0.5 * sum({_DRAINED}) - sum({_ASKED_TO_DRAIN})", 0)
# The operator wrote down what it was told, and it is not what the provider's machines are.
_MISMATCHES = "sum(max_over_time(bigfleet_scaletest_node_creator_shape_mismatches_total[{w}]))"
_NOT_AS_TOLD = "sum(max_over_time(bigfleet_operator_records_not_as_told_total[{w}]))"
TOLD_WRONGLY = Suspect("shard", f"{_MISMATCHES} * ({_NOT_AS_TOLD} == bool 0)", 0)
_INCOMPLETE = "sum(max_over_time(bigfleet_scaletest_node_creator_incomplete_records_total[{w}]))"
TOLD_INCOMPLETELY = Suspect("shard", f"{_INCOMPLETE} * ({_NOT_AS_TOLD} == bool 0)", 0)
# Drains that the provider accepted and told to be done, and that its hosts know nothing of.
_CARRIED_OUT = grown("bigfleet_provider_ledger_drains_carried_out_total")
DRAINS_NOTHING = Suspect("provider", f"0.5 * sum({_DRAINED}) - sum({_CARRIED_OUT})", 0)
