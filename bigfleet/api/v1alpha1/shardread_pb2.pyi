from bigfleet.api.v1alpha1 import capacity_pb2 as _capacity_pb2
from bigfleet.api.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UnmetReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNMET_REASON_UNSPECIFIED: _ClassVar[UnmetReason]
    PRIORITY_STARVED: _ClassVar[UnmetReason]
    NO_MATCHING_SUPPLY: _ClassVar[UnmetReason]
    TOPOLOGY_UNSATISFIABLE: _ClassVar[UnmetReason]
    PREEMPTION_EXHAUSTED: _ClassVar[UnmetReason]
UNMET_REASON_UNSPECIFIED: UnmetReason
PRIORITY_STARVED: UnmetReason
NO_MATCHING_SUPPLY: UnmetReason
TOPOLOGY_UNSATISFIABLE: UnmetReason
PREEMPTION_EXHAUSTED: UnmetReason

class InspectNeedsRequest(_message.Message):
    __slots__ = ("cluster_id", "limit")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    limit: int
    def __init__(self, cluster_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class InspectNeedsResponse(_message.Message):
    __slots__ = ("header", "need")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    header: InspectNeedsHeader
    need: NeedView
    def __init__(self, header: _Optional[_Union[InspectNeedsHeader, _Mapping]] = ..., need: _Optional[_Union[NeedView, _Mapping]] = ...) -> None: ...

class InspectNeedsHeader(_message.Message):
    __slots__ = ("cycle", "computed_at_unix_nanos", "total_needs", "reclaims_waiting_for_rate", "reclaims_waiting_for_session", "full_quotas")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_AT_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NEEDS_FIELD_NUMBER: _ClassVar[int]
    RECLAIMS_WAITING_FOR_RATE_FIELD_NUMBER: _ClassVar[int]
    RECLAIMS_WAITING_FOR_SESSION_FIELD_NUMBER: _ClassVar[int]
    FULL_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    computed_at_unix_nanos: int
    total_needs: int
    reclaims_waiting_for_rate: int
    reclaims_waiting_for_session: int
    full_quotas: _containers.RepeatedCompositeFieldContainer[FullQuota]
    def __init__(self, cycle: _Optional[int] = ..., computed_at_unix_nanos: _Optional[int] = ..., total_needs: _Optional[int] = ..., reclaims_waiting_for_rate: _Optional[int] = ..., reclaims_waiting_for_session: _Optional[int] = ..., full_quotas: _Optional[_Iterable[_Union[FullQuota, _Mapping]]] = ...) -> None: ...

class FullQuota(_message.Message):
    __slots__ = ("provider", "region", "slots", "taken")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    slots: int
    taken: int
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., slots: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...

class NeedView(_message.Message):
    __slots__ = ("need", "cluster_id", "arrival_unix_nanos", "profile_fingerprint", "satisfied", "residual_deficit", "claimed_machine_count", "bootstrap_count", "provision_count", "same_domain", "same_satisfiable", "acquisition_parked", "parked_age_cycles", "age_cycles_unmet", "unmet_reason")
    NEED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_DEFICIT_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_MACHINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROVISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAME_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SAME_SATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_PARKED_FIELD_NUMBER: _ClassVar[int]
    PARKED_AGE_CYCLES_FIELD_NUMBER: _ClassVar[int]
    AGE_CYCLES_UNMET_FIELD_NUMBER: _ClassVar[int]
    UNMET_REASON_FIELD_NUMBER: _ClassVar[int]
    need: _capacity_pb2.CapacityNeed
    cluster_id: str
    arrival_unix_nanos: int
    profile_fingerprint: str
    satisfied: bool
    residual_deficit: _provider_pb2.Resources
    claimed_machine_count: int
    bootstrap_count: int
    provision_count: int
    same_domain: str
    same_satisfiable: bool
    acquisition_parked: bool
    parked_age_cycles: int
    age_cycles_unmet: int
    unmet_reason: UnmetReason
    def __init__(self, need: _Optional[_Union[_capacity_pb2.CapacityNeed, _Mapping]] = ..., cluster_id: _Optional[str] = ..., arrival_unix_nanos: _Optional[int] = ..., profile_fingerprint: _Optional[str] = ..., satisfied: _Optional[bool] = ..., residual_deficit: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., claimed_machine_count: _Optional[int] = ..., bootstrap_count: _Optional[int] = ..., provision_count: _Optional[int] = ..., same_domain: _Optional[str] = ..., same_satisfiable: _Optional[bool] = ..., acquisition_parked: _Optional[bool] = ..., parked_age_cycles: _Optional[int] = ..., age_cycles_unmet: _Optional[int] = ..., unmet_reason: _Optional[_Union[UnmetReason, str]] = ...) -> None: ...
