from semrouter_memory.transport.pb import ext_proc_pb2 as _ext_proc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Record(_message.Message):
    __slots__ = ("stream", "time_us", "header", "begin", "request", "response", "end")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    stream: int
    time_us: int
    header: Header
    begin: Begin
    request: _ext_proc_pb2.ProcessingRequest
    response: _ext_proc_pb2.ProcessingResponse
    end: End
    def __init__(self, stream: _Optional[int] = ..., time_us: _Optional[int] = ..., header: _Optional[_Union[Header, _Mapping]] = ..., begin: _Optional[_Union[Begin, _Mapping]] = ..., request: _Optional[_Union[_ext_proc_pb2.ProcessingRequest, _Mapping]] = ..., response: _Optional[_Union[_ext_proc_pb2.ProcessingResponse, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("version", "made_by", "started_at", "pseudonymised")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    PSEUDONYMISED_FIELD_NUMBER: _ClassVar[int]
    version: int
    made_by: str
    started_at: str
    pseudonymised: bool
    def __init__(self, version: _Optional[int] = ..., made_by: _Optional[str] = ..., started_at: _Optional[str] = ..., pseudonymised: _Optional[bool] = ...) -> None: ...

class Begin(_message.Message):
    __slots__ = ("exchange", "metadata", "answers_unknown")
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    exchange: str
    metadata: _containers.RepeatedCompositeFieldContainer[_ext_proc_pb2.HeaderValue]
    answers_unknown: bool
    def __init__(self, exchange: _Optional[str] = ..., metadata: _Optional[_Iterable[_Union[_ext_proc_pb2.HeaderValue, _Mapping]]] = ..., answers_unknown: _Optional[bool] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("by", "note")
    class By(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[End.By]
        ENVOY: _ClassVar[End.By]
        MEMORY: _ClassVar[End.By]
        CUT: _ClassVar[End.By]
    UNKNOWN: End.By
    ENVOY: End.By
    MEMORY: End.By
    CUT: End.By
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    by: End.By
    note: str
    def __init__(self, by: _Optional[_Union[End.By, str]] = ..., note: _Optional[str] = ...) -> None: ...
