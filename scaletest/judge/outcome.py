"""What a run ends with: every reason not to pass, and the one exit code that wins (ADR-19)."""

from dataclasses import dataclass, field
from typing import Literal

PASSED, GATE_FAILED, USAGE, NOT_STEADY, INSTALL_FAILED = 0, 1, 2, 3, 4
UNMEASURED, VOID, LEFTOVERS, CAP_REACHED, INTERRUPTED = 5, 6, 7, 8, 130

# When several hold, the first of these is the exit code. A failure that no strain can cause comes before VOID.
_PRECEDENCE = (
    INTERRUPTED,
    CAP_REACHED,
    USAGE,
    INSTALL_FAILED,
    NOT_STEADY,
    VOID,
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
    VOID: "void",
    LEFTOVERS: "failed",
}


@dataclass
class Outcome:
    """Failures as (exit code, sentence), in the order in which they were found."""

    failures: list[tuple[int, str]] = field(default_factory=list)
    # Sentences of gates that failed although no strain can cause that.
    certain: set[str] = field(default_factory=set)

    def add(self, exit_code: int, sentence: str, *, certain: bool = False) -> None:
        self.failures.append((exit_code, sentence))
        if certain:
            self.certain.add(sentence)

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def exit_code(self) -> int:
        codes = {code for code, _ in self.failures}
        first = next((code for code in _PRECEDENCE if code in codes), max(codes, default=PASSED))
        return GATE_FAILED if first == VOID and self.certain else first

    @property
    def verdict(self) -> Conclusion:
        """The exit code in a word; a run that did not come to its end has no verdict on BigFleet."""
        return _CONCLUSIONS.get(self.exit_code, "incomplete")

    @property
    def headline(self) -> str:
        """The sentence that goes with the exit code; empty when the run passed."""
        fitting = [sentence for code, sentence in self.failures if code == self.exit_code]
        return next((sentence for sentence in fitting if sentence in self.certain), (fitting or [""])[0])
