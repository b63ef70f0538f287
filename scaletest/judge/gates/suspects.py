"""Programs between a claim and its witness, which may be to blame instead when a gate fails."""

from scaletest.judge.gates.figures import grown
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

# Codes by which a provider says that it has failed itself, not that it was asked for the wrong thing.
_BROKEN = f'{_CALLS}{{code=~"INTERNAL|UNKNOWN|UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|DATA_LOSS"}}'
REFUSES_BY_ITSELF = Suspect("provider", f"sum(max_over_time({_BROKEN}[{{w}}]))", REFUSED_CALLS)

# On a machine's way from decision to Node, those that can stop it.
SUPPLIERS = (
    Suspect("operator", "max_over_time(bigfleet_shard_cluster_unanswered_seconds[{w}])", BLOB_SECONDS),
    Suspect("provider", "max_over_time(bigfleet_provider_ledger_oldest_seconds[{w}])", CALL_SECONDS),
    Suspect("provider", f"sum({_REFUSED})", 1),
)
# A machine is Configured when its Node is Ready: the operator must have announced it, and the provider be done.
CONFIGURERS = (
    SUPPLIERS[0],
    Suspect("operator", "max_over_time(bigfleet_provider_ledger_waiting_for_node_oldest_seconds[{w}])", BLOB_SECONDS),
    Suspect("provider", 'max_over_time(bigfleet_provider_ledger_oldest_seconds{call="Configure"}[{w}])', BLOB_SECONDS),
)
# The shard cannot know of machines whose Configure the provider has not told to be done.
TOLD_LATE = CONFIGURERS[2]
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
