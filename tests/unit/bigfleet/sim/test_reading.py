from pathlib import Path

import pytest

from bigfleet.sim.scenario.reading import SHIPPED, ScenarioError, read_scenario

GOOD = """\
name: mine
description: A test.
durationSeconds: 100
machines:
  - {name: a, count: 3, state: Idle, instanceType: m6i.large, allocatable: {cpu: 4}}
clusters:
  - name: prod
    workloads:
      - {name: web, replicas: 2, pod: {cpu: 500m}}
faults:
  - {kind: partition, cluster: prod, fromSeconds: 10, toSeconds: 20}
"""


def read(tmp_path: Path, text: str) -> str:
    """The complaint about a scenario."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as error:
        read_scenario(path)
    return str(error.value).replace(f"{path}:", "")


def test_a_good_scenario_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert read_scenario(path).machines[0].allocatable == {"cpu": "4"}


def test_every_shipped_scenario_can_be_read() -> None:
    assert len([read_scenario(path) for path in sorted(SHIPPED.glob("*.yaml"))]) >= 9


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("replicas: 2", "replcas: 2", "9: clusters[0].workloads[0].replcas: unknown field; did you mean replicas?"),
        ("count: 3", "count: 0", "5: machines[0].count: Input should be greater than 0"),
        ("cpu: 4", "cpu: four", "5: machines[0].allocatable.cpu: 'four' is not a Kubernetes quantity"),
        ("durationSeconds: 100\n", "", "1: durationSeconds: is missing"),
        ("cluster: prod,", "cluster: pord,", "1: faults: there is no cluster 'pord'; there are prod"),
        ("toSeconds: 20", "toSeconds: 5", "11: faults[0]: fromSeconds must be below toSeconds"),
        ("kind: partition", "kind: partitoin", "11: faults[0]: there is no kind 'partitoin'; there are 'lose', "),
        ("kind: partition, ", "", "11: faults[0]: kind is missing"),
        (
            "cluster: prod,",
            "clusters: prod,",
            "11: faults[0].cluster: is missing\n11: faults[0].clusters: unknown field",
        ),
        (
            "fromSeconds: 10, toSeconds: 20",
            "fromSeconds: 100, toSeconds: 120",
            "1: faults[0]: 100 s is not before the end",
        ),
        ("cpu: 4", "cpu: -4", "5: machines[0].allocatable.cpu: must be above 0"),
        ("cpu: 500m", "cpu: 0", "9: clusters[0].workloads[0].pod.cpu: must be above 0"),
        ("cpu: 500m", "cpu: 1e30", "9: clusters[0].workloads[0].pod.cpu: must be at most 100T"),
        (
            "workloads:\n",
            "workloads:\n      - {name: web, pod: {cpu: 1}}\n",
            "7: clusters[0]: two workloads are called web",
        ),
        ("pod: {cpu: 500m}", "pod: {gpu: 1}", "1: prod/web: no machine offers gpu"),
        ("state: Idle", "state: Configured", "5: machines[0]: cluster goes with state Configured, and only with it"),
        ("description: A test.", "name: again", "2: name: is given twice"),
        ("clusters:", "clusters: [", "7: "),
    ],
)
def test_a_wrong_scenario_is_refused_with_place_and_reason(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert read(tmp_path, GOOD.replace(old, new)).startswith(complaint)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "the file is empty" in read(tmp_path, "")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        read_scenario(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("expect", "complaint"),
    [
        ("noShortfallFromSeconds: 100", "1: expect.noShortfallFromSeconds: 100 s is not before the end, at 100 s"),
        ("actions: [{action: Preempt}]", "12: expect.actions[0]: give atLeast or atMost"),
        ("actions: [{action: Preempt, atLeast: 3, atMost: 0}]", "12: expect.actions[0]: atLeast is above atMost"),
        (
            "actions: [{action: Preempt, atMost: 0, fromSeconds: 200}]",
            "1: expect.actions[0]: 200 s is not before the end",
        ),
        (
            "actions: [{action: Preempt, atMost: 0, fromSeconds: 20, toSeconds: 10}]",
            "12: expect.actions[0]: fromSeconds must be below toSeconds",
        ),
    ],
)
def test_an_expectation_that_nothing_could_break_is_refused(tmp_path: Path, expect: str, complaint: str) -> None:
    assert read(tmp_path, f"{GOOD}expect: {{{expect}}}\n").startswith(complaint)


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("zones: [zone-q]", "1: faults[1].where.zones: no machine is of 'zone-q'; there are zone-a"),
        ("instanceTypes: [t9]", "1: faults[1].where.instanceTypes: no machine is of 't9'; there are m6i.large"),
    ],
)
def test_a_fault_in_no_place_is_refused(tmp_path: Path, where: str, complaint: str) -> None:
    fault = f"  - {{kind: lose, atSeconds: 30, number: 1, where: {{{where}}}}}\n"
    assert read(tmp_path, GOOD + fault).startswith(complaint)


def test_one_mistake_within_a_section_is_told_once(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD.replace("name: prod\n", "name: prod\n    cuont: 2\n")).splitlines() == [
        "8: clusters[0].cuont: unknown field; did you mean count?"
    ]
