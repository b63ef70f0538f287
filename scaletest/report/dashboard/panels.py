"""The Grafana dashboard `bigfleet-scaletest`: every gate against its bar, then what lies behind them.

Generated from the gate list, the informational figures and the hops, so that it shows what a run is judged by.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scaletest.judge.gates.figures import (
    CYCLE_P99_BY_PHASE,
    DEMAND_ALIVE,
    INFORMATIONAL,
    MACHINES_BY_STATE,
    NODE_STATE_P99_BY_PHASE,
    RECLAIMS,
    grown,
)
from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.listing import plain_gates, reclaim_gate
from scaletest.judge.gates.measures import WorstMember
from scaletest.judge.hops import HOPS
from scaletest.judge.selfcheck.strain import LAG, MUTATING
from scaletest.model.json_types import Json
from scaletest.model.plan import Plan
from scaletest.report.dashboard.grafana import (
    DashboardJson,
    DatasourceJson,
    FieldsJson,
    GridJson,
    Kind,
    PanelJson,
    StepJson,
    TargetJson,
)

UID = "bigfleet-scaletest"
_DATASOURCE: DatasourceJson = {"type": "prometheus", "uid": "prometheus"}
_WIDTH = 24
# Where upstream's dashboard had a panel for the same thing, its number is kept (docs/reference/harness.md#dashboard).
_STAT_IDS = {
    "endToEndPodBindP50Seconds": 101,
    "shardCycleDurationP99Seconds": 102,
    "operatorRollupP99Seconds": 103,
    "operatorAckP99Seconds": 104,
    "loadgenPodsActive": 105,
    "shardsReportingCycle": 106,
    "coordinatorApplyErrorRate": 107,
    "operatorOutboxDropsPerSec": 108,
    "shardShortfalls": 3,
}
_SERIES_IDS = {
    "shardCycleDurationP99Seconds": 5,
    "shardsReportingCycle": 12,
    "operatorRollupP99Seconds": 7,
    "operatorAckP99Seconds": 8,
}
_CONFIGURE = "shardConfigurePhaseP99Seconds"
_FIRST_NEW_STAT, _FIRST_NEW_SERIES, _FIRST_ROW = 111, 211, 1000


@dataclass(frozen=True)
class Panel:
    """One picture: its queries by legend, and the bar that they are held against."""

    number: int
    title: str
    queries: dict[str, str]
    kind: Kind = "timeseries"
    unit: str = "short"
    bar: float | None = None
    least: bool = False
    description: str = ""
    # Numbers that mean a word.
    words: dict[int, str] = field(default_factory=dict)


def dashboard(plan: Plan) -> DashboardJson:
    """With the bars of this plan's profile, over the window of its gates."""
    window = f"{plan.window_seconds}s"
    panels: list[PanelJson] = []
    top = 0
    for number, (title, wide, high, row) in enumerate(_rows(plan)):
        panels.append(
            {
                "id": _FIRST_ROW + number,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
                "panels": [],
            }
        )
        top += 1
        per_line = _WIDTH // wide
        for place, panel in enumerate(row):
            position: GridJson = {
                "x": place % per_line * wide,
                "y": top + place // per_line * high,
                "w": wide,
                "h": high,
            }
            panels.append(_panel(panel, window, position))
        top += -(-len(row) // per_line) * high
    return {
        "uid": UID,
        "title": "BigFleet scale test",
        "tags": ["bigfleet", "scaletest"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": []},
        "annotations": {"list": []},
        "panels": panels,
    }


def dashboard_text(plan: Plan) -> str:
    return json.dumps(dashboard(plan), indent=2, ensure_ascii=False) + "\n"


def with_dashboard(plan: Plan, values: dict[str, Json]) -> dict[str, Json]:
    """Helm values that provision the dashboard, where there is a Grafana."""
    grafana = values.get("grafana")
    if not isinstance(grafana, Mapping) or not grafana.get("enabled"):
        return values
    return {**values, "grafana": {**grafana, "dashboards": {UID: dashboard_text(plan)}}}


def grafana_hint(namespace: str) -> str:
    """How to see it while a run goes on."""
    forward = f"kubectl -n {namespace} port-forward svc/grafana 3000:3000"
    return f"{forward}, then open http://localhost:3000/d/{UID}"


def queries_of(document: DashboardJson) -> Iterator[tuple[str, str]]:
    """Every (panel, query) of a dashboard."""
    for panel in document["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def _rows(plan: Plan) -> Iterator[tuple[str, int, int, list[Panel]]]:
    """Title, width and height of its panels, panels."""
    gates = [gate for gate in plain_gates(plan) if not gate.off]
    yield "SLO live verdict", 4, 4, [*_phase(gates, reclaim_gate(plan)), *_gate_stats(gates, plan)]
    yield "Gates over time", 8, 7, list(_gate_series(gates))
    yield "Behind the gates", 8, 7, list(_behind(gates))
    yield "Pipeline", 8, 7, list(_pipeline())
    yield "Operator to UpcomingNode", 8, 7, list(_operator())
    yield "Coordinator and shards", 8, 7, list(_shards())
    yield "The harness itself", 8, 7, list(_harness(plan))


def _phase(gates: Iterable[Gate], reclaims: Gate) -> Iterator[Panel]:
    breaches = [_breach(_picture(gate), gate) for gate in gates] + [_breach(f"sum({grown(reclaims.query)})", reclaims)]
    filled = "min(scaletest_loadgen_steady_state)"
    yield Panel(
        99,
        "Gates beyond their bar",
        {"": f"({' + '.join(breaches)}) * {filled} + {filled} - 1"},
        "stat",
        bar=0,
        words={-1: "WAIT", 0: "PASS"},
        description="How many, right now; WAIT until every cluster is filled. "
        "No data: at least one of them has none, so there is no verdict.",
    )
    yield Panel(98, "Clusters that are filled", {"": "avg(scaletest_loadgen_steady_state)"}, "stat", "percentunit")
    began = "scaletest_loadgen_phase_started_at_seconds"
    yield Panel(
        110,
        "Time in phase",
        {"": f"time() - max(max by (phase) ({began} > 0))"},
        "stat",
        "s",
        description="Ramp, or steady.",
    )


def _picture(gate: Gate) -> str:
    """One line for each gate: of many members the worst."""
    return f"{'min' if gate.least else 'max'}({gate.query})" if isinstance(gate.measure, WorstMember) else gate.query


def _breach(query: str, gate: Gate) -> str:
    """1 or 0; nothing where there is no number: a NaN compares as good with any bar."""
    return f"((({query}) > -Inf) {'<' if gate.least else '>'} bool {gate.bar:g})"


def _gate_stats(gates: Iterable[Gate], plan: Plan) -> Iterator[Panel]:
    fresh = _FIRST_NEW_STAT
    for gate in gates:
        number = _STAT_IDS.get(gate.key, fresh)
        fresh += gate.key not in _STAT_IDS
        yield Panel(number, gate.title, {"": _picture(gate)}, "stat", _unit(gate), gate.bar, gate.least, gate.key)
    gate = reclaim_gate(plan)
    yield Panel(fresh, "reclaims, all so far", {"": f"sum({RECLAIMS})"}, "stat", description=gate.key)
    yield Panel(109, "machines failed", {"": 'sum(bigfleet_shard_inventory_machines{state="Failed"})'}, "stat")
    yield Panel(1, "Pods asked for", {"": DEMAND_ALIVE}, "stat")


def _gate_series(gates: Iterable[Gate]) -> Iterator[Panel]:
    fresh = _FIRST_NEW_SERIES
    for gate in gates:
        number = _SERIES_IDS.get(gate.key, fresh)
        fresh += gate.key not in _SERIES_IDS
        yield Panel(
            number,
            f"{gate.title} over time",
            {gate.key: _picture(gate)},
            "timeseries",
            _unit(gate),
            gate.bar,
            gate.least,
        )


def _behind(gates: Iterable[Gate]) -> Iterator[Panel]:
    chain = {
        "bind p99 (informational)": "internalBindingLatencyP99Seconds",
        "create": "shardCreatePhaseP99Seconds",
        "configure": _CONFIGURE,
        "request bootstrap": "shardRequestBootstrapP99Seconds",
        "UpcomingNode to Node": "upcomingToNodeP99Seconds",
        "drain": "shardDrainPhaseP99Seconds",
    }
    figures = INFORMATIONAL | {gate.key: gate.query for gate in gates}
    yield Panel(
        201, "Chain of a machine, p99", {name: figures[key] for name, key in chain.items() if key in figures}, unit="s"
    )
    yield Panel(6, "Cycle p99 by phase", {"{{phase}}": CYCLE_P99_BY_PHASE}, unit="s")
    fan_out = {rank: INFORMATIONAL[f"shardProvisioningLatency{rank.upper()}Seconds"] for rank in ("p50", "p99")}
    note = "Per cluster and fingerprint; saturates at steady demand. Never a gate (BF-0017)."
    yield Panel(9, "Provisioning latency (diagnostic)", fan_out, unit="s", description=note)
    yield Panel(202, "Machines by state", {"{{state}}": MACHINES_BY_STATE})
    pods = {"created": "loadgenPodsCreatedPerSec", "bound": "loadgenPodsBoundPerSec"}
    yield Panel(2, "Pods per second", {name: INFORMATIONAL[key] for name, key in pods.items()}, unit="ops")
    yield Panel(203, "Reclaims per second", {"": f"sum(rate({RECLAIMS}[{{w}}]))"}, unit="ops")


def _pipeline() -> Iterator[Panel]:
    stages = {f"{hop.row} {hop.name}": hop.query for hop in HOPS}
    yield Panel(401, "How much has passed each hop", stages)
    rates = {name: f"deriv(({query})[{{w}}:15s])" for name, query in stages.items()}
    yield Panel(402, "How much passes each hop, per second", rates, unit="ops")
    outcomes = 'sum by (outcome) (rate(bigfleet_shard_action_execute_outcomes_total{kind="Bootstrap"}[{w}]))'
    yield Panel(403, "Bootstrap outcomes per second", {"{{outcome}}": outcomes}, unit="ops")
    events = "sum by (event) (rate(bigfleet_shard_session_lifecycle_total[{w}]))"
    sessions = {"open": "sum(bigfleet_shard_active_sessions)", "{{event}} per second": events}
    yield Panel(404, "Sessions", sessions)


def _operator() -> Iterator[Panel]:
    yield Panel(501, "Node state p99 by phase", {"{{phase}}": NODE_STATE_P99_BY_PHASE}, unit="s")
    writes = "sum by (op, outcome) (rate(bigfleet_operator_upcoming_node_writes_total[{w}]))"
    yield Panel(502, "UpcomingNode writes per second", {"{{op}} {{outcome}}": writes}, unit="ops")
    inflight = {
        "max": "max(bigfleet_operator_dispatch_inflight)",
        "avg": "avg(bigfleet_operator_dispatch_inflight)",
    }
    yield Panel(503, "Operator dispatch in flight", inflight)
    yield Panel(504, "Shard actions in flight", {"{{pod}}": "sum by (pod) (bigfleet_shard_execute_inflight)"})


def _shards() -> Iterator[Panel]:
    applied = "sum by (outcome) (rate(bigfleet_coordinator_apply_total[{w}]))"
    yield Panel(10, "Coordinator writes per second", {"{{outcome}}": applied}, unit="ops")
    yield Panel(11, "Pending instructions", {"{{pod}}": "max by (pod) (bigfleet_coordinator_pending_instructions)"})
    yield Panel(13, "Raft term", {"{{pod}}": "max by (pod) (bigfleet_coordinator_raft_term)"})
    yield Panel(14, "Machines by shard", {"{{pod}}": "sum by (pod) (bigfleet_shard_inventory_machines)"})


def _harness(plan: Plan) -> Iterator[Panel]:
    limits = plan.substrate.self_check
    yield Panel(
        601,
        "Event-loop lag p99",
        {"{{pod}} {{metrics_port}}": LAG},
        unit="s",
        bar=limits.event_loop_lag_p99_seconds,
    )
    yield Panel(602, "Apiserver write p99", {"{{pod}}": MUTATING}, unit="s", bar=limits.apiserver_mutating_p99_seconds)
    missed = "1 - avg by (pod, metrics_port) (avg_over_time(up[{w}]))"
    yield Panel(
        603,
        "Scrapes that failed",
        {"{{pod}} {{metrics_port}}": missed},
        unit="percentunit",
        bar=limits.missed_scrapes_fraction,
    )
    yield Panel(604, "Pods that wait in the schedulers", {"{{queue}}": "sum by (queue) (scheduler_pending_pods)"})
    yield Panel(605, "CPU by process", {"{{process}}": "sum by (process) (rate(process_cpu_seconds_total[2m]))"})


def _unit(gate: Gate) -> str:
    return {"s": "s", "share": "percentunit"}.get(gate.unit, "short")


def _panel(panel: Panel, window: str, position: GridJson) -> PanelJson:
    targets: list[TargetJson] = [
        {
            "refId": chr(ord("A") + place),
            "datasource": _DATASOURCE,
            "expr": query.replace("{w}", window),
            "legendFormat": legend or "__auto",
        }
        for place, (legend, query) in enumerate(panel.queries.items())
    ]
    fields: FieldsJson = {"unit": panel.unit, "noValue": "no data"}
    if panel.words:
        texts = {str(number): {"text": word} for number, word in panel.words.items()}
        fields["mappings"] = [{"type": "value", "options": texts}]
    if panel.bar is not None:
        fields["thresholds"] = {"mode": "absolute", "steps": _steps(panel.bar, panel.least)}
        if panel.kind == "timeseries":
            fields["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {
        "id": panel.number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": position,
        "fieldConfig": {"defaults": fields, "overrides": []},
        "options": {"colorMode": "background"} if panel.kind == "stat" else {},
        "targets": targets,
    }


def _steps(bar: float, least: bool) -> list[StepJson]:
    """Colours from a value on: on the bar is still good."""
    if least:
        return [{"color": "red", "value": None}, {"color": "green", "value": bar}]
    beyond = bar + max(abs(bar), 1.0) * 1e-9
    return [{"color": "green", "value": None}, {"color": "red", "value": beyond}]
