"""Every scenario that ships keeps its promises and repeats its golden trace, byte by byte."""

import json
import math
from collections.abc import Mapping
from xml.etree import ElementTree

import numpy as np
import pytest

from bigfleet.engine.phases.reclaiming import Reclaims, Releases, Shrinking
from bigfleet.sim.cli import GOLDEN
from bigfleet.sim.picture import draw
from bigfleet.sim.play import Played, descriptions, play, play_scenario
from bigfleet.sim.report import report_lines
from bigfleet.sim.scenario.coded import CODED
from bigfleet.sim.scenario.reading import SHIPPED, read_scenario
from bigfleet.sim.scenario.scenario import Scenario
from bigfleet.sim.soak import soak

# Takes seconds: whole in long mode only, its beginning always.
CARDINALITY = "cardinality-2580"
SCENARIOS = [pytest.param(name, marks=[pytest.mark.long] * (name == CARDINALITY)) for name in descriptions()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_repeats_its_golden_trace(name: str) -> None:
    played = play(name)
    assert [check.text for check in played.checks if not check.holds] == []
    assert played.trace == (GOLDEN / f"{name}.jsonl").read_text(), f"if it should change: fauxctl record {name}"


def test_the_2580_needs_settle_and_a_lost_machine_is_replaced_once() -> None:
    scenario, end = read_scenario(SHIPPED / f"{CARDINALITY}.yaml"), 200.0
    bounds = tuple(bound for bound in scenario.expect.actions if bound.from_seconds < end)
    beginning = {
        "duration_seconds": end,
        "provider": scenario.provider.model_copy(update={"repair_seconds": 30.0}),
        "faults": scenario.faults[:1],
        "expect": scenario.expect.model_copy(update={"actions": bounds}),
    }
    played = play_scenario(scenario.model_copy(update=beginning))
    assert [check.text for check in played.checks if not check.holds] == []


def test_without_the_guard_an_empty_rollup_costs_machines() -> None:
    scenario = read_scenario(SHIPPED / "silence-is-not-withdrawal.yaml")
    engine = scenario.engine.model_copy(update={"empty_rollup_guard": False})
    played = play_scenario(scenario.model_copy(update={"engine": engine}))
    broken = [check.text for check in played.checks if not check.holds]
    assert "Reclaims from 0 to 1800 s: 0 at most" in broken


@pytest.mark.parametrize("switch", ["dry_run", "actuation_paused"])
def test_a_fleet_that_is_not_acted_on_stands_still_and_tells_every_reclaim(switch: str) -> None:
    withdrawn = {"steps": [{"at_seconds": 101, "replicas": 0}]}
    held = {"state": "Configured", "cluster": "c", "capacity_type": "BareMetal"}
    played = play_scenario(one_cluster({switch: True, "reclaim_after_seconds": 0}, held, withdrawn))
    assert played.report is not None
    document = played.report.document
    assert document["actions"]["Reclaim"] == 0
    assert document["machines"]["Configured"] == 4
    # In every cycle after the last Pod is gone, and there are ten of them: all, however many are allowed at once.
    assert document["shelved"]["Reclaim"] == 10 * 4
    assert "shelved      40 Reclaims" in report_lines(played.report)


@pytest.mark.parametrize(
    ("capacity_type", "field"),
    [
        ("OnDemand", "on_demand_hold_seconds"),
        ("Spot", "spot_hold_seconds"),
        ("Reserved", "reserved_hold_seconds"),
        ("BareMetal", "bare_metal_hold_seconds"),
    ],
)
@pytest.mark.parametrize(("seconds", "deletes"), [(50, 4), (150, 4), (250, 0), (None, 0)])
def test_a_free_machine_is_kept_as_long_as_a_scenario_says(
    capacity_type: str, field: str, seconds: float | None, deletes: int
) -> None:
    free = {"state": "Idle", "capacity_type": capacity_type, "interruption_probability": 0.1}
    played = play_scenario(one_cluster({field: seconds}, free, {"replicas": 0}))
    assert played.report is not None
    assert played.report.document["actions"]["Delete"] == deletes


def one_cluster(engine: Mapping[str, object], machines: Mapping[str, object], work: Mapping[str, object]) -> Scenario:
    """Four machines and four Pods that fill them, for 200 seconds."""
    size = {"name": "m", "count": 4, "instance_type": "m6i.large", "allocatable": {"cpu": 4}}
    web = {"name": "web", "replicas": 4, "pod": {"cpu": 4}, **work}
    document = {
        "name": "test",
        "description": "One cluster.",
        "duration_seconds": 200,
        "engine": {"empty_rollup_guard": False, "lockstep": True, **engine},
        "machines": [{**size, **machines}],
        "clusters": [{"name": "c", "workloads": [web]}],
    }
    return Scenario.model_validate(document)


def test_every_golden_trace_has_its_scenario() -> None:
    assert {path.stem for path in GOLDEN.glob("*.jsonl")} == set(descriptions())


def test_the_six_scripted_scenarios_of_the_spec_are_there() -> None:
    assert set(CODED) == {
        "training-job-topology",
        "capacity-stockout",
        "priority-inversion",
        "withdrawal",
        "provider-configure-failure",
        "drain-failure-withdrawal",
    }


def test_a_trace_is_numbered_and_says_what_was_done_to_which_machine() -> None:
    events = [json.loads(line) for line in play("priority-inversion").trace.splitlines()]
    assert [event["step"] for event in events] == list(range(len(events)))
    assert [event["kind"] for event in events] == [
        "scenario_start",
        "rollup",
        "rollup",
        "cycle",
        "cycle",
        "scenario_end",
    ]
    assert events[0]["notes"] == "priority-inversion"
    assert events[1] == {"step": 1, "kind": "rollup", "cluster": "batch", "notes": "needs=1"}
    assert events[3]["actions"][0] == {"kind": "Preempt", "machine_id": "m-000", "cluster": "batch"}
    assert events[4]["state"] == {"total": 4, "by_state": {"Configured": 4}, "configured_per_cluster": {"urgent": 4}}


@pytest.fixture(scope="module")
def storm() -> Played:
    return play("fault-storm")


def test_another_seed_is_another_history(storm: Played) -> None:
    assert play("fault-storm", seed=2).trace != storm.trace


def test_the_report_holds_the_same_figures_as_the_trace(storm: Played) -> None:
    assert storm.report is not None
    document = storm.report.document
    done = [a for line in storm.trace.splitlines() for a in json.loads(line).get("actions", [])]
    assert document["actions"]["Bootstrap"] == sum(action["kind"] == "Bootstrap" for action in done)
    assert document["machines"]["lost"] == 11
    assert document["pods"] == {"alive": 132, "bound": 132, "evicted": 0, "killed": document["pods"]["killed"]}
    assert json.loads(json.dumps(document)) == document
    text = "\n".join(report_lines(storm.report))
    assert "✓ every Pod is bound at the end" in text
    assert "132 of 132 bound in 3 clusters" in text


def test_the_report_has_figures_of_every_cycle(storm: Played) -> None:
    assert storm.report is not None
    document = storm.report.document
    columns = document["perCycle"]
    assert {len(column) for column in columns.values()} == {document["cycles"]}
    assert sum(columns["taken"]) == sum(document["actions"].values())
    assert max(columns["inFlight"]) == document["mostInFlight"]
    assert max(columns["shortfalls"]) == document["shortfalls"]["most"]
    assert max(columns["oldestShortfallCycles"]) == document["shortfalls"]["oldestCycles"]
    assert columns["at"] == sorted(columns["at"])
    assert columns.keys() >= {"decided", "decisionMilliseconds"}


def test_the_picture_stands_alone(storm: Played) -> None:
    assert storm.report is not None
    svg = draw(storm.report)
    root = ElementTree.fromstring(svg)
    assert svg.count("http") == 1  # the namespace
    assert not {element.tag.rpartition("}")[2] for element in root.iter()} & {"script", "image", "use", "link"}
    words = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {"fault-storm", "machines", "Pods", "Configured", "Failed", "Bootstrap", "shortfalls (needs unmet)"} <= words


@pytest.mark.parametrize("cycles", [150, pytest.param(50_000, marks=pytest.mark.long)])
def test_a_long_run_leaks_nothing_and_leaves_nothing_stuck(cycles: int) -> None:
    result = soak(cycles)
    assert result.problems == ()
    assert "machines lost" in result.lines[0]


NO_MACHINES = np.zeros(0, np.int32)


@pytest.mark.parametrize(
    ("part", "decision", "nothing", "noticed"),
    [
        (
            Shrinking,
            "reclaims",
            Reclaims(NO_MACHINES, NO_MACHINES, {}, math.inf),
            "clusters hold machines that are not needed",
        ),
        (Releases, "due", NO_MACHINES, "machines are Idle at the end beyond their hold"),
    ],
)
def test_the_soak_notices_an_engine_that_gives_nothing_back(
    part: type, decision: str, nothing: object, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, decision, lambda *_arguments: nothing)
    problems = soak(20).problems
    assert len(problems) == 1
    assert noticed in problems[0]
