"""Where time or success is lost when everything flows.

Rows 5 to 8 of docs/reference/harness.md#reading-a-bad-run, as questions.
"""

import asyncio
from collections.abc import Iterable, Mapping

from scaletest.errors import PrometheusUnreachable
from scaletest.judge.gates.figures import INFORMATIONAL
from scaletest.judge.gates.gate import Gate
from scaletest.judge.prometheus import Prometheus
from scaletest.model.counting import counted

_WINDOW = "120s"
OUTCOMES = {
    "no_session": "the stream to the operator was gone",
    "transition_raced_to_idle": "the provider rolled the machine back",
    "transition_error": "the machine failed on its way",
    "blob_error": "no bootstrap blob came back",
    "provider_error": "the provider refused or failed",
    "ctx_canceled": "the call was not answered in time",
    "fenced": "another shard has taken over: this one is a zombie, do not retry",
    "stale_state": "the machine was not in the state that the action wanted",
    "inventory_miss": "the machine was gone",
    "missing_profile": "its need was no longer known",
    "quota": "the quota of its provider and region was used up",
    "other": "the shard's log says why",
}
# A p99 up to this is not slow enough to be the cause.
_SLOW_SECONDS = 5.0
_FAILED = 'sum by (outcome) (increase(bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap"}[120s])) > 0'
_CONFLICTS = 'sum(increase(bigfleet_operator_upcoming_node_writes_total{outcome="conflict"}[{w}]))'
_GATES = {"configure": "shardConfigurePhaseP99Seconds", "node state": "operatorNodeStateUpdateP99Seconds"}
_QUERIES = {
    "request": INFORMATIONAL["shardRequestBootstrapP99Seconds"],
    "conflicts": _CONFLICTS,
    "upcoming": INFORMATIONAL["upcomingToNodeP99Seconds"],
}


def attribution(outcomes: Mapping[str, float], figures: Mapping[str, float | None]) -> str:
    """The likeliest cause in one sentence; empty if nothing stands out."""
    bad = {outcome: count for outcome, count in outcomes.items() if outcome != "success" and count >= 1}
    if bad:
        worst = max(bad, key=lambda outcome: bad[outcome])
        meaning = f" ({OUTCOMES[worst]})" if worst in OUTCOMES else ""
        failed = counted(round(sum(bad.values())), "Bootstrap")
        return f"{failed} of the last two minutes failed, most of them as {worst}{meaning}"
    configure, request = figures.get("configure") or 0.0, figures.get("request") or 0.0
    state = figures.get("node state") or 0.0
    # A machine is configured only when its node is there, and no node is made before it is announced.
    if configure > _SLOW_SECONDS and state <= max(_SLOW_SECONDS, configure / 2):
        part = "the operator's answer to BootstrapRequest" if request > configure / 2 else "the provider and the node"
        return f"machines take {configure:.1f} s to configure (p99), mostly {part}"
    if state > _SLOW_SECONDS:
        conflicts = figures.get("conflicts") or 0.0
        why = f", with {counted(round(conflicts), 'write conflict')}: " if conflicts else ": the operator, or "
        return f"UpcomingNodes are published {state:.1f} s late (p99){why}the apiserver's writes"
    upcoming = figures.get("upcoming") or 0.0
    if upcoming > _SLOW_SECONDS:
        return f"Nodes are made {upcoming:.1f} s after their UpcomingNode (p99): the node-creator's queue"
    return ""


async def attribute(prometheus: Prometheus, gates: Iterable[Gate]) -> str:
    """Ask, and answer in one sentence."""
    of_gates = {gate.key: gate.query for gate in gates}
    queries = _QUERIES | {name: of_gates[key] for name, key in _GATES.items() if key in of_gates}
    try:
        outcomes, values = await asyncio.gather(
            prometheus.samples(_FAILED),
            asyncio.gather(*(prometheus.value(query.replace("{w}", _WINDOW)) for query in queries.values())),
        )
    except PrometheusUnreachable as error:
        return str(error)
    counted = {sample.labels.get("outcome", "?"): sample.value for sample in outcomes}
    return attribution(counted, dict(zip(queries, values, strict=True)))
