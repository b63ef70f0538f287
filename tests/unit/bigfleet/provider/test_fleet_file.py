"""The fleet file is read strictly: a mistake in it is named with its place."""

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bigfleet.core.machines import CapacityType, MachineState
from bigfleet.provider.fake.fleet_file import FleetError, read_fleet

FLEET: dict[str, Any] = {
    "kinds": {
        "m6i.large": {
            "instanceType": "m6i.large",
            "zone": "zone-a",
            "capacityType": "Spot",
            "pricePerHour": 1.0,
            "interruptionProbability": 0.05,
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "labels": {"topology.bigfleet/rack": "zone-a-rack-1"},
        }
    },
    "machines": [
        {
            "idPrefix": "conf-c0",
            "kind": "m6i.large",
            "count": 2,
            "state": "Configured",
            "cluster": "kwok-cluster-0",
            "metadata": {"bigfleet.lucy.sh/assigned-priority": "1000"},
        },
        {"idPrefix": "spec", "kind": "m6i.large", "count": 1, "state": "Speculative"},
        {"idPrefix": "idle", "kind": "m6i.large", "count": 1, "state": "Idle"},
    ],
}


def write(directory: Path, fleet: Any) -> Path:
    path = directory / "fleet.json"
    path.write_bytes(msgspec.json.encode(fleet))
    return path


def changed(*path: str | int, value: Any) -> dict[str, Any]:
    """FLEET with the value at `path` replaced."""
    fleet = copy.deepcopy(FLEET)
    place: Any = fleet
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return fleet


def test_machines_are_made_from_batches(tmp_path: Path) -> None:
    fleet = read_fleet(write(tmp_path, FLEET))
    bound = [machine for machine in fleet.machines if machine.cluster]
    free = [machine for machine in fleet.machines if not machine.cluster]
    assert [(machine.id, machine.state, machine.cluster, machine.host) for machine in bound] == [
        ("conf-c0-m6i.large-0", MachineState.CONFIGURING, "kwok-cluster-0", "host-conf-c0-m6i.large-0"),
        ("conf-c0-m6i.large-1", MachineState.CONFIGURING, "kwok-cluster-0", "host-conf-c0-m6i.large-1"),
    ]
    assert bound[0].metadata == {"bigfleet.lucy.sh/assigned-priority": "1000"}
    assert fleet.clusters == ["kwok-cluster-0"]
    assert [(machine.id, machine.state, machine.host) for machine in free] == [
        ("spec-m6i.large-0", MachineState.SPECULATIVE, ""),
        ("idle-m6i.large-0", MachineState.IDLE, "host-idle-m6i.large-0"),
    ]
    shape = free[0].shape
    assert (shape.capacity_type, shape.price_per_hour) == (CapacityType.SPOT, 1.0)


KIND = ("kinds", "m6i.large")


@pytest.mark.parametrize(
    ("fleet", "complaint"),
    [
        ([], "Expected `object`"),
        (changed("extra", value=1), "unknown field `extra`"),
        (changed(*KIND, "colour", value="red"), "unknown field `colour`"),
        (changed("machines", 0, "zone", value="a"), r"unknown field `zone` - at `\$.machines\[0\]`"),
        (changed(*KIND, "capacityType", value="Lease"), "Invalid enum value 'Lease'"),
        (changed(*KIND, "pricePerHour", value=-1.0), r"\$.kinds.m6i.large.pricePerHour: -1.0 is not a finite number"),
        (changed(*KIND, "interruptionProbability", value=1.5), r"interruptionProbability: 1.5 is not in \[0, 1\]"),
        (changed(*KIND, "interruptionProbability", value=0.0), "a Spot machine must declare one above 0"),
        (changed(*KIND, "allocatable", value={"cpu": "four"}), r"\$.kinds.m6i.large.allocatable: 'four' is not"),
        (changed(*KIND, "labels", value={"topology.kubernetes.io/zone": "z"}), "zone has a field of its own"),
        (changed(*KIND, "zone", value=""), "instanceType and zone must not be empty"),
        (changed("machines", 1, "kind", value="huge"), r"\$.machines\[1\].kind: no kind 'huge'"),
        (changed("machines", 1, "count", value=-1), r"\$.machines\[1\].count: -1 is negative"),
        (changed("machines", 1, "state", value="Draining"), "Invalid enum value 'Draining'"),
        (changed("machines", 1, "cluster", value="c"), r"\$.machines\[1\].cluster: a Configured machine has one"),
        (changed("machines", 0, "cluster", value=""), r"\$.machines\[0\].cluster: a Configured machine has one"),
        (changed("machines", 1, "metadata", value={"a": "b"}), "only a Configured machine has some"),
        (changed("machines", 1, "idPrefix", value="Spec_1"), "not a DNS-1123 name"),
        (changed("machines", 2, "idPrefix", value="spec"), "two machines are called 'spec-m6i.large-0'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, fleet: Any, complaint: str) -> None:
    path = write(tmp_path, fleet)
    with pytest.raises(FleetError, match=complaint) as error:
        read_fleet(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_missing_or_no_json_is_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="No such file"):
        read_fleet(tmp_path / "nowhere.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(FleetError, match=r"bad\.json: Input data was truncated"):
        read_fleet(tmp_path / "bad.json")
