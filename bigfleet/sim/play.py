"""Runs a scenario by name or file: world, trace, checks, report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigfleet.engine import Action, ActionKind, Decisions
from bigfleet.sim.checks import ScenarioCheck
from bigfleet.sim.report import SimulationReport, report_of
from bigfleet.sim.scenario.building import build
from bigfleet.sim.scenario.coded import CODED
from bigfleet.sim.scenario.reading import SHIPPED, ScenarioError, read_scenario, shipped_names
from bigfleet.sim.scenario.scenario import Expectations, Scenario
from bigfleet.sim.scenario.trace import Trace
from bigfleet.sim.scenario.troubles import Fault, Window
from bigfleet.sim.world.simulation import Simulation

# Hears how far a run is: (virtual seconds done, in all).
Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Played:
    """How a scenario went. Scripted scenarios have no report: their trace says it all."""

    name: str
    trace: str
    checks: tuple[ScenarioCheck, ...]
    report: SimulationReport | None = None

    @property
    def passed(self) -> bool:
        return all(check.holds for check in self.checks)


def descriptions() -> dict[str, str]:
    """Every scenario that ships, by name."""
    shipped = {name: read_scenario(SHIPPED / f"{name}.yaml").description for name in shipped_names()}
    return {name: coded.description for name, coded in CODED.items()} | shipped


def is_file(name: str) -> bool:
    """Whether this is a user's own scenario file, and no name of one that ships."""
    return name.lower().endswith((".yaml", ".yml"))


def play(name: str, seed: int | None = None, progress: Progress = lambda _done, _all: None) -> Played:
    """Run a shipped scenario, or the one in a file whose name ends in .yaml; raises ScenarioError."""
    if name in CODED:
        if seed is not None:
            raise ScenarioError(f"{name} is scripted: it goes one way only, whatever the seed")
        script = CODED[name].play()
        script.trace.end(script.shard)
        return Played(name, script.trace.text, tuple(script.checks))
    if name in shipped_names():
        return play_scenario(read_scenario(SHIPPED / f"{name}.yaml"), seed, progress)
    if is_file(name):
        return play_scenario(read_scenario(Path(name)), seed, progress)
    raise ScenarioError(f"there is no scenario {name!r}; `fauxctl list` names them, a file ends in .yaml")


def play_scenario(scenario: Scenario, seed: int | None = None, progress: Progress = lambda _done, _all: None) -> Played:
    simulation = build(scenario, seed)
    trace = Trace(counts_only=scenario.trace == "counts")
    trace.start(scenario.name)
    record, now = simulation.recorder.cycle, simulation.timeline

    def on_cycle(decisions: Decisions, taken: Sequence[Action]) -> None:
        record(decisions, taken)
        if taken:
            trace.cycle(taken, simulation.shard, now.now)

    simulation.shard.on_cycle = on_cycle
    simulation.on_rollup = lambda cluster, rows: trace.rollup(cluster, rows, now.now)
    simulation.recorder.on_sample = lambda sample: progress(sample.at, simulation.seconds)
    simulation.run()
    trace.end(simulation.shard)
    checks = tuple(_checks(simulation, scenario.expect))
    marks = tuple(mark for fault in scenario.faults for mark in _marks(fault))
    report = report_of(scenario.name, scenario.description, simulation, checks, marks)
    return Played(scenario.name, trace.text, checks, report)


def _marks(fault: Fault) -> Iterator[tuple[float, str]]:
    """When a fault comes, and when it is over."""
    if isinstance(fault, Window):
        yield fault.from_seconds, fault.kind
        yield fault.to_seconds, f"{fault.kind} ends"
    else:
        yield fault.at_seconds, fault.kind


def _checks(simulation: Simulation, expect: Expectations) -> list[ScenarioCheck]:
    recorder, end = simulation.recorder, simulation.seconds
    problems = simulation.problems()
    checks = [ScenarioCheck("no machine leaks", not problems, "; ".join(problems) or "none")]
    for when, hit in sorted(simulation.struck.items()):
        checks.append(ScenarioCheck(f"the storm at {when:g} s hits machines", hit > 0, f"{hit}"))
    if expect.no_shortfall_from_seconds is not None:
        start = expect.no_shortfall_from_seconds
        worst = recorder.worst_shortfall(start, end)
        checks.append(ScenarioCheck(f"nothing is short from {start:g} s on", worst == 0, f"{worst} at worst"))
    if expect.some_shortfall:
        worst = recorder.worst_shortfall(0.0, end)
        checks.append(ScenarioCheck("something is short at some time", worst > 0, f"{worst} at worst"))
    if expect.all_pods_bound_at_end:
        pods, bound = (sum(getattr(c, name) for c in simulation.clusters.values()) for name in ("pods", "bound"))
        checks.append(ScenarioCheck("every Pod is bound at the end", pods == bound, f"{bound} of {pods}"))
    if expect.settled_at_end:
        stuck = simulation.unsettled()
        checks.append(ScenarioCheck("nothing is on its way or broken at the end", not stuck, f"{len(stuck)} machines"))
    for bound in expect.actions:
        until = end if bound.to_seconds is None else bound.to_seconds
        seen = recorder.between(ActionKind(bound.action), bound.from_seconds - 1e-9, until)
        holds = seen >= bound.at_least and (bound.at_most is None or seen <= bound.at_most)
        checks.append(
            ScenarioCheck(
                _bound_text(bound.action, bound.from_seconds, until, bound.at_least, bound.at_most), holds, f"{seen}"
            )
        )
    return checks


def _bound_text(action: str, start: float, end: float, least: int, most: int | None) -> str:
    wanted = f"{least} or more" if most is None else f"{most} at most" if not least else f"{least} to {most}"
    return f"{action}s from {start:g} to {end:g} s: {wanted}"
