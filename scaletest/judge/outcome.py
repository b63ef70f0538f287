"""What a run ends with: every reason not to pass, and the one exit code that wins (design.md §4)."""

from dataclasses import dataclass, field
from typing import Literal

PASSED, GATE_FAILED, USAGE, NOT_STEADY, INSTALL_FAILED = 0, 1, 2, 3, 4
UNMEASURED, OVERLOADED, LEFTOVERS, CAP_REACHED, INTERRUPTED = 5, 6, 7, 8, 130

# When several hold, the first of these is the exit code.
_PRECEDENCE = (
    INTERRUPTED,
    CAP_REACHED,
    USAGE,
    INSTALL_FAILED,
    NOT_STEADY,
    OVERLOADED,
    GATE_FAILED,
    UNMEASURED,
    LEFTOVERS,
)

Conclusion = Literal["passed", "failed", "unmeasured", "void", "refused", "incomplete"]

_CONCLUSIONS: dict[int, Conclusion] = {
    PASSED: "passed",
    GATE_FAILED: "failed",
    USAGE: "refused",
    UNMEASURED: "unmeasured",
    OVERLOADED: "void",
    LEFTOVERS: "failed",
}


@dataclass
class Outcome:
    """Failures as (exit code, sentence), in the order in which they were found."""

    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, exit_code: int, sentence: str) -> None:
        self.failures.append((exit_code, sentence))

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def exit_code(self) -> int:
        codes = {code for code, _ in self.failures}
        return next((code for code in _PRECEDENCE if code in codes), max(codes, default=PASSED))

    @property
    def verdict(self) -> Conclusion:
        """The exit code in a word; a run that did not come to its end has no verdict on BigFleet."""
        return _CONCLUSIONS.get(self.exit_code, "incomplete")

    @property
    def headline(self) -> str:
        """The sentence that goes with the exit code; empty when the run passed."""
        return next((sentence for code, sentence in self.failures if code == self.exit_code), "")
