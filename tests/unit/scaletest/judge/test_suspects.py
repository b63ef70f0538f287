"""Who is to blame when a gate fails, where another program stands between claim and witness."""

import pytest

from scaletest.judge.gates.gate import Gate
from scaletest.judge.gates.listing import all_gates
from scaletest.judge.gates.suspects import SLOW_LIST
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
        return [Sample({"cluster": f"kwok-cluster-{number}", "le": "185"}, self._of(query)) for number in range(2)]

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
        ({"list_seconds": 1.9}, "shard"),
        ({"list_seconds": 2.1}, "provider"),
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


@pytest.mark.parametrize("key", ["machinesAgree", "freeMachinesAgree", "lossReplacedP99Seconds"])
def test_what_a_shard_knows_late_may_be_the_doing_of_a_slow_list(key: str) -> None:
    assert SLOW_LIST in GATES[key].suspects


async def test_a_cycle_that_waits_for_a_slow_list_is_the_providers() -> None:
    gate = GATES["shardCycleDurationP99Seconds"]
    assert await blamed(gate, Metrics(cycle_duration=6.0, list_seconds=0.5)) == "shard"
    assert await blamed(gate, Metrics(cycle_duration=6.0, list_seconds=6.0)) == "provider"


async def test_a_session_is_redialled_by_the_operator_unless_its_shard_ends_it() -> None:
    gate = GATES["sessionsRedialled"]
    assert await blamed(gate, Metrics(cluster_sessions_total=4.0)) == "operator"
    assert await blamed(gate, Metrics(cluster_sessions_total=4.0, sessions_ended_total=2.0)) == "shard"


async def test_a_node_vanishes_by_the_operator_unless_the_shard_called_its_machine_away() -> None:
    for key, metric in (("nodesVanished", "violations_total"), ("waitingForNodeSeconds", "waiting_for_node")):
        honest, wrong = ({"removed_in_service_total": count, metric: 60.0} for count in (0.0, 40.0))
        assert await blamed(GATES[key], Metrics(**honest)) == "operator"
        assert await blamed(GATES[key], Metrics(**wrong)) == "shard"


async def test_a_node_vanishes_by_the_provider_if_it_only_says_that_it_drains() -> None:
    gate = GATES["nodesVanished"]
    assert (
        await blamed(gate, Metrics(drains_carried_out=0.0, removed_in_service_total=0.0, violations_total=3.0))
        == "operator"
    )
    assert await blamed(gate, Metrics(drains_carried_out=2.0, violations_total=3.0)) == "provider"


async def test_a_blob_is_wrong_by_the_operator_unless_it_was_asked_for_too_few() -> None:
    gate = GATES["blobsWrong"]
    assert await blamed(gate, Metrics(violations_total=4.0)) == "operator"
    assert await blamed(gate, Metrics(violations_total=4.0, ledger_configures_total=2.0)) == "operator"
    assert await blamed(gate, Metrics(violations_total=4.0, ledger_configures_total=9.0)) == "shard"


async def test_pods_are_cut_off_by_the_operator_unless_it_was_told_another_node_or_nothing() -> None:
    gate = GATES["podsCutOff"]
    assert await blamed(gate, Metrics(pods_cut_off_total=9.0)) == "operator"
    assert await blamed(gate, Metrics(pods_cut_off_total=9.0, misnamed_nodes_total=1.0)) == "shard"
    assert await blamed(gate, Metrics(pods_cut_off_total=9.0, ledger_calls_total=8.0)) == "shard"


@pytest.mark.parametrize("key", ["outlivedMachineSeconds", "recordsKeptSeconds"])
async def test_a_record_that_stays_is_the_shards_if_it_has_not_noticed_the_loss(key: str) -> None:
    stays = {"machines_oldest_seconds": 200.0, "records_oldest_seconds": 200.0}
    assert await blamed(GATES[key], Metrics(**stays)) == "operator"
    assert await blamed(GATES[key], Metrics(**stays, bound_machines=1.0)) == "shard"


async def test_a_bar_that_holds_accuses_no_program() -> None:
    metrics = Metrics(unanswered_seconds=16.0, uncovered_seconds=3.0)
    reading = await read_gate(metrics, GATES["uncoveredSeconds"], PLAN, soak_window(PLAN, 1000, 1160))
    assert reading.value == 3.0 and reading.component is None


@pytest.mark.parametrize(("suspicion", "component"), [(0.0, "operator"), (89.0, "shard")])
async def test_a_node_announced_wrongly_is_the_shards_if_its_operator_wrote_down_what_it_was_told(
    suspicion: float, component: str
) -> None:
    # The first metric stands for the suspect's whole query, which names both.
    metrics = Metrics(records_not_as_told_total=suspicion, shape_mismatches_total=89.0)
    assert await blamed(GATES["shapesAnnounced"], metrics) == component


async def test_a_machine_that_is_configured_late_is_blamed_on_the_shard_if_that_spoke_of_it_late() -> None:
    gate = GATES["shardConfigurePhaseP99Seconds"]
    waits = {"configure_phase": 22.0, "waiting_for_node_oldest": 20.0}
    assert await blamed(gate, Metrics(**waits)) == "operator"
    assert await blamed(gate, Metrics(**waits, untold_oldest=20.0)) == "shard"


@pytest.mark.parametrize(("sent_rightly", "component"), [(0.0, "operator"), (1.0, "shard")])
async def test_demand_that_is_always_a_little_wrong_is_blamed_on_whoever_is_first(
    sent_rightly: float, component: str
) -> None:
    assert await blamed(GATES["demandMean"], Metrics(cluster_demand=0.9, sent_demand=sent_rightly)) == component


@pytest.mark.parametrize(("told_incompletely", "component"), [(0.0, "operator"), (3.0, "shard")])
async def test_a_record_leaves_out_what_the_shard_has_not_told(told_incompletely: float, component: str) -> None:
    metrics = Metrics(records_not_as_told=told_incompletely, incomplete_records=3.0)
    assert await blamed(GATES["recordsIncomplete"], metrics) == component
