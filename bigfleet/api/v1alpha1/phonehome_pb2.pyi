from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ReadyReport(_message.Message):
    __slots__ = ("cluster_id", "ready", "not_ready", "full")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    ready: _containers.RepeatedScalarFieldContainer[str]
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    full: bool
    def __init__(self, cluster_id: _Optional[str] = ..., ready: _Optional[_Iterable[str]] = ..., not_ready: _Optional[_Iterable[str]] = ..., full: _Optional[bool] = ...) -> None: ...

class ReportClosed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
