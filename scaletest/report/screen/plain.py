"""Plain progress lines while a run goes on, and the verdict at its end: gates first, then where the evidence is."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from scaletest.exit_codes import ExitCode
from scaletest.judge.gates.gate import GateRecord
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.selfcheck.checks import CheckRecord
from scaletest.judge.summary import Summary, SummaryCheck, SummaryGate
from scaletest.model.documents.durations import format_duration
from scaletest.report.fitting import fitted, pasteable, screen_columns
from scaletest.report.margins import MARKS
from scaletest.run.journal import Event

_HEADLINES = {"void": "VOID", "refused": "REFUSED"}
_ENOUGH_FOR_P99 = 100
# Each gate is shown in the verdict's table anyway.
_QUIET_PHASES = frozenset({"gate", "selfcheck", "verdict"})

# Just judged, or read from a summary: they look the same on the screen.
JudgedGate = GateRecord | SummaryGate
JudgedCheck = CheckRecord | SummaryCheck


class Console:
    """Writes to a stream; one line per event."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._closed = False

    def line(self, text: str = "") -> None:
        """Write a line; after a write that failed (a closed pipe), the run goes on without output."""
        if self._closed:
            return
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            self._closed = True

    def show(self, event: Event) -> None:
        if is_quiet(event.phase):
            return
        self.line(f"{format_duration(event.elapsed_seconds):>7}  {event.phase:<9} {event.message}")
        if event.fields.get("hint"):
            self.line(f"{'':>7}  {'':<9} hint: {event.fields['hint']}")


def is_quiet(phase: str) -> bool:
    """Whether the events of a phase are for the diary only."""
    return phase in _QUIET_PHASES


def verdict_lines(summary: Summary, output: Path | str) -> list[str]:
    """The end of a run, for people: gates, verdict, cost, evidence, what to do next."""
    lines = [""]
    if summary.gates:
        lines += [*gate_lines(summary.gates), *check_lines(summary.self_check), ""]
    lines.append(headline(summary))
    lines += fitted(f"  {failure.reason}" for failure in summary.failures)
    lines += ["", f"cost       {price(summary)}", f"evidence   {output}"]
    for first, step in _next_steps(summary, output):
        lines += _step_lines(first, step, output)
    return lines


def price(summary: Summary) -> str:
    """What a run cost, in words."""
    cost = summary.cost
    if summary.verdict == "refused" or not cost.estimated_run_usd:
        return "nothing"
    return f"about ${cost.estimated_run_usd:,.2f}, of which ${cost.estimated_usd:,.2f} for the soak"


def _step_lines(first: bool, step: str, output: Path | str) -> list[str]:
    title = f"{'next' if first else '':<10} "
    if step.startswith("scaletest-runner"):
        return pasteable(title, step)
    # What begins with a path is as long as that.
    return [f"{title}{step}"] if step.startswith(str(output)) else fitted([f"{title}{step}"])


def _next_steps(summary: Summary, output: Path | str) -> Iterator[tuple[bool, str]]:
    """What a reader of this verdict does now."""
    steps = []
    if summary.verdict == "void":
        steps.append("run it again on a machine with less to do, or on a larger one; the profile is not to blame")
    if summary.snapshot:
        steps.append(f"scaletest-runner replay {output}  # look at every series")
    if (Path(output) / "logs").is_dir():
        steps.append(f"{output}/logs has the last words of every container")
    if any(failure.exit_code == ExitCode.LEFTOVERS for failure in summary.failures):
        steps.append("scaletest-runner gc  # shows what is left; gc --all removes it")
    for number, step in enumerate(steps):
        yield number == 0, step


def headline(ended: Summary | RunOutcome) -> str:
    if ended.passed:
        return "PASSED"
    return f"{_HEADLINES.get(ended.verdict, 'NOT PASSED')} (exit code {ended.exit_code})"


def check_lines(checks: Sequence[JudgedCheck]) -> list[str]:
    """Whether the load came, where the machine was strained, and which checks were not judged."""
    if not checks:
        return []
    load = [check for check in checks if check.about == "load" and check.verdict in ("over", "unmeasured")]
    lines = [f"  ! load: {check.reason}" for check in load] or ["  ✓ the load came"]
    for check in checks:
        if check in load:
            continue
        if check.verdict == "over":
            lines.append(f"  · strained: {check.reason}")
        elif check.verdict in ("unmeasured", "skipped"):
            lines.append(f"  - harness: {check.title} is not judged: {check.reason}")
    return fitted(lines)


def gate_lines(gates: Sequence[JudgedGate]) -> list[str]:
    """One aligned line for each judged gate."""
    width = max((len(gate.title) for gate in gates), default=0)
    return [line for gate in gates for line in _gate_lines(gate, width)]


def _gate_lines(gate: JudgedGate, width: int) -> list[str]:
    value = "–" if gate.value is None else f"{gate.value:.4g}"
    bar = f"{'≥' if gate.least else '≤'} {gate.bar:g} {gate.unit}".rstrip()
    seen = _observations(gate)
    note = "" if gate.verdict == "pass" else f"{gate.verdict}: {gate.reason}"
    figures = f"  {MARKS[gate.verdict]} {gate.title:<{width}}  {value:>9}  "
    aligned = f"{figures}{bar:<15} {seen:<9} {note}".rstrip()
    # A note that has no room in its column moves up to the figures, or stands below them.
    close = " ".join(filter(None, [f"{figures}{bar}", seen, note]))
    for whole in (aligned, close):
        if len(whole) <= screen_columns():
            return [whole]
    return [f"{figures}{bar:<15} {seen}".rstrip(), *fitted([f"      {note}"])]


def _observations(gate: JudgedGate) -> str:
    """How much stands behind a value; a p99 of few observations is just their maximum."""
    count = gate.observations
    if count is None:
        return ""
    return f"max of {count}" if gate.key.endswith("P99Seconds") and count < _ENOUGH_FOR_P99 else f"n={count}"
