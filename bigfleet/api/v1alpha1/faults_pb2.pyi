from bigfleet.api.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StrikeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STRIKE_KIND_UNSPECIFIED: _ClassVar[StrikeKind]
    STRIKE_LOSE: _ClassVar[StrikeKind]
    STRIKE_VANISH: _ClassVar[StrikeKind]
    STRIKE_INTERRUPT: _ClassVar[StrikeKind]
STRIKE_KIND_UNSPECIFIED: StrikeKind
STRIKE_LOSE: StrikeKind
STRIKE_VANISH: StrikeKind
STRIKE_INTERRUPT: StrikeKind

class GetFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FaultSettings(_message.Message):
    __slots__ = ("refuse_configure", "create_failure_ratio", "configure_failure_ratio", "drain_failure_ratio", "delete_failure_ratio", "stock_out_zones", "slow_factor", "spot_interruption_multiplier", "vanish_rate_per_sec")
    REFUSE_CONFIGURE_FIELD_NUMBER: _ClassVar[int]
    CREATE_FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    DELETE_FAILURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    STOCK_OUT_ZONES_FIELD_NUMBER: _ClassVar[int]
    SLOW_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SPOT_INTERRUPTION_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    VANISH_RATE_PER_SEC_FIELD_NUMBER: _ClassVar[int]
    refuse_configure: bool
    create_failure_ratio: float
    configure_failure_ratio: float
    drain_failure_ratio: float
    delete_failure_ratio: float
    stock_out_zones: _containers.RepeatedScalarFieldContainer[str]
    slow_factor: float
    spot_interruption_multiplier: float
    vanish_rate_per_sec: float
    def __init__(self, refuse_configure: _Optional[bool] = ..., create_failure_ratio: _Optional[float] = ..., configure_failure_ratio: _Optional[float] = ..., drain_failure_ratio: _Optional[float] = ..., delete_failure_ratio: _Optional[float] = ..., stock_out_zones: _Optional[_Iterable[str]] = ..., slow_factor: _Optional[float] = ..., spot_interruption_multiplier: _Optional[float] = ..., vanish_rate_per_sec: _Optional[float] = ...) -> None: ...

class StrikeRequest(_message.Message):
    __slots__ = ("kind", "count", "share", "states", "zones", "clusters", "machine_ids")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    kind: StrikeKind
    count: int
    share: float
    states: _containers.RepeatedScalarFieldContainer[_provider_pb2.MachineState]
    zones: _containers.RepeatedScalarFieldContainer[str]
    clusters: _containers.RepeatedScalarFieldContainer[str]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Union[StrikeKind, str]] = ..., count: _Optional[int] = ..., share: _Optional[float] = ..., states: _Optional[_Iterable[_Union[_provider_pb2.MachineState, str]]] = ..., zones: _Optional[_Iterable[str]] = ..., clusters: _Optional[_Iterable[str]] = ..., machine_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class StrikeAnswer(_message.Message):
    __slots__ = ("machine_ids",)
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ...) -> None: ...
