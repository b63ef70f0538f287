from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadyReport(_message.Message):
    __slots__ = ("cluster_id", "ready", "not_ready", "full", "unready")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    UNREADY_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    ready: _containers.RepeatedScalarFieldContainer[str]
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    full: bool
    unready: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., ready: _Optional[_Iterable[str]] = ..., not_ready: _Optional[_Iterable[str]] = ..., full: _Optional[bool] = ..., unready: _Optional[_Iterable[str]] = ...) -> None: ...

class MachineWords(_message.Message):
    __slots__ = ("machines", "full")
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    machines: _containers.RepeatedCompositeFieldContainer[MachineWord]
    full: bool
    def __init__(self, machines: _Optional[_Iterable[_Union[MachineWord, _Mapping]]] = ..., full: _Optional[bool] = ...) -> None: ...

class MachineWord(_message.Message):
    __slots__ = ("machine_id", "allocatable", "labels", "instance_type", "zone", "gone", "binding", "drained")
    class AllocatableEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    allocatable: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    instance_type: str
    zone: str
    gone: bool
    binding: str
    drained: bool
    def __init__(self, machine_id: _Optional[str] = ..., allocatable: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., gone: _Optional[bool] = ..., binding: _Optional[str] = ..., drained: _Optional[bool] = ...) -> None: ...
