from bigfleet.api.v1alpha1 import capacity_pb2 as _capacity_pb2
from bigfleet.api.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ShardReport(_message.Message):
    __slots__ = ("shard_id", "cycle", "timestamp_unix_nanos", "shard_epoch", "summary", "shortfalls", "instruction_acks", "shard_address", "domains", "listed", "clusters", "listed_cut")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_ACKS_FIELD_NUMBER: _ClassVar[int]
    SHARD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    LISTED_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    LISTED_CUT_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    cycle: int
    timestamp_unix_nanos: int
    shard_epoch: int
    summary: ShardSummary
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    instruction_acks: _containers.RepeatedCompositeFieldContainer[InstructAck]
    shard_address: str
    domains: OwnedDomains
    listed: _containers.RepeatedCompositeFieldContainer[DomainHoldings]
    clusters: _containers.RepeatedScalarFieldContainer[str]
    listed_cut: int
    def __init__(self, shard_id: _Optional[str] = ..., cycle: _Optional[int] = ..., timestamp_unix_nanos: _Optional[int] = ..., shard_epoch: _Optional[int] = ..., summary: _Optional[_Union[ShardSummary, _Mapping]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ..., instruction_acks: _Optional[_Iterable[_Union[InstructAck, _Mapping]]] = ..., shard_address: _Optional[str] = ..., domains: _Optional[_Union[OwnedDomains, _Mapping]] = ..., listed: _Optional[_Iterable[_Union[DomainHoldings, _Mapping]]] = ..., clusters: _Optional[_Iterable[str]] = ..., listed_cut: _Optional[int] = ...) -> None: ...

class DomainHoldings(_message.Message):
    __slots__ = ("provider", "topology_key", "topology_value", "machines", "bound")
    class BoundEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    provider: str
    topology_key: str
    topology_value: str
    machines: _containers.RepeatedCompositeFieldContainer[MachineCount]
    bound: _containers.ScalarMap[str, int]
    def __init__(self, provider: _Optional[str] = ..., topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., machines: _Optional[_Iterable[_Union[MachineCount, _Mapping]]] = ..., bound: _Optional[_Mapping[str, int]] = ...) -> None: ...

class MachineCount(_message.Message):
    __slots__ = ("instance_type", "state", "count")
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    instance_type: str
    state: _provider_pb2.MachineState
    count: int
    def __init__(self, instance_type: _Optional[str] = ..., state: _Optional[_Union[_provider_pb2.MachineState, str]] = ..., count: _Optional[int] = ...) -> None: ...

class OwnedDomains(_message.Message):
    __slots__ = ("everything", "domains", "leaving")
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    everything: bool
    domains: _containers.RepeatedCompositeFieldContainer[TopologyDomain]
    leaving: _containers.RepeatedCompositeFieldContainer[TopologyDomain]
    def __init__(self, everything: _Optional[bool] = ..., domains: _Optional[_Iterable[_Union[TopologyDomain, _Mapping]]] = ..., leaving: _Optional[_Iterable[_Union[TopologyDomain, _Mapping]]] = ...) -> None: ...

class TopologyDomain(_message.Message):
    __slots__ = ("topology_key", "topology_value")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ...) -> None: ...

