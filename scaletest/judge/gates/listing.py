"""The list of gates that a run of a plan is judged by: BigFleet's own figures hop by hop, then its witnesses."""

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.hop_gates import RECLAIM_QUIET_SECONDS, RESTARTS_KEY, hop_gates, reclaim_gate, restart_gate
from scaletest.judge.gates.measures import AtEnd, Promql
from scaletest.judge.gates.witnesses import witness_gates
from scaletest.model.plan import Plan

__all__ = ["RECLAIM_QUIET_SECONDS", "RESTARTS_KEY", "all_gates", "gates_for", "plain_gates", "reclaim_gate"]

# Looked at once, early in a long soak, over a short window: a run that fails by then only burns money.
FAIL_FAST_KEYS = ("shardConfigurePhaseP99Seconds", "shardCycleDurationP99Seconds")
FAIL_FAST_AFTER_SECONDS, FAIL_FAST_WINDOW_SECONDS = 600, 120


def gates_for(plan: Plan) -> list[Gate]:
    """Every gate, those that the profile switched off too."""
    return [*hop_gates(plan), reclaim_gate(plan), restart_gate(plan), *witness_gates(plan)]


def all_gates(plan: Plan) -> list[Gate]:
    """Every gate that a run of this plan is judged by."""
    return [gate for gate in gates_for(plan) if not gate.off]


def plain_gates(plan: Plan) -> list[Gate]:
    """Those whose value is one query: they can be looked at while the soak goes on, and drawn."""
    gates = gates_for(plan)
    return [gate for gate in gates if isinstance(gate.measure, Promql) and not isinstance(gate.measure, AtEnd)]
