from pathlib import Path

import pytest

from bigfleet.sim.reading import SHIPPED, ScenarioError, read_scenario

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
        ("kind: partition", "kind: partitoin", "11: faults[0]: Input tag 'partitoin'"),
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
