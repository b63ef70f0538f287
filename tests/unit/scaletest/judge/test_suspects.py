"""Who is to blame when a gate fails, where another program stands between claim and witness."""

import pytest

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.windows import soak_window
from scaletest.judge.prometheus import Prometheus, Sample
from scaletest.judge.readings.readings import read_gate
from tests.unit.plans import smoke_plan


class Metrics(Prometheus):
    """Each query has the value of the metric that it names."""

    def __init__(self, **values: float) -> None:
        self._values = values

    def _of(self, query: str) -> float:
        return next((value for name, value in self._values.items() if name in query), 0.0)

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        return [Sample({"cluster": f"kwok-cluster-{number}"}, self._of(query)) for number in range(2)]

    async def value(self, query: str, at: float | None = None) -> float | None:
        return self._of(query)

    async def growth(self, counter: str, start: float, end: float) -> float | None:
        return self._of(counter)


PLAN = smoke_plan(160)
GATES = {gate.key: gate for gate in all_gates(PLAN)}


async def blamed(gate: Gate, prometheus: Prometheus) -> str:
    reading = await read_gate(prometheus, gate, PLAN, soak_window(PLAN, 1000, 1160))
    assert reading.value is not None and not gate.holds(reading.value)
    return reading.component or gate.component


@pytest.mark.parametrize(
    ("also", "component"),
    [
        ({}, "shard"),
        ({"unanswered_seconds": 14.0}, "shard"),
        ({"unanswered_seconds": 16.0}, "operator"),
        ({"ledger_oldest_seconds": 61.0}, "provider"),
        ({"provider_error": 2.0}, "provider"),
        ({"unanswered_seconds": 16.0, "ledger_oldest_seconds": 61.0}, "operator"),
    ],
)
async def test_a_machine_that_does_not_come_is_blamed_on_who_stopped_it(also: dict[str, float], component: str) -> None:
    metrics = Metrics(**also, uncovered_seconds=50.0, unreplaced_oldest_seconds=50.0)
    assert await blamed(GATES["uncoveredSeconds"], metrics) == component
    assert await blamed(GATES["lossUnreplacedSeconds"], metrics) == component


async def test_a_shed_without_drains_is_the_operators_if_the_shard_asked_for_them() -> None:
    gate = GATES["shedDrains"]
    assert await blamed(gate, Metrics()) == "shard"
    assert await blamed(gate, Metrics(actions_total=3.0)) == "operator"


async def test_a_machine_announced_too_early_is_the_shards_if_its_clock_says_so() -> None:
    gate = GATES["readyBeforeNode"]
    assert await blamed(gate, Metrics(ready_before_node_total=2.0)) == "operator"
    assert await blamed(gate, Metrics(ready_before_node_total=2.0, configure_phase=0.4)) == "shard"


async def test_a_call_that_is_refused_is_the_shards_fault_unless_the_provider_itself_has_failed() -> None:
    gate = GATES["callsRefused"]
    assert await blamed(gate, Metrics(INTERNAL=0.0, calls_total=6.0)) == "shard"
    assert await blamed(gate, Metrics(INTERNAL=6.0, calls_total=6.0)) == "provider"


@pytest.mark.parametrize(
    ("also", "component"),
    [
        ({"sent_needs_checksum": 0.0}, "operator"),
        ({"sent_needs_checksum": 0.4}, "operator"),
        ({"sent_needs_checksum": 0.9}, "shard"),
        ({"requests_wrong_total": 1.0, "sent_needs_checksum": 0.9}, "pod-controller"),
    ],
)
async def test_a_row_held_wrongly_is_blamed_on_the_first_that_said_it_wrongly(
    also: dict[str, float], component: str
) -> None:
    assert await blamed(GATES["needsWrong"], Metrics(**also, needs_wrong=3.0)) == component


async def test_a_bar_that_holds_accuses_no_program() -> None:
    metrics = Metrics(unanswered_seconds=16.0, uncovered_seconds=3.0)
    reading = await read_gate(metrics, GATES["uncoveredSeconds"], PLAN, soak_window(PLAN, 1000, 1160))
    assert reading.value == 3.0 and reading.component is None
