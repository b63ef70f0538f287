"""A gate: one bar, how it is measured, and whether a component or a strained machine is to blame beyond it."""

from dataclasses import dataclass
from typing import Literal

from scaletest.judge.gates.measures import Measure, Source
from scaletest.judge.gates.windows import WindowKind
from scaletest.model.counting import counted
from scaletest.model.json_types import Json
from scaletest.model.plan import Cause

Verdict = Literal["pass", "fail", "no-data", "saturated", "skipped"]
Unit = Literal["s", "requests", "Pods", "machines", "shards", "share", "cores", "times", "1/s", "profiles", "needs"]
# The component that a failure points to. The engine is part of the shard.
Component = Literal["shard", "operator", "pod-controller", "coordinator", "provider", "BigFleet"]

COMPONENTS: dict[str | None, Component] = {
    "shard": "shard",
    "operator": "operator",
    "pod-controller": "pod-controller",
    "coordinator": "coordinator",
    "provider": "provider",
}
# A reading of a metric that was not measured (BF-0017).
UNMEASURED_VALUE = -1.0


@dataclass(frozen=True)
class Gate:
    """One bar. `least` bars fail below it, others above it."""

    key: str
    title: str
    measure: Measure
    bar: float
    unit: Unit
    component: Component
    # One sentence for people: what fails when it fails.
    meaning: str
    # What BigFleet says of itself, and the source that checks it. Hops are judged by what BigFleet measures alone.
    claim: str = ""
    witness: str = ""
    # Why a strained machine can push a good BigFleet beyond the bar; empty: it cannot.
    strain: str = ""
    window: WindowKind = "soak"
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
    # Held bars are the same at every size (BF-0028); scaled ones grow with the fleet.
    held: bool = False
    # Rules of the provider's ledger that it counts, as `a|b`: the ledger names the machines that they were broken for.
    rules: str = ""
    # Those that may be to blame instead of `component`; the first whose query says so is.
    suspects: tuple["Suspect", ...] = ()

    @property
    def query(self) -> str:
        """With `{w}` in it, if it is a plain query; else the sentence that names its source."""
        return getattr(self.measure, "query", "") or self.measure.text(0)

    def holds(self, value: float) -> bool:
        return value >= self.bar if self.least else value <= self.bar

    def windowed(self, seconds: int) -> str:
        return self.measure.text(seconds)


@dataclass(frozen=True)
class Suspect:
    """Another component that is to blame for a gate that fails, if a query says so."""

    component: Component
    # `{w}` in it is the gate's window; of several results the highest counts.
    query: str
    above: float


@dataclass(frozen=True)
class Reading:
    """What was measured for a gate."""

    value: float | None
    observations: int | None = None
    # Highest finite bucket of the gate's histogram.
    ceiling: float | None = None
    # Overrides the sentence when the reading itself went wrong.
    problem: str = ""
    # What the value is made of, or which member has it, for the sentence of a bar that it fails.
    detail: str = ""
    # When it was beyond its bar, in unix seconds, where that is known.
    at: tuple[float, float] | None = None
    # The component to blame, where the reading knows that better than the gate.
    component: Component | None = None


@dataclass(frozen=True)
class GateRecord:
    """A judged gate, as summary.json keeps it."""

    key: str
    title: str
    unit: Unit
    component: Component
    query: str
    source: Source
    window: WindowKind
    value: float | None
    bar: float
    least: bool
    observations: int | None
    verdict: Verdict
    reason: str
    held: bool
    # Whether a strained machine can cause a failure of it.
    strainable: bool
    at: tuple[float, float] | None = None

    def document(self) -> dict[str, Json]:
        """For the diary: the fields above, without those that have no value."""
        return {name: value for name, value in vars(self).items() if value is not None}


def judge(gate: Gate, reading: Reading, window_seconds: int, min_observations: int) -> GateRecord:
    """The verdict on one gate."""
    verdict, reason = _verdict(gate, reading, min_observations)
    return GateRecord(
        key=gate.key,
        title=gate.title,
        unit=gate.unit,
        component=reading.component or gate.component,
        query=gate.windowed(window_seconds),
        source=gate.measure.source,
        window=gate.window,
        value=reading.value,
        bar=gate.bar,
        least=gate.least,
        observations=reading.observations,
        verdict=verdict,
        reason=reason,
        held=gate.held,
        strainable=bool(gate.strain),
        at=reading.at,
    )


def _verdict(gate: Gate, reading: Reading, min_observations: int) -> tuple[Verdict, str]:
    value, seen = reading.value, reading.observations
    if gate.off:
        return "skipped", "the profile switches this bar off"
    if reading.problem:
        return ("fail" if value is not None else "no-data"), reading.problem
    if gate.skip and (seen == 0 or value is None):
        return "skipped", gate.skip
    if value is None:
        return "no-data", "there is no value for it"
    if gate.count and (seen is None or seen < min_observations):
        return "no-data", f"{counted(seen or 0, 'observation')}, {min_observations} are needed to judge"
    if reading.ceiling is not None and value >= reading.ceiling:
        return "saturated", f"beyond the histogram's last bucket ({reading.ceiling:g})"
    holds = gate.holds(value)
    relation = ("≥" if gate.least else "≤") if holds else ("<" if gate.least else ">")
    sentence = f"{value:g} {relation} {gate.bar:g}"
    return ("pass", sentence) if holds else ("fail", f"{sentence}: {reading.detail}" if reading.detail else sentence)
