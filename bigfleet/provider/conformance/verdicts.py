"""How a check can end, and what is kept of it.

Verdict             what a check raises instead of passing
├── Broken          the provider breaks the rule: exit code 1
├── NotApplicable   the rule does not concern this provider or this connection: no blame, exit code 0
└── Unjudged        the check cannot tell, for a reason that lies elsewhere: exit code 5
    └── Silent      the provider does not answer: no check that comes after can be judged either
"""

from dataclasses import dataclass, field
from enum import StrEnum

from bigfleet.errors import BigFleetError


class CheckOutcome(StrEnum):
    """The end of a check, as reports spell it."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNJUDGED = "unjudged"


class Verdict(BigFleetError):
    """Any end but the good one; the words are for people."""

    outcome: CheckOutcome


class Broken(Verdict):
    outcome = CheckOutcome.FAILED


class NotApplicable(Verdict):
    outcome = CheckOutcome.SKIPPED


class Unjudged(Verdict):
    outcome = CheckOutcome.UNJUDGED


class Silent(Unjudged):
    """Not a single answer, whatever is asked."""


@dataclass(frozen=True)
class Result:
    """One check, judged."""

    name: str
    area: str
    rule: str
    outcome: CheckOutcome
    seconds: float
    reason: str = ""
    # The last calls and their answers, oldest first.
    answers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SuiteReport:
    """The whole suite, judged."""

    target: str
    results: list[Result]
    machines: list[str]
    """Ids of the machines that the suite has moved."""
    leftovers: list[str]
    """What could not be put back as it was found, one sentence each."""
    trouble: str = ""
    """What kept the suite from its last checks."""

    def count(self, outcome: CheckOutcome) -> int:
        return sum(result.outcome is outcome for result in self.results)
