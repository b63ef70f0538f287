"""A report that says something else than there is: wrong when it was sent, or when it was kept."""

from collections.abc import Mapping

import pytest

from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.windows import soak_window
from scaletest.judge.prometheus import Prometheus, Sample, Series
from scaletest.judge.readings.readings import read_gate
from tests.unit.plans import smoke_plan

PLAN = smoke_plan(150)
GATE = next(gate for gate in all_gates(PLAN) if gate.key == "reportsWrong")
THERE_ARE = {"zone-a": 700.0, "zone-b": 667.0, "free": 1300.0}
OF_INSTANCE_TYPES = {"c6i.2xlarge": 1367.0, "free": 1300.0}
OF_THE_START = {**THERE_ARE, "free": 1335.0}


class Told(Prometheus):
    """What the coordinator keeps and what the shard sent, beside the provider's own count, all of them constant."""

    def __init__(self, kept: Mapping[str, float], sent: Mapping[str, float], incomplete_lists: float = 0) -> None:
        self._kept, self._sent, self._incomplete_lists = kept, sent, incomplete_lists

    def _of(self, query: str) -> Mapping[str, float]:
        if "bigfleet_provider_" in query:
            return THERE_ARE
        if "bigfleet_coordinator_reported" in query:
            return self._kept
        return self._sent if "bigfleet_shard_reported" in query else {"": 1.0}

    async def samples(self, query: str, at: float | None = None) -> list[Sample]:
        if "violations_total" in query:
            return [Sample({}, self._incomplete_lists)]
        # What a claim may be off besides half a percent.
        return [Sample({"what": what}, 3.0) for what in self._of(query)]

    async def series(self, query: str, start: float, end: float, step_seconds: float = 5) -> list[Series]:
        times = [start + step_seconds * number for number in range(int((end - start) / step_seconds) + 1)]
        return [({"what": what}, [(at, value) for at in times]) for what, value in self._of(query).items()]


@pytest.mark.parametrize(
    ("kept", "sent", "component"),
    [
        pytest.param(OF_THE_START, THERE_ARE, "coordinator", id="the first report is kept"),
        pytest.param(OF_INSTANCE_TYPES, OF_INSTANCE_TYPES, "shard", id="instance types are sent as zones"),
        pytest.param({}, THERE_ARE, "coordinator", id="nothing is kept"),
        pytest.param(OF_THE_START, OF_THE_START, "shard", id="the shard sends what was"),
    ],
)
async def test_the_one_that_first_says_something_else_is_to_blame(
    kept: Mapping[str, float], sent: Mapping[str, float], component: str
) -> None:
    reading = await read_gate(Told(kept, sent), GATE, PLAN, soak_window(PLAN, 1000, 1150))
    assert reading.value is not None and not GATE.holds(reading.value)
    assert (reading.component or GATE.component) == component


async def test_a_shard_cannot_report_machines_that_no_list_told_it_of() -> None:
    told = Told(OF_THE_START, OF_THE_START, incomplete_lists=1)
    assert (await read_gate(told, GATE, PLAN, soak_window(PLAN, 1000, 1150))).component == "provider"


async def test_a_report_that_is_a_cycle_behind_is_no_finding() -> None:
    behind = {**THERE_ARE, "free": 1303.0}
    reading = await read_gate(Told(behind, behind), GATE, PLAN, soak_window(PLAN, 1000, 1150))
    assert reading.value == 0