class ShardSummary(_message.Message):
    __slots__ = ("total_machines", "free_machines", "per_instance_type_counts", "per_zone_counts")
    class PerInstanceTypeCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PerZoneCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_MACHINES_FIELD_NUMBER: _ClassVar[int]
    FREE_MACHINES_FIELD_NUMBER: _ClassVar[int]
    PER_INSTANCE_TYPE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PER_ZONE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    total_machines: int
    free_machines: int
    per_instance_type_counts: _containers.ScalarMap[str, int]
    per_zone_counts: _containers.ScalarMap[str, int]
    def __init__(self, total_machines: _Optional[int] = ..., free_machines: _Optional[int] = ..., per_instance_type_counts: _Optional[_Mapping[str, int]] = ..., per_zone_counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Shortfall(_message.Message):
    __slots__ = ("requirements", "deficit", "priority", "age_cycles", "interruption_penalty_bucket")
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    DEFICIT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    AGE_CYCLES_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    requirements: _containers.RepeatedCompositeFieldContainer[_capacity_pb2.NodeSelectorRequirement]
    deficit: _provider_pb2.Resources
    priority: int
    age_cycles: int
    interruption_penalty_bucket: _capacity_pb2.PenaltyBucket
    def __init__(self, requirements: _Optional[_Iterable[_Union[_capacity_pb2.NodeSelectorRequirement, _Mapping]]] = ..., deficit: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., priority: _Optional[int] = ..., age_cycles: _Optional[int] = ..., interruption_penalty_bucket: _Optional[_Union[_capacity_pb2.PenaltyBucket, str]] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("coordinator_term", "acknowledged", "instructions", "founded_unix_ns", "domains_assigned", "assign_by", "clusters_elsewhere", "quotas")
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    FOUNDED_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_BY_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    coordinator_term: int
    acknowledged: bool
    instructions: _containers.RepeatedCompositeFieldContainer[CoordinatorInstruction]
    founded_unix_ns: int
    domains_assigned: bool
    assign_by: str
    clusters_elsewhere: _containers.RepeatedCompositeFieldContainer[ClusterBinding]
    quotas: QuotaSlices
    def __init__(self, coordinator_term: _Optional[int] = ..., acknowledged: _Optional[bool] = ..., instructions: _Optional[_Iterable[_Union[CoordinatorInstruction, _Mapping]]] = ..., founded_unix_ns: _Optional[int] = ..., domains_assigned: _Optional[bool] = ..., assign_by: _Optional[str] = ..., clusters_elsewhere: _Optional[_Iterable[_Union[ClusterBinding, _Mapping]]] = ..., quotas: _Optional[_Union[QuotaSlices, _Mapping]] = ...) -> None: ...

class QuotaSlices(_message.Message):
    __slots__ = ("slices", "provider_regions")
    class ProviderRegionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SLICES_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REGIONS_FIELD_NUMBER: _ClassVar[int]
    slices: _containers.RepeatedCompositeFieldContainer[QuotaSlice]
    provider_regions: _containers.ScalarMap[str, str]
    def __init__(self, slices: _Optional[_Iterable[_Union[QuotaSlice, _Mapping]]] = ..., provider_regions: _Optional[_Mapping[str, str]] = ...) -> None: ...

class QuotaSlice(_message.Message):
    __slots__ = ("provider", "region", "slots")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    slots: int
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class ClusterBinding(_message.Message):
    __slots__ = ("cluster_id", "shard_id")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    shard_id: str
    def __init__(self, cluster_id: _Optional[str] = ..., shard_id: _Optional[str] = ...) -> None: ...

class CoordinatorInstruction(_message.Message):
    __slots__ = ("coordinator_term", "sequence_number", "instruction_id", "assign_domain", "unassign_domain", "reassign_speculative", "cross_shard_drain", "transfer_ownership")
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    UNASSIGN_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    REASSIGN_SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    CROSS_SHARD_DRAIN_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_OWNERSHIP_FIELD_NUMBER: _ClassVar[int]
    coordinator_term: int
    sequence_number: int
    instruction_id: str
    assign_domain: AssignDomain
    unassign_domain: UnassignDomain
    reassign_speculative: ReassignSpeculative
    cross_shard_drain: CrossShardDrain
    transfer_ownership: TransferOwnership
    def __init__(self, coordinator_term: _Optional[int] = ..., sequence_number: _Optional[int] = ..., instruction_id: _Optional[str] = ..., assign_domain: _Optional[_Union[AssignDomain, _Mapping]] = ..., unassign_domain: _Optional[_Union[UnassignDomain, _Mapping]] = ..., reassign_speculative: _Optional[_Union[ReassignSpeculative, _Mapping]] = ..., cross_shard_drain: _Optional[_Union[CrossShardDrain, _Mapping]] = ..., transfer_ownership: _Optional[_Union[TransferOwnership, _Mapping]] = ...) -> None: ...

class AssignDomain(_message.Message):
    __slots__ = ("topology_key", "topology_value")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ...) -> None: ...

class UnassignDomain(_message.Message):
    __slots__ = ("topology_key", "topology_value", "unless_bound")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    UNLESS_BOUND_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    unless_bound: bool
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., unless_bound: _Optional[bool] = ...) -> None: ...

class ReassignSpeculative(_message.Message):
    __slots__ = ("machine_ids",)
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CrossShardDrain(_message.Message):
    __slots__ = ("machine_ids", "preemptor_priority")
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    preemptor_priority: int
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ..., preemptor_priority: _Optional[int] = ...) -> None: ...

class TransferOwnership(_message.Message):
    __slots__ = ("machine_ids", "from_shard_id", "to_shard_id")
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    TO_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    from_shard_id: str
    to_shard_id: str
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ..., from_shard_id: _Optional[str] = ..., to_shard_id: _Optional[str] = ...) -> None: ...

