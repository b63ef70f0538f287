"""Old evidence on screen: what `check` found, and where `replay` serves."""

import json
from pathlib import Path
from typing import TypedDict

from scaletest.judge.gates.figures import PODS_BOUND
from scaletest.judge.outcome import Conclusion
from scaletest.model.json_types import Json
from scaletest.report.screen.plain import check_lines, gate_lines, headline
from scaletest.run.offline.recheck import Recheck


def recheck_lines(judged: Recheck) -> list[str]:
    """Gates first, then what changed."""
    changes = [f"  {change}" for change in judged.changes] or ["  nothing"]
    return [
        f"{judged.summary.run_id}, judged by today's gates",
        "",
        *gate_lines(judged.judgement.gates),
        *check_lines(judged.judgement.checks),
        "",
        headline(judged.outcome),
        *(f"  {sentence}" for _, sentence in judged.outcome.failures),
        "",
        f"the run ended {judged.summary.verdict}; changed since:",
        *changes,
    ]


class FailureDocument(TypedDict):
    """A reason not to pass."""

    exitCode: int
    reason: str


class RecheckDocument(TypedDict):
    """What `check -o json` says."""

    runId: str
    gates: list[dict[str, Json]]
    selfCheck: list[dict[str, Json]]
    verdict: Conclusion
    passed: bool
    exitCode: int
    failures: list[FailureDocument]
    changes: list[str]


def recheck_document(judged: Recheck) -> RecheckDocument:
    outcome = judged.outcome
    return {
        "runId": judged.summary.run_id,
        "gates": [gate.document() for gate in judged.judgement.gates],
        "selfCheck": [check.document() for check in judged.judgement.checks],
        "verdict": outcome.verdict,
        "passed": outcome.passed,
        "exitCode": outcome.exit_code,
        "failures": [{"exitCode": code, "reason": sentence} for code, sentence in outcome.failures],
        "changes": judged.changes,
    }


def replay_lines(results: Path, url: str) -> list[str]:
    """Where it is served, and a command that shows the soak."""
    lines = [
        f"serving {results} at {url} (Ctrl-C ends it)",
        "It is the API alone: the pages of Prometheus are no part of its Go module. Grafana takes it as a data source.",
    ]
    try:
        windows = json.loads((results / "summary.json").read_text())["windows"]
        start, end = int(windows["soakStart"]), int(windows["soakEnd"])
    except (OSError, ValueError, KeyError, TypeError):
        return lines
    when = f"-d start={start} -d end={end} -d step=15"
    return [
        *lines,
        "The Pods that were bound through the soak; `gates` in summary.json has more queries:",
        f"  curl -sG {url}/api/v1/query_range {when} --data-urlencode 'query={PODS_BOUND}'",
    ]
