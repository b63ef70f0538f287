"""The end of a run in figures: what was done, what it cost, which Pods were disturbed; as JSON and as text."""

from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from pydantic.alias_generators import to_camel

from bigfleet.core.machines import MachineState
from bigfleet.engine import ActionKind
from bigfleet.sim.checks import ScenarioCheck
from bigfleet.sim.world.recorder import CycleFigures, FleetSample
from bigfleet.sim.world.shard import state_counts
from bigfleet.sim.world.simulation import Simulation

_MARKS = {True: "✓", False: "✗"}


@dataclass(frozen=True)
class SimulationReport:
    """Everything that the text, the JSON and the picture show."""

    name: str
    description: str
    document: dict[str, Any]
    samples: tuple[FleetSample, ...]
    checks: tuple[ScenarioCheck, ...]
    # What was done to the fleet, and when.
    marks: tuple[tuple[float, str], ...] = ()


def report_of(
    name: str,
    description: str,
    simulation: Simulation,
    checks: tuple[ScenarioCheck, ...],
    marks: tuple[tuple[float, str], ...] = (),
) -> SimulationReport:
    recorder, shard = simulation.recorder, simulation.shard
    clusters = simulation.clusters.values()
    configured = [s.states.get(MachineState.CONFIGURED.label, 0) for s in recorder.samples]
    shares = [s.used_share for s, held in zip(recorder.samples, configured, strict=True) if held]
    document: dict[str, Any] = {
        "scenario": name,
        "seed": simulation.model.seed,
        "virtualSeconds": simulation.seconds,
        "cycles": shard.cycles,
        "machines": {"total": len(shard.machines), **state_counts(shard.states), "lost": simulation.provider.lost},
        "clusters": len(simulation.clusters),
        "pods": {
            "alive": sum(c.pods for c in clusters),
            "bound": sum(c.bound for c in clusters),
            "evicted": sum(c.evicted for c in clusters),
            "killed": sum(c.killed for c in clusters),
        },
        "actions": {kind.value: recorder.actions[kind] for kind in ActionKind},
        "shelved": {kind.value: shard.shelved[kind] for kind in ActionKind},
        "outcomes": {f"{kind}/{outcome}": n for (kind, outcome), n in sorted(shard.outcomes.items())},
        "shortfalls": {
            "atEnd": recorder.standing,
            "most": recorder.worst_shortfall(0.0, simulation.seconds),
            "oldestCycles": max((cycle.oldest_shortfall_cycles for cycle in recorder.cycles), default=0),
        },
        "configureSeconds": _spread(shard.configure_seconds),
        "mostInFlight": max((cycle.in_flight for cycle in recorder.cycles), default=0),
        "usd": round(recorder.usd, 2),
        "meanUsedShare": round(sum(shares) / len(shares), 4) if shares else 0.0,
        "decisionMilliseconds": _spread(simulation.decider.milliseconds),
        "perCycle": _columns(recorder.cycles, simulation.decider.milliseconds),
        "checks": [{"text": check.text, "holds": check.holds, "seen": check.seen} for check in checks],
    }
    return SimulationReport(name, description, document, tuple(recorder.samples), checks, marks)


def report_lines(report: SimulationReport) -> list[str]:
    """For people: checks first, then the figures."""
    d = report.document
    pods, machines, short = d["pods"], d["machines"], d["shortfalls"]
    clusters = "1 cluster" if d["clusters"] == 1 else f"{d['clusters']:,} clusters"
    states = ", ".join(f"{count:,} {state}" for state, count in machines.items() if state not in ("total", "lost"))
    return [
        f"{report.name}: {report.description}",
        "",
        *check_lines(report.checks),
        "",
        f"time         {d['virtualSeconds']:,.0f} s in {d['cycles']:,} cycles, seed {d['seed']}",
        f"machines     {machines['total']:,}: {states}; {machines['lost']:,} lost",
        f"Pods         {pods['bound']:,} of {pods['alive']:,} bound in {clusters}; "
        f"{pods['evicted']:,} evicted, {pods['killed']:,} killed with their machine",
        f"actions      {_actions_text(d['actions'])}",
        *([f"shelved      {_actions_text(d['shelved'])}"] if any(d["shelved"].values()) else []),
        f"shortfalls   {short['atEnd']:,} at the end, {short['most']:,} at worst, "
        f"the oldest {short['oldestCycles']:,} cycles",
        f"configure    {_spread_text(d['configureSeconds'], 's')}; at most {d['mostInFlight']:,} machines in flight",
        f"cost         ${d['usd']:,.2f}; {d['meanUsedShare']:.0%} of what is Configured was asked for, on average",
        f"deciding     {_spread_text(d['decisionMilliseconds'], 'ms')} (by the wall's clock)",
    ]


def _actions_text(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}{'s'[: count != 1]}" for kind, count in counts.items() if count) or "none"


def check_lines(checks: tuple[ScenarioCheck, ...]) -> list[str]:
    width = max((len(check.text) for check in checks), default=0)
    return [f"  {_MARKS[check.holds]} {check.text:<{width}}  {check.seen}" for check in checks]


def _columns(cycles: list[CycleFigures], milliseconds: list[float]) -> dict[str, list[float]]:
    """A list for each figure, an entry for each cycle."""
    columns = {to_camel(name): [getattr(cycle, name) for cycle in cycles] for name in CycleFigures._fields}
    return columns | {"decisionMilliseconds": [round(one, 3) for one in milliseconds]}


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {"count": 0}
    cuts = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return {"count": len(values), "p50": round(cuts[49], 3), "p99": round(cuts[98], 3), "max": round(max(values), 3)}


def _spread_text(spread: dict[str, float], unit: str) -> str:
    if not spread["count"]:
        return "none"
    figures = ", ".join(f"{name} {_three_digits(spread[name])} {unit}" for name in ("p50", "p99", "max"))
    return f"{figures} ({spread['count']:,})"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
