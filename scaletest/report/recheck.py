"""Old evidence on screen: what `check` found, and where `replay` serves."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scaletest.report.console import check_lines, gate_lines, headline
from scaletest.run.recheck import Recheck

_SHOWN_FIRST = "shardCycleDurationP99Seconds"


def recheck_lines(judged: Recheck) -> list[str]:
    """Gates first, then what changed."""
    document = recheck_document(judged)
    changes = [f"  {change}" for change in judged.changes] or ["  nothing"]
    return [
        f"{judged.summary['runId']}, judged by today's gates",
        "",
        *gate_lines(document["gates"]),
        *check_lines(document["selfCheck"]),
        "",
        headline(document),
        *(f"  {failure['reason']}" for failure in document["failures"]),
        "",
        f"changed since the run ended {judged.summary['verdict']}",
        *changes,
    ]


def recheck_document(judged: Recheck) -> dict[str, Any]:
    outcome = judged.outcome
    return {
        "runId": judged.summary["runId"],
        "gates": [gate.document() for gate in judged.judgement.gates],
        "selfCheck": [check.document() for check in judged.judgement.checks],
        "verdict": outcome.verdict,
        "passed": outcome.passed,
        "exitCode": outcome.exit_code,
        "failures": [{"exitCode": code, "reason": sentence} for code, sentence in outcome.failures],
        "changes": judged.changes,
    }


def replay_lines(results: Path, url: str) -> list[str]:
    """Where to look, with the soak already in view."""
    lines = [f"serving {results} at {url} (Ctrl-C ends it)"]
    try:
        summary = json.loads((results / "summary.json").read_text())
        gate = next(gate for gate in summary["gates"] if gate["key"] == _SHOWN_FIRST)
        start, end = summary["windows"]["soakStart"], summary["windows"]["soakEnd"]
    except (OSError, ValueError, KeyError, StopIteration):
        return lines
    shown = {
        "g0.expr": gate["query"],
        "g0.tab": "graph",
        "g0.range_input": f"{int(end - start) + 60}s",
        "g0.end_input": f"{int(end)}",
    }
    return [*lines, f"the soak's shard cycles: {url}/query?{urlencode(shown)}"]
