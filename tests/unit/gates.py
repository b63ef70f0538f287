"""Gates for tests, with everything that does not matter filled in."""

from typing import Any

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.measures import Promql


def a_gate(key: str = "k", title: str = "t", query: str = "q", **rest: Any) -> Gate:
    given = {"bound": 1.0, "unit": "s", "component": "shard", "meaning": "It is slow."} | rest
    return Gate(key, title, Promql(query), **given)
