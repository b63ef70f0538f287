"""What goes over the wire and into a cluster: generated code is current, field numbers are the spec's."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bigfleet.api.v1alpha1 import capacity_pb2, coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2
from scaletest.model.reading import PROJECT

API = PROJECT / "bigfleet" / "api"
PROTOS = sorted((API / "v1alpha1").glob("*.proto"))


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    names = [str(proto.relative_to(PROJECT)) for proto in PROTOS]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *names], cwd=PROJECT, check=True)
    fresh = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py*"))
    assert len(fresh) == 3 * len(PROTOS)
    for path in fresh:
        assert (PROJECT / path).read_text() == (tmp_path / path).read_text(), f"{path} is stale: run `make proto`"


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (
            capacity_pb2.CapacityNeed,
            {"requirements": 1, "aggregate_resources": 2, "priority": 3, "min_unit": 8, "group": 9},
        ),
        (shard_pb2.NodeStateUpdate, {"machine_id": 2, "state": 4, "node_name": 5, "last_error": 8, "taints": 11}),
        (shard_pb2.BootstrapRequest, {"request_id": 1, "requirements": 2, "cluster_id": 3, "machine_id": 100}),
        (
            provider_pb2.Machine,
            {"id": 1, "host": 3, "labels": 10, "last_error": 12, "cluster": 14, "shard_metadata": 15},
        ),
        (provider_pb2.MachineList, {"machines": 1, "revision": 2, "removed_ids": 100}),
        (provider_pb2.ConfigureRequest, {"machine_id": 1, "bootstrap_blob": 3, "shard_epoch": 5, "shard_metadata": 7}),
        (coordinator_pb2.ShardReport, {"shard_id": 1, "summary": 5, "instruction_acks": 7, "shard_address": 8}),
        (shardread_pb2.NeedView, {"need": 1, "residual_deficit": 6, "parked_age_cycles": 13, "unmet_reason": 15}),
    ],
)
def test_field_numbers_are_the_specs(message: type, numbers: dict[str, int]) -> None:
    fields = message.DESCRIPTOR.fields_by_name  # type: ignore[attr-defined]
    assert {name: fields[name].number for name in numbers} == numbers


def test_what_we_add_to_a_message_is_numbered_from_a_hundred() -> None:
    ours = {
        "removed_ids": provider_pb2.MachineList,
        "shard_id": provider_pb2.ListFilter,
        "machine_id": shard_pb2.BootstrapRequest,
        "removed": shard_pb2.NodeStateUpdate,
        "drain_report": shard_pb2.OperatorMessage,
    }
    for name, message in ours.items():
        assert message.DESCRIPTOR.fields_by_name[name].number >= 100


def test_the_crds_have_the_specs_names_columns_and_selectable_fields() -> None:
    crds = {
        crd["spec"]["names"]["plural"]: crd for crd in map(yaml.safe_load, map(Path.read_text, API.glob("crds/*.yaml")))
    }
    assert set(crds) == {"capacityrequests", "upcomingnodes", "availablecapacities"}
    for plural, crd in crds.items():
        version = crd["spec"]["versions"][0]
        assert crd["metadata"]["name"] == f"{plural}.bigfleet.lucy.sh"
        assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
        assert version["subresources"] == {"status": {}}
        assert crd["spec"]["names"]["categories"] == ["fleet"]
    requests = crds["capacityrequests"]["spec"]
    assert requests["scope"] == "Namespaced"
    assert requests["names"]["shortNames"] == ["cr", "crs"]
    assert requests["versions"][0]["selectableFields"] == [{"jsonPath": ".status.phase"}]


def test_the_lock_names_no_index_and_hashes_everything() -> None:
    lock = (PROJECT / "requirements.lock").read_text()
    assert "://" not in lock
    pinned = [line for line in lock.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    assert len(pinned) > 30
    assert lock.count("--hash=sha256:") >= len(pinned)
