"""Whether a run that has ended was judged rightly: its exit code, the gate that failed, whom that blames. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.smoke.mistakes.entry import Entry

_FINE = ("pass", "skipped")
_PARTS = {"engine": "shard"}
# Void: what failed under strain says nothing.
_VOID = 6


@dataclass(frozen=True)
class Judged:
    """One entry of the score."""

    exit_code: int
    verdict_right: bool
    gate_right: bool
    component_right: bool
    # Gates that did not pass, and whom those that should have failed name.
    gates: tuple[str, ...]
    components: tuple[str, ...]
    # What is not as it should be, in sentences; empty if all is.
    problems: tuple[str, ...]

    @property
    def right(self) -> bool:
        return self.verdict_right and self.gate_right and self.component_right


def judged(entry: Entry, exit_code: int, summary: Mapping[str, Any]) -> Judged:
    """Compare the end of a run (its exit code and summary.json; empty if it left none) with what the entry expects."""
    problems: list[str] = []
    expected = " or ".join(map(str, entry.exit_codes))
    verdict_right = exit_code in entry.exit_codes
    if not verdict_right:
        problems.append(f"exit code {exit_code}, not {expected}")
    reasons = [str(failure["reason"]) for failure in summary.get("failures", [])]
    if entry.sentence and not any(entry.sentence in reason for reason in reasons):
        verdict_right = False
        problems.append(f"no reason says {entry.sentence!r}")

    failing = [gate for gate in summary.get("gates", []) if gate["verdict"] not in _FINE]
    keys = tuple(gate["key"] for gate in failing)
    if not entry.gates:
        # A void run may have gates that failed under strain.
        gate_right = verdict_right and (not failing or _VOID in entry.exit_codes)
        if verdict_right and not gate_right:
            problems.append(f"no gate should fail, but {', '.join(keys)}")
        return Judged(exit_code, verdict_right, gate_right, gate_right, keys, (), tuple(problems))

    rightly = [
        gate
        for gate in failing
        if gate["key"] in entry.gates
        and gate["verdict"] == entry.verdict
        and gate.get("observations", 0) >= entry.observations
    ]
    if not rightly:
        wanted = f"none of {', '.join(sorted(entry.gates))} is {entry.verdict}"
        problems.append(f"{wanted}; not passed: {', '.join(keys) or 'nothing'}")
    named = tuple(dict.fromkeys(_PARTS.get(name, name) for gate in rightly if (name := gate.get("component"))))
    component_right = entry.component in named
    if rightly and not component_right:
        problems.append(f"blames {', '.join(named) or 'nobody'}, not {entry.component}")
    return Judged(exit_code, verdict_right, bool(rightly), component_right, keys, named, tuple(problems))
