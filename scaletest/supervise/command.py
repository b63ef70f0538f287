"""What is needed to start a process."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """How to start a process. `env` is added to what its starter gives it; `nice` lowers its share of a busy CPU."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
