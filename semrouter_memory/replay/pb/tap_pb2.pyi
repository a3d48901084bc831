from semrouter_memory.transport.pb import ext_proc_pb2 as _ext_proc_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TraceWrapper(_message.Message):
    __slots__ = ("http_buffered_trace", "http_streamed_trace_segment")
    HTTP_BUFFERED_TRACE_FIELD_NUMBER: _ClassVar[int]
    HTTP_STREAMED_TRACE_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    http_buffered_trace: HttpBufferedTrace
    http_streamed_trace_segment: HttpStreamedTraceSegment
    def __init__(self, http_buffered_trace: _Optional[_Union[HttpBufferedTrace, _Mapping]] = ..., http_streamed_trace_segment: _Optional[_Union[HttpStreamedTraceSegment, _Mapping]] = ...) -> None: ...

class HttpBufferedTrace(_message.Message):
    __slots__ = ("request", "response")
    class Message(_message.Message):
        __slots__ = ("headers", "body", "trailers")
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        BODY_FIELD_NUMBER: _ClassVar[int]
        TRAILERS_FIELD_NUMBER: _ClassVar[int]
        headers: _containers.RepeatedCompositeFieldContainer[_ext_proc_pb2.HeaderValue]
        body: Body
        trailers: _containers.RepeatedCompositeFieldContainer[_ext_proc_pb2.HeaderValue]
        def __init__(self, headers: _Optional[_Iterable[_Union[_ext_proc_pb2.HeaderValue, _Mapping]]] = ..., body: _Optional[_Union[Body, _Mapping]] = ..., trailers: _Optional[_Iterable[_Union[_ext_proc_pb2.HeaderValue, _Mapping]]] = ...) -> None: ...
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    request: HttpBufferedTrace.Message
    response: HttpBufferedTrace.Message
    def __init__(self, request: _Optional[_Union[HttpBufferedTrace.Message, _Mapping]] = ..., response: _Optional[_Union[HttpBufferedTrace.Message, _Mapping]] = ...) -> None: ...

class HttpStreamedTraceSegment(_message.Message):
    __slots__ = ("trace_id", "request_headers", "request_body_chunk", "request_trailers", "response_headers", "response_body_chunk", "response_trailers")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HEADERS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_BODY_CHUNK_FIELD_NUMBER: _ClassVar[int]
    REQUEST_TRAILERS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_HEADERS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_BODY_CHUNK_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_TRAILERS_FIELD_NUMBER: _ClassVar[int]
    trace_id: int
    request_headers: _ext_proc_pb2.HeaderMap
    request_body_chunk: Body
    request_trailers: _ext_proc_pb2.HeaderMap
    response_headers: _ext_proc_pb2.HeaderMap
    response_body_chunk: Body
    response_trailers: _ext_proc_pb2.HeaderMap
    def __init__(self, trace_id: _Optional[int] = ..., request_headers: _Optional[_Union[_ext_proc_pb2.HeaderMap, _Mapping]] = ..., request_body_chunk: _Optional[_Union[Body, _Mapping]] = ..., request_trailers: _Optional[_Union[_ext_proc_pb2.HeaderMap, _Mapping]] = ..., response_headers: _Optional[_Union[_ext_proc_pb2.HeaderMap, _Mapping]] = ..., response_body_chunk: _Optional[_Union[Body, _Mapping]] = ..., response_trailers: _Optional[_Union[_ext_proc_pb2.HeaderMap, _Mapping]] = ...) -> None: ...

class Body(_message.Message):
    __slots__ = ("as_bytes", "as_string", "truncated")
    AS_BYTES_FIELD_NUMBER: _ClassVar[int]
    AS_STRING_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    as_bytes: bytes
    as_string: str
    truncated: bool
    def __init__(self, as_bytes: _Optional[bytes] = ..., as_string: _Optional[str] = ..., truncated: _Optional[bool] = ...) -> None: ...
