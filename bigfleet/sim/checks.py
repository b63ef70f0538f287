"""What a scenario promises, and whether it came true."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ScenarioCheck:
    """One promise."""

    text: str
    holds: bool
    # What was seen instead of, or as, the promised.
    seen: str
