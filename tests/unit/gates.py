"""Gates for tests, with everything that does not matter filled in."""

from typing import Any

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Promql


def a_gate(key: str = "k", title: str = "t", query: str = "q", bar: float = 1.0, **rest: Any) -> Gate:
    return Gate(key, title, Promql(query), bar, "s", "shard", "It is slow.", **rest)
