"""Judges a results folder anew: its snapshot, its profile, today's gates. Says what changed."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from scaletest.errors import UsageError
from scaletest.judge.gates import RESTARTS_KEY, GateRecord, Reading
from scaletest.judge.judging import Judgement, Soaked, SoakWindow, judge_soak
from scaletest.judge.outcome import Outcome
from scaletest.judge.prometheus import Prometheus
from scaletest.judge.selfcheck import ScrapeIntervals, Strain
from scaletest.model.plan import Plan
from scaletest.run.inputs import read_inputs
from scaletest.run.replaying import serve_snapshot, snapshot_of


@dataclass(frozen=True)
class Recheck:
    """A verdict on old evidence."""

    summary: dict[str, Any]
    judgement: Judgement
    outcome: Outcome
    # One sentence for each difference to what was judged then.
    changes: list[str]


@dataclass(frozen=True)
class Evidence:
    """A results folder, read; its snapshot is there."""

    results: Path
    summary: dict[str, Any]
    plan: Plan
    soaked: Soaked

    @classmethod
    def read(cls, results: Path) -> Self:
        """Raises UsageError for a folder that cannot be judged, before anything is built or started for it."""
        summary = _read_summary(results)
        plan = read_inputs(results)
        with _understanding(results / "summary.json"):
            soaked = soaked_of(summary)
        snapshot_of(results)
        return cls(results, summary, plan, soaked)


async def recheck(evidence: Evidence, prometheus: Path) -> Recheck:
    """Judge the soak of a run by today's gates."""
    summary, results = evidence.summary, evidence.results
    async with serve_snapshot(results, prometheus) as url:
        intervals = ScrapeIntervals.of(_values(results))
        judgement = await judge_soak(evidence.plan, Prometheus(url), evidence.soaked, intervals)
    outcome = Outcome(list(judgement.failures()))
    with _understanding(results / "summary.json"):
        return Recheck(summary, judgement, outcome, changes_between(summary, judgement, outcome))


@contextmanager
def _understanding(path: Path) -> Iterator[None]:
    """Whoever has edited the file reads a sentence."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is not as a run writes it: {said}", hint="scaletest-runner schema summary") from error


def soaked_of(summary: dict[str, Any]) -> Soaked:
    """The soak as summary.json remembers it."""
    start, end = summary["windows"]["soakStart"], summary["windows"]["soakEnd"]
    if start is None or end is None:
        what = "never soaked" if start is None else "did not hold its soak"
        raise UsageError(f"{summary['runId']} {what}: there is nothing to judge", hint=summary["failure"])
    if not 0 < start < end <= time.time():
        raise ValueError(f"the soak went from {start} to {end}")
    restarted: dict[str, int] = summary["restarts"]
    checks = {check["key"]: check for check in summary["selfCheck"]}
    was = next((gate for gate in summary["gates"] if gate["key"] == RESTARTS_KEY), {"verdict": "pass"})
    counted = None if was["verdict"] == "no-data" else float(sum(restarted.values()))
    return Soaked(
        SoakWindow(start, end),
        Reading(counted, problem=was["reason"] if was["verdict"] in ("fail", "no-data") else ""),
        Strain(checks["cpuPressurePercent"].get("value"), summary["target"]["kind"] == "embedded", restarted),
        summary.get("cutShort", ""),
    )


def changes_between(summary: dict[str, Any], judgement: Judgement, outcome: Outcome) -> list[str]:
    """What is judged otherwise today."""
    then: dict[str, dict[str, Any]] = {gate["key"]: gate for gate in summary["gates"]}
    changes = [sentence for gate in judgement.gates if (sentence := _change(then.pop(gate.key, None), gate))]
    changes += [f"{gate['title']}: not a gate any more (was {gate['verdict']})" for gate in then.values()]
    checks = {check["key"]: check for check in summary["selfCheck"]}
    for check in judgement.checks:
        was = checks.get(check.key, {}).get("verdict", "not checked")
        if was != check.verdict:
            changes.append(f"self-check, {check.title}: {was} → {check.verdict}")
    if summary["verdict"] != outcome.verdict:
        changes.append(f"verdict: {summary['verdict']} → {outcome.verdict}")
    return changes


def _change(was: dict[str, Any] | None, gate: GateRecord) -> str:
    if was is None:
        return f"{gate.title}: new gate, {gate.verdict}"
    parts = []
    if was["bound"] != gate.bound:
        parts.append(f"bound {was['bound']:g} → {gate.bound:g}")
    if was["query"] != gate.query:
        parts.append("another query")
    if was["verdict"] != gate.verdict:
        parts.append(f"{was['verdict']} → {gate.verdict}")
    elif not _close(was.get("value"), gate.value):
        parts.append(f"{_shown(was.get('value'))} → {_shown(gate.value)}")
    return f"{gate.title}: {', '.join(parts)}" if parts else ""


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-6 * max(1.0, abs(one), abs(other))


def _shown(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4g}"


def _read_summary(results: Path) -> dict[str, Any]:
    path = results / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="give the folder of a run") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    missing = {"runId", "windows", "gates", "selfCheck", "verdict", "target"} - set(summary)
    if missing:
        raise UsageError(f"{path} lacks {', '.join(sorted(missing))}: it is of another version")
    return dict(summary)


def _values(results: Path) -> dict[str, Any]:
    try:
        return dict(yaml.safe_load((results / "rendered-values.yaml").read_text()) or {})
    except (OSError, yaml.YAMLError):
        return {}
