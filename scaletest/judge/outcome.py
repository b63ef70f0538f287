"""What a run ends with: every reason not to pass, and the one exit code that wins (ADR-19)."""

from dataclasses import dataclass, field
from typing import Literal

from scaletest.exit_codes import ExitCode

# When several hold, the first of these is the exit code. A failure that no strain can cause comes before VOID.
_PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.CAP_REACHED,
    ExitCode.USAGE,
    ExitCode.INSTALL_FAILED,
    ExitCode.NOT_STEADY,
    ExitCode.VOID,
    ExitCode.GATE_FAILED,
    ExitCode.UNMEASURED,
    ExitCode.LEFTOVERS,
)

Conclusion = Literal["passed", "failed", "unmeasured", "void", "refused", "incomplete"]

_CONCLUSIONS: dict[ExitCode, Conclusion] = {
    ExitCode.PASSED: "passed",
    ExitCode.GATE_FAILED: "failed",
    ExitCode.USAGE: "refused",
    ExitCode.UNMEASURED: "unmeasured",
    ExitCode.VOID: "void",
    ExitCode.LEFTOVERS: "failed",
}


@dataclass
class RunOutcome:
    """Failures as (exit code, sentence), in the order in which they were found."""

    failures: list[tuple[ExitCode, str]] = field(default_factory=list)
    # Sentences of gates that failed although no strain can cause that.
    certain: set[str] = field(default_factory=set)

    def add(self, exit_code: ExitCode, sentence: str, *, certain: bool = False) -> None:
        self.failures.append((exit_code, sentence))
        if certain:
            self.certain.add(sentence)

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def exit_code(self) -> ExitCode:
        codes = {code for code, _ in self.failures}
        first = next((code for code in _PRECEDENCE if code in codes), max(codes, default=ExitCode.PASSED))
        return ExitCode.GATE_FAILED if first == ExitCode.VOID and self.certain else first

    @property
    def verdict(self) -> Conclusion:
        """The exit code in a word; a run that did not come to its end has no verdict on BigFleet."""
        return _CONCLUSIONS.get(self.exit_code, "incomplete")

    @property
    def headline(self) -> str:
        """The sentence that goes with the exit code; empty when the run passed."""
        fitting = [sentence for code, sentence in self.failures if code == self.exit_code]
        return next((sentence for sentence in fitting if sentence in self.certain), (fitting or [""])[0])
