"""What goes over the wire and into a cluster: generated code is current, field numbers are upstream's."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import descriptor_pb2

from bigfleet.api.v1alpha1 import capacity_pb2, coordinator_pb2, provider_pb2, shard_pb2, shardread_pb2
from scaletest.project import PROJECT

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


# Every message, and every field with its number, written down a second time. Those from 100 on are ours.
SPEC = """
ClusterCapacityNeeds: cluster_id=1 timestamp_unix_nanos=2 needs=3
CapacityNeed: requirements=1 aggregate_resources=2 priority=3 spread=5 interruption_penalty_bucket=6
  reclamation_penalty_bucket=7 min_unit=8 group=9
NodeSelectorRequirement: key=1 operator=2 values=3
TopologySpread: topology_key=1 max_skew=2 when_unsatisfiable=3

OperatorMessage: hello=1 rollup=2 bootstrap_response=3 reclaim_ack=4 drain_report=100
ShardMessage: ack=1 bootstrap_request=2 reclaim_instruction=3 node_state_update=4 available_capacity=5
Hello: cluster_id=1 protocol_version=3
Acknowledgement: echo=1 coordinator_term=2 shard_epoch=3
BootstrapRequest: request_id=1 requirements=2 cluster_id=3 machine_id=100
BootstrapBlobResponse: request_id=1 user_data=2 ttl_seconds=3 error=4
ReclaimInstruction: instruction_id=1 nodes=2 grace_period_seconds=3 preemptor_priority=4
ReclaimAck: instruction_id=1 nodes_started=2
NodeStateUpdate: supersedes_key=1 machine_id=2 cluster_id=3 state=4 node_name=5 provider_id=6 last_error=8 labels=9
  resources=10 taints=11 removed=100
Taint: key=1 value=2 effect=3
AvailableCapacityUpdate: supersedes_key=1 requirements=2 resources=3 available_count=4 confidence=5 cost_per_hour=6

HostRef: provider=1 ref=2
Resources: resources=1
Machine: id=1 state=2 host=3 instance_type=4 zone=5 capacity_type=6 price_per_hour=7 interruption_probability=8
  resources=9 labels=10 last_error=12 allocatable=13 cluster=14 shard_metadata=15
MachineRef: id=1
MachineList: machines=1 revision=2 removed_ids=100 full=101 more=102
ListFilter: states=1 max_results=4 since_revision=5 shard_id=100
CreateRequest: machine_id=1 shard_id=3 shard_epoch=4 sequence_number=5
ConfigureRequest: machine_id=1 cluster_id=2 bootstrap_blob=3 shard_id=4 shard_epoch=5 sequence_number=6
  shard_metadata=7
DrainRequest: machine_id=1 grace_period_seconds=2 shard_id=3 shard_epoch=4 sequence_number=5
DeleteRequest: machine_id=1 shard_id=2 shard_epoch=3 sequence_number=4
TransitionAck: operation_id=1 machine=2

ShardReport: shard_id=1 cycle=2 timestamp_unix_nanos=3 shard_epoch=4 summary=5 shortfalls=6 instruction_acks=7
  shard_address=8 domains=100 listed=101 clusters=102 listed_cut=103
ShardSummary: total_machines=1 free_machines=2 per_instance_type_counts=3 per_zone_counts=4
Shortfall: requirements=1 deficit=2 priority=3 age_cycles=5 interruption_penalty_bucket=6
ReportAck: coordinator_term=1 acknowledged=2 instructions=3 founded_unix_ns=100 domains_assigned=101
  assign_by=102 clusters_elsewhere=103 quotas=104
CoordinatorInstruction: coordinator_term=1 sequence_number=2 instruction_id=3 assign_domain=4 unassign_domain=5
  reassign_speculative=6 cross_shard_drain=7 transfer_ownership=8
AssignDomain: topology_key=1 topology_value=2
UnassignDomain: topology_key=1 topology_value=2 unless_bound=100
ReassignSpeculative: machine_ids=1
CrossShardDrain: machine_ids=1 preemptor_priority=2
TransferOwnership: machine_ids=1 from_shard_id=2 to_shard_id=3
InstructAck: instruction_id=1 outcome=2 reason=3
AssignDomainRequest: topology_key=1 topology_value=2 shard_id=3
AssignDomainResponse:
UnassignDomainRequest: topology_key=1 topology_value=2
UnassignDomainResponse:
RemoveShardRequest: shard_id=1
RemoveShardResponse:
ListShardsRequest:
ListShardsResponse: shards=1
ShardRegistryEntry: shard_id=1 address=2 registered_at_unix_ns=3 last_heartbeat_unix_ns=4
ListDomainAssignmentsRequest:
ListDomainAssignmentsResponse: assignments=1
DomainAssignment: topology_key=1 topology_value=2 shard_id=3
ListQuotasRequest:
ListQuotasResponse: allocations=1
QuotaAllocation: provider=1 region=2 per_shard=3
ListProvidersRequest:
ListProvidersResponse: providers=1
ProviderEntry: name=1 address=2 region=3
ListShardReportsRequest: shard_id=1
ListShardReportsResponse: reports=1
ShardReportSnapshot: shard_id=1 cycle=2 received_at_unix_ns=3 summary=4 shortfalls=5
JoinRaftClusterRequest: node_id=1 raft_address=2
JoinRaftClusterResponse: members=100
SnapshotSaveRequest:
SnapshotSaveChunk: meta_json=1 data=2

