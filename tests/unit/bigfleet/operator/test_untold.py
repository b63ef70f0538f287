"""The operator knows of which machines it was asked for a blob and has heard nothing since."""

from unittest.mock import AsyncMock

import pytest
from prometheus_client import CollectorRegistry

from bigfleet.api.v1alpha1.shard_pb2 import NodeStateUpdate
from bigfleet.operator.metrics import OperatorMetrics
from bigfleet.operator.nodestates import NodeStates


async def test_a_machine_is_waited_for_until_the_first_word_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("bigfleet.operator.nodestates.time.monotonic", lambda: now)
    registry = CollectorRegistry()
    states = NodeStates(AsyncMock(), OperatorMetrics(registry), "c", on_recovered=AsyncMock())

    def oldest() -> float | None:
        return registry.get_sample_value("bigfleet_operator_untold_oldest_seconds")

    assert oldest() == 0
    states.expect("a")
    now += 4
    states.expect("b")
    now += 3
    assert oldest() == 7
    states.hear(NodeStateUpdate(machine_id="a"))
    assert oldest() == 3
    states.expect("b")
    assert oldest() == 0, "it was asked for again"
    now += 1_000
    assert oldest() == 0, "its Configure was refused, long ago"
