"""Judges a results folder anew: its snapshot, its profile, today's gates. Says what changed."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from scaletest.errors import UsageError
from scaletest.exit_codes import ExitCode
from scaletest.judge.gates.gate import GateRecord, Reading
from scaletest.judge.gates.listing import RESTARTS_KEY
from scaletest.judge.gates.windows import soak_window
from scaletest.judge.judging import Judgement, Soaked, judge_soak
from scaletest.judge.outcome import RunOutcome
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.selfcheck.strain import ScrapeIntervals, Seen
from scaletest.judge.summary import Summary, SummaryGate
from scaletest.model.plan import Plan
from scaletest.run.inputs import read_inputs
from scaletest.run.offline.replay import serve_snapshot, snapshot_of
from scaletest.run.steps.evidence import LEDGER, read_offences


@dataclass(frozen=True)
class Recheck:
    """A verdict on old evidence."""

    summary: Summary
    judgement: Judgement
    outcome: RunOutcome
    # One sentence for each difference to what was judged then.
    changes: list[str]


@dataclass(frozen=True)
class Evidence:
    """A results folder, read; its snapshot is there."""

    results: Path
    summary: Summary
    plan: Plan
    soaked: Soaked

    @classmethod
    def read(cls, results: Path) -> Self:
        """Raises UsageError for a folder that cannot be judged, before anything is built or started for it."""
        summary = _read_summary(results)
        plan = read_inputs(results)
        soaked = replace(soaked_of(summary, plan), offences=read_offences(results))
        snapshot_of(results)
        return cls(results, summary, plan, soaked)


async def recheck(evidence: Evidence, prometheus: Path) -> Recheck:
    """Judge the soak of a run by today's gates; those that are younger than the evidence only where it has data."""
    summary, results = evidence.summary, evidence.results
    known = {gate.key for gate in summary.gates} | {check.key for check in summary.self_check}
    async with serve_snapshot(results, prometheus) as url:
        intervals = ScrapeIntervals.of(_values(results))
        judgement = await judge_soak(evidence.plan, Prometheus(url), evidence.soaked, intervals, known)
    outcome = judgement.outcome()
    if damaged := ledger_problem(summary, results):
        outcome.add(ExitCode.UNMEASURED, damaged)
    return Recheck(summary, judgement, outcome, changes_between(summary, judgement, outcome))


def ledger_problem(summary: Summary, results: Path) -> str:
    """What the ledger lacks of what was counted when it was kept; empty for evidence that is whole, or has none."""
    from bigfleet.provider.fake.ledger.file import count_ledger

    kept = summary.ledger.get("lines", 0)
    if not kept:
        return ""
    try:
        found = count_ledger(results / LEDGER)["lines"]
    except OSError as error:
        return f"{LEDGER} cannot be read: {error.strerror}"
    except ValueError as error:
        return f"{LEDGER} is damaged: {error}"
    return "" if found == kept else f"{LEDGER} has {found} of the {kept} lines that were kept"


def soaked_of(summary: Summary, plan: Plan) -> Soaked:
    """The soak as summary.json remembers it."""
    start, end = summary.windows.soak_start, summary.windows.soak_end
    if start is None or end is None:
        what = "never soaked" if start is None else "did not hold its soak"
        raise UsageError(f"{summary.run_id} {what}: there is nothing to judge", hint=summary.failure)
    if not 0 < start < end <= time.time():
        raise UsageError(f"{summary.run_id} has a soak from {start} to {end}, which cannot be")
    checks = {check.key: check for check in summary.self_check}
    pressure = checks.get("cpuPressurePercent")
    return Soaked(
        soak_window(plan, start, end),
        _restarts(summary),
        Seen(
            pressure.value if pressure else None,
            summary.strained,
            summary.target.kind == "embedded",
            summary.restarts,
        ),
        summary.cut_short,
    )


def _restarts(summary: Summary) -> Reading:
    """As it was judged then: no snapshot knows of it."""
    was = next((gate for gate in summary.gates if gate.key == RESTARTS_KEY), None)
    if was is None:
        return Reading(None)
    if was.verdict == "no-data":
        return Reading(None, problem=was.reason)
    detail = was.reason.partition(": ")[2] if was.verdict == "fail" else ""
    return Reading(was.value, detail=detail, component=was.component or None)


def changes_between(summary: Summary, judgement: Judgement, outcome: RunOutcome) -> list[str]:
    """What is judged otherwise today."""
    then = {gate.key: gate for gate in summary.gates}
    changes = [sentence for gate in judgement.gates if (sentence := _change(then.pop(gate.key, None), gate))]
    changes += [f"{gate.title}: not a gate any more (was {gate.verdict})" for gate in then.values()]
    checks = {check.key: check for check in summary.self_check}
    for check in judgement.checks:
        was = checks[check.key].verdict if check.key in checks else "not checked"
        if was != check.verdict:
            changes.append(f"self-check, {check.title}: {was} → {check.verdict}")
    if summary.verdict != outcome.verdict:
        changes.append(f"verdict: {summary.verdict} → {outcome.verdict}")
    return changes


def _change(was: SummaryGate | None, gate: GateRecord) -> str:
    if was is None:
        return f"{gate.title}: new gate, {gate.verdict}"
    parts = []
    if was.bar != gate.bar:
        parts.append(f"bar {was.bar:g} → {gate.bar:g}")
    if was.query != gate.query:
        parts.append("another query")
    if was.verdict != gate.verdict:
        parts.append(f"{was.verdict} → {gate.verdict}")
    elif not _close(was.value, gate.value):
        parts.append(f"{_shown(was.value)} → {_shown(gate.value)}")
    return f"{gate.title}: {', '.join(parts)}" if parts else ""


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-6 * max(1.0, abs(one), abs(other))


def _shown(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4g}"


def _read_summary(results: Path) -> Summary:
    path = results / "summary.json"
    try:
        text = path.read_text()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the folder of a run") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    try:
        return Summary.read(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    except ValueError as error:
        raise UsageError(
            f"{path} is not as a run writes it: {error}", hint="compare it with `scaletest-runner schema summary`"
        ) from error


def _values(results: Path) -> dict[str, Any]:
    try:
        return dict(yaml.safe_load((results / "rendered-values.yaml").read_text()) or {})
    except (OSError, yaml.YAMLError):
        return {}