InspectNeedsRequest: cluster_id=1 limit=2
InspectNeedsResponse: header=1 need=2
InspectNeedsHeader: cycle=1 computed_at_unix_nanos=2 total_needs=3 reclaims_waiting_for_rate=100
  reclaims_waiting_for_session=101 full_quotas=102
NeedView: need=1 cluster_id=2 arrival_unix_nanos=3 profile_fingerprint=4 satisfied=5 residual_deficit=6
  claimed_machine_count=7 bootstrap_count=8 provision_count=9 same_domain=10 same_satisfiable=11 acquisition_parked=12
  parked_age_cycles=13 age_cycles_unmet=14 unmet_reason=15
"""
# Numbers that were somebody's, or are to be nobody's.
RESERVED = {
    "CapacityNeed": {4},
    "Hello": {2},
    "NodeStateUpdate": {7},
    "AvailableCapacityUpdate": {7, 8, 9},
    "Machine": {11},
    "ListFilter": {2, 3},
    "CreateRequest": {2},
    "ShardSummary": {5, 6},
    "Shortfall": {4},
}
# Messages that are ours as a whole.
OURS = {
    "ClusterBinding",
    "ListClustersRequest",
    "ListClustersResponse",
    "DomainHoldings",
    "DrainReport",
    "FullQuota",
    "MachineCount",
    "OwnedDomains",
    "QuotaSlice",
    "QuotaSlices",
    "RaftMember",
    "RemoveProviderRequest",
    "RemoveProviderResponse",
    "SetProviderRequest",
    "SetProviderResponse",
    "SetQuotaRequest",
    "SetQuotaResponse",
    "TopologyDomain",
}
ENUMS = {
    "Operator": ["OPERATOR_UNSPECIFIED", "IN", "NOT_IN", "EXISTS", "DOES_NOT_EXIST", "SAME"],
    "WhenUnsatisfiable": ["WHEN_UNSATISFIABLE_UNSPECIFIED", "DO_NOT_SCHEDULE", "SCHEDULE_ANYWAY"],
    "PenaltyBucket": [
        *("PENALTY_BUCKET_UNSPECIFIED", "ZERO", "HALF_DOLLAR"),
        *(f"UP_TO_{2 ** (number - 3)}" for number in range(3, 27)),
        "PINNED",
    ],
    "Confidence": ["CONFIDENCE_UNSPECIFIED", "NONE", "LOW", "MEDIUM", "HIGH"],
    "MachineState": [
        *("MACHINE_STATE_UNSPECIFIED", "SPECULATIVE", "CREATING", "IDLE", "CONFIGURING"),
        *("CONFIGURED", "DRAINING", "DELETING", "FAILED"),
    ],
    "CapacityType": ["CAPACITY_TYPE_UNSPECIFIED", "BARE_METAL", "RESERVED", "ON_DEMAND", "SPOT"],
    "Outcome": ["OUTCOME_UNSPECIFIED", "ACCEPTED", "REJECTED_STALE", "REJECTED_INVALID", "FAILED"],
    "UnmetReason": [
        *("UNMET_REASON_UNSPECIFIED", "PRIORITY_STARVED", "NO_MATCHING_SUPPLY", "TOPOLOGY_UNSATISFIABLE"),
        "PREEMPTION_EXHAUSTED",
    ],
}
SERVICES = {
    "Shard": ["Session"],
    "CapacityProvider": ["Create", "Configure", "Drain", "Delete", "Get", "List"],
    "Coordinator": [
        *("ReportShard", "AssignDomain", "UnassignDomain", "RemoveShard", "ListShards", "ListDomainAssignments"),
        *("ListQuotas", "ListProviders", "ListShardReports", "JoinRaftCluster", "SnapshotSave"),
        *("SetQuota", "SetProvider", "RemoveProvider", "ListClusters"),  # ours
    ],
    "ShardRead": ["InspectNeeds"],
}
FILES = [one.DESCRIPTOR for one in (capacity_pb2, shard_pb2, provider_pb2, coordinator_pb2, shardread_pb2)]
MESSAGES = {name: message for file in FILES for name, message in file.message_types_by_name.items()}


def specified() -> dict[str, dict[str, int]]:
    """Message → field → number."""
    lines = SPEC.replace("\n  ", " ").splitlines()
    parts = [line.partition(":") for line in lines if line]
    return {
        name: {field: int(number) for field, number in (word.split("=") for word in fields.split())}
        for name, _, fields in parts
    }


def test_every_field_of_every_message_has_the_specs_number() -> None:
    found = {
        name: {field.name: field.number for field in message.fields}
        for name, message in MESSAGES.items()
        if name not in OURS
    }
    assert found == specified()
    assert MESSAGES.keys() >= OURS


def test_numbers_that_are_reserved_stay_so() -> None:
    found = {}
    for name, message in MESSAGES.items():
        described = descriptor_pb2.DescriptorProto()
        message.CopyToProto(described)
        if numbers := {number for one in described.reserved_range for number in range(one.start, one.end)}:
            found[name] = numbers
    assert found == RESERVED


def test_enums_and_services_are_the_specs() -> None:
    enums = {name: enum for file in FILES for name, enum in file.enum_types_by_name.items()}
    enums |= {name: enum for message in MESSAGES.values() for name, enum in message.enum_types_by_name.items()}
    assert {name: [(one.name, one.number) for one in enum.values] for name, enum in enums.items()} == {
        name: [(value, number) for number, value in enumerate(values)] for name, values in ENUMS.items()
    }
    services = {name: service for file in FILES for name, service in file.services_by_name.items()}
    assert {name: [method.name for method in service.methods] for name, service in services.items()} == SERVICES


@dataclass(frozen=True)
class Crd:
    """What a CustomResourceDefinition must say (docs/reference/wire.md#capacityrequest)."""

    scope: str
    short_names: list[str]
    columns: list[tuple[str, str, str]]
    selectable: list[str]
    # Where, and what has to be there; and what a field may say.
    required: dict[str, list[str]]
    enums: dict[str, list[str]]


CRDS = {
    "capacityrequests": Crd(
        "Namespaced",
        ["cr", "crs"],
        [
            ("Phase", "string", ".status.phase"),
            ("Priority", "integer", ".spec.priority"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        [".status.phase"],
        {
            "": ["spec"],
            "spec": ["priority", "resources"],
            "spec.requirements[]": ["key", "operator"],
            "spec.topologySpread[]": ["topologyKey", "maxSkew", "whenUnsatisfiable"],
            "spec.coLocation": ["topologyKey"],
            "spec.coLocation.labelSelector.matchExpressions[]": ["key", "operator"],
            "status": ["phase"],
        },
        {
            "spec.topologySpread[].whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
            "status.phase": ["Pending", "Acknowledged"],
        },
    ),
    "upcomingnodes": Crd(
        "Cluster",
        ["upn"],
        [
            ("Phase", "string", ".status.phase"),
            ("Node", "string", ".status.nodeRef.name"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        [],
        {"": ["spec"], "spec": ["resources"], "spec.taints[]": ["key", "effect"], "status": ["phase"]},
        {
            "spec.taints[].effect": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
            "status.phase": ["Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed"],
        },
    ),
    "availablecapacities": Crd(
        "Cluster",
        ["avc"],
        [
            ("Availability", "string", ".spec.availability"),
            ("Available", "integer", ".spec.availableCount"),
            ("Cost", "string", ".spec.cost"),
        ],
        [],
        {
            "": ["spec"],
            "spec": ["availability", "availableCount", "cost", "resources"],
            "spec.requirements[]": ["key", "operator"],
        },
        {"spec.availability": ["None", "Low", "Medium", "High"]},
    ),
}


def found_in(schema: dict[str, Any], word: str, place: str = "") -> Iterator[tuple[str, Any]]:
    """Where a word like `required` stands in a schema, and what it says there."""
    if word in schema:
        yield place, schema[word]
    for name, inner in schema.get("properties", {}).items():
        yield from found_in(inner, word, f"{place}.{name}" if place else name)
    if "items" in schema:
        yield from found_in(schema["items"], word, f"{place}[]")


def read_crds() -> dict[str, dict[str, Any]]:
    documents = map(yaml.safe_load, map(Path.read_text, API.glob("crds/*.yaml")))
    return {document["spec"]["names"]["plural"]: document for document in documents}


def test_there_are_three_crds_of_the_specs_group() -> None:
    crds = read_crds()
    assert crds.keys() == CRDS.keys()
    for plural, crd in crds.items():
        (version,) = crd["spec"]["versions"]
        assert crd["metadata"]["name"] == f"{plural}.bigfleet.lucy.sh"
        assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
        assert version["subresources"] == {"status": {}}
        assert crd["spec"]["names"]["categories"] == ["fleet"]


@pytest.mark.parametrize("plural", CRDS)
def test_a_crd_has_the_specs_names_columns_selectable_fields_and_validation(plural: str) -> None:
    crd, wanted = read_crds()[plural]["spec"], CRDS[plural]
    (version,) = crd["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    columns = [(one["name"], one["type"], one["jsonPath"]) for one in version["additionalPrinterColumns"]]
    assert (crd["scope"], crd["names"]["shortNames"], columns) == (wanted.scope, wanted.short_names, wanted.columns)
    assert [one["jsonPath"] for one in version.get("selectableFields", [])] == wanted.selectable
    assert dict(found_in(schema, "required")) == wanted.required
    assert dict(found_in(schema, "enum")) == wanted.enums


def test_the_lock_names_no_index_and_hashes_everything() -> None:
    lock = (PROJECT / "requirements.lock").read_text()
    assert "://" not in lock
    pinned = [line for line in lock.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    assert len(pinned) > 30
    assert lock.count("--hash=sha256:") >= len(pinned)