class InstructAck(_message.Message):
    __slots__ = ("instruction_id", "outcome", "reason")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[InstructAck.Outcome]
        ACCEPTED: _ClassVar[InstructAck.Outcome]
        REJECTED_STALE: _ClassVar[InstructAck.Outcome]
        REJECTED_INVALID: _ClassVar[InstructAck.Outcome]
        FAILED: _ClassVar[InstructAck.Outcome]
    OUTCOME_UNSPECIFIED: InstructAck.Outcome
    ACCEPTED: InstructAck.Outcome
    REJECTED_STALE: InstructAck.Outcome
    REJECTED_INVALID: InstructAck.Outcome
    FAILED: InstructAck.Outcome
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    outcome: InstructAck.Outcome
    reason: str
    def __init__(self, instruction_id: _Optional[str] = ..., outcome: _Optional[_Union[InstructAck.Outcome, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class AssignDomainRequest(_message.Message):
    __slots__ = ("topology_key", "topology_value", "shard_id")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    shard_id: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., shard_id: _Optional[str] = ...) -> None: ...

class AssignDomainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnassignDomainRequest(_message.Message):
    __slots__ = ("topology_key", "topology_value")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ...) -> None: ...

class UnassignDomainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveShardRequest(_message.Message):
    __slots__ = ("shard_id",)
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    def __init__(self, shard_id: _Optional[str] = ...) -> None: ...

class RemoveShardResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[ShardRegistryEntry]
    def __init__(self, shards: _Optional[_Iterable[_Union[ShardRegistryEntry, _Mapping]]] = ...) -> None: ...

class ShardRegistryEntry(_message.Message):
    __slots__ = ("shard_id", "address", "registered_at_unix_ns", "last_heartbeat_unix_ns")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    address: str
    registered_at_unix_ns: int
    last_heartbeat_unix_ns: int
    def __init__(self, shard_id: _Optional[str] = ..., address: _Optional[str] = ..., registered_at_unix_ns: _Optional[int] = ..., last_heartbeat_unix_ns: _Optional[int] = ...) -> None: ...

class ListDomainAssignmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDomainAssignmentsResponse(_message.Message):
    __slots__ = ("assignments",)
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    assignments: _containers.RepeatedCompositeFieldContainer[DomainAssignment]
    def __init__(self, assignments: _Optional[_Iterable[_Union[DomainAssignment, _Mapping]]] = ...) -> None: ...

class DomainAssignment(_message.Message):
    __slots__ = ("topology_key", "topology_value", "shard_id")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    shard_id: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., shard_id: _Optional[str] = ...) -> None: ...

class ListQuotasRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQuotasResponse(_message.Message):
    __slots__ = ("allocations",)
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    allocations: _containers.RepeatedCompositeFieldContainer[QuotaAllocation]
    def __init__(self, allocations: _Optional[_Iterable[_Union[QuotaAllocation, _Mapping]]] = ...) -> None: ...

class QuotaAllocation(_message.Message):
    __slots__ = ("provider", "region", "per_shard")
    class PerShardEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PER_SHARD_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    per_shard: _containers.ScalarMap[str, int]
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., per_shard: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListProvidersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProvidersResponse(_message.Message):
    __slots__ = ("providers",)
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    providers: _containers.RepeatedCompositeFieldContainer[ProviderEntry]
    def __init__(self, providers: _Optional[_Iterable[_Union[ProviderEntry, _Mapping]]] = ...) -> None: ...

class ProviderEntry(_message.Message):
    __slots__ = ("name", "address", "region")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    region: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class SetQuotaRequest(_message.Message):
    __slots__ = ("provider", "region", "shard_id", "slots")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    shard_id: str
    slots: int
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., shard_id: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class SetQuotaResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetProviderRequest(_message.Message):
    __slots__ = ("provider",)
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    provider: ProviderEntry
    def __init__(self, provider: _Optional[_Union[ProviderEntry, _Mapping]] = ...) -> None: ...

class SetProviderResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveProviderRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveProviderResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClustersResponse(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[ClusterBinding]
    def __init__(self, clusters: _Optional[_Iterable[_Union[ClusterBinding, _Mapping]]] = ...) -> None: ...

class ListShardReportsRequest(_message.Message):
    __slots__ = ("shard_id",)
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    def __init__(self, shard_id: _Optional[str] = ...) -> None: ...

class ListShardReportsResponse(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[ShardReportSnapshot]
    def __init__(self, reports: _Optional[_Iterable[_Union[ShardReportSnapshot, _Mapping]]] = ...) -> None: ...

class ShardReportSnapshot(_message.Message):
    __slots__ = ("shard_id", "cycle", "received_at_unix_ns", "summary", "shortfalls")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    cycle: int
    received_at_unix_ns: int
    summary: ShardSummary
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    def __init__(self, shard_id: _Optional[str] = ..., cycle: _Optional[int] = ..., received_at_unix_ns: _Optional[int] = ..., summary: _Optional[_Union[ShardSummary, _Mapping]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ...) -> None: ...

class JoinRaftClusterRequest(_message.Message):
    __slots__ = ("node_id", "raft_address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RAFT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    raft_address: str
    def __init__(self, node_id: _Optional[str] = ..., raft_address: _Optional[str] = ...) -> None: ...

class JoinRaftClusterResponse(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[RaftMember]
    def __init__(self, members: _Optional[_Iterable[_Union[RaftMember, _Mapping]]] = ...) -> None: ...

class RaftMember(_message.Message):
    __slots__ = ("name", "peer_url")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_URL_FIELD_NUMBER: _ClassVar[int]
    name: str
    peer_url: str
    def __init__(self, name: _Optional[str] = ..., peer_url: _Optional[str] = ...) -> None: ...

class SnapshotSaveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotSaveChunk(_message.Message):
    __slots__ = ("meta_json", "data")
    META_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    meta_json: bytes
    data: bytes
    def __init__(self, meta_json: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...
