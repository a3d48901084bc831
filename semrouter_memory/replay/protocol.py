"""Records to protobuf and back: the only module of this package that speaks it.

A field that is not in `proto/ext_proc.proto` is dropped on the way: its credentials could not be removed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.struct_pb2 import Struct

from semrouter_memory.errors import InputFileError
from semrouter_memory.model import Json
from semrouter_memory.replay.pb import recording_pb2
from semrouter_memory.replay.pb import tap_pb2 as tap
from semrouter_memory.replay.records import (
    IMMEDIATE,
    REQUEST_ID,
    Begin,
    End,
    EndedBy,
    Fields,
    Header,
    ProcessingRequest,
    ProcessingResponse,
    Record,
    SetHeader,
    header_value,
)
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from semrouter_memory.transport.wire import json_of, value_of

TapTrace: TypeAlias = tap.TraceWrapper

_HEADERS = ("request_headers", "response_headers")
_BODIES = ("request_body", "response_body")


def encoded(record: Record) -> bytes:
    part: dict[str, Any] = {}
    match record.event:
        case Header(version, made_by, started_at, pseudonymised):
            part["header"] = recording_pb2.Header(
                version=version, made_by=made_by, started_at=started_at, pseudonymised=pseudonymised
            )
        case Begin(exchange, metadata, answers_known):
            fields = [pb.HeaderValue(key=key, value=value) for key, value in metadata]
            part["begin"] = recording_pb2.Begin(exchange=exchange, metadata=fields, answers_unknown=not answers_known)
        case ProcessingRequest() as request:
            part["request"] = _request_message(request)
        case ProcessingResponse() as answer:
            part["response"] = _response_message(answer)
        case End(by, note):
            part["end"] = recording_pb2.End(by=by.name, note=note)
    return recording_pb2.Record(stream=record.stream, time_us=record.time_us, **part).SerializeToString()


def decoded(data: bytes) -> Record:
    """The record of a message.

    Raises:
        InputFileError: it is none; the message says why, not where.
    """
    try:
        message = recording_pb2.Record.FromString(data)
    except DecodeError:
        raise InputFileError("this is not a record") from None
    return Record(message.stream, message.time_us, _event(message))


def request_from(data: bytes) -> ProcessingRequest:
    """A serialised `ProcessingRequest`. Raises: InputFileError."""
    return _request_of(_parsed(pb.ProcessingRequest, data))


def response_from(data: bytes) -> ProcessingResponse:
    """A serialised `ProcessingResponse`. Raises: InputFileError."""
    return _response_of(_parsed(pb.ProcessingResponse, data))


def request_bytes(request: ProcessingRequest) -> bytes:
    return _request_message(request).SerializeToString()


def request_id(data: bytes) -> str:
    """The `x-request-id` in a stream's first message, "" without one."""
    message = _parsed(pb.ProcessingRequest, data)
    if not message.HasField("request_headers"):
        return ""
    return header_value(fields_of(message.request_headers.headers.headers), REQUEST_ID)


def tap_trace(data: bytes) -> TapTrace:
    """A trace of Envoy's binary tap output. Raises: InputFileError."""
    trace: TapTrace = _parsed(tap.TraceWrapper, data)
    return trace


def tap_trace_of(value: Mapping[str, Json]) -> TapTrace:
    """A trace of Envoy's JSON tap output. Raises: InputFileError."""
    try:
        return ParseDict(dict(value), tap.TraceWrapper(), ignore_unknown_fields=True)
    except (ParseError, EncodeError, ValueError, TypeError, RecursionError):
        raise InputFileError("this is not a trace of Envoy's tap filter") from None


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InputFileError("this is not a message of that kind") from None


def _event(message: recording_pb2.Record) -> Header | Begin | ProcessingRequest | ProcessingResponse | End:
    match message.WhichOneof("record"):
        case "header":
            header = message.header
            return Header(header.version, header.made_by, header.started_at, header.pseudonymised)
        case "begin":
            metadata = tuple((each.key, each.value) for each in message.begin.metadata)
            return Begin(message.begin.exchange, metadata, not message.begin.answers_unknown)
        case "request":
            return _request_of(message.request)
        case "response":
            return _response_of(message.response)
        case "end":
            return End(_ENDED_BY.get(message.end.by, EndedBy.UNKNOWN), message.end.note)
    raise InputFileError("this record is of no kind that is known")


_ENDED_BY = {recording_pb2.End.By.Value(by.name): by for by in EndedBy}


def _request_of(message: pb.ProcessingRequest) -> ProcessingRequest:
    kind = message.WhichOneof("request") or ""
    part: Any = getattr(message, kind) if kind else None
    modes: tuple[str | None, str | None] = (None, None)
    if message.HasField("protocol_config"):
        config = message.protocol_config
        modes = (_mode_name(config.request_body_mode), _mode_name(config.response_body_mode))
    return ProcessingRequest(
        kind=kind,
        headers=_headers_of(kind, part),
        body=part.body if kind in _BODIES else b"",
        end_of_stream=part.end_of_stream if kind in (*_HEADERS, *_BODIES) else False,
        observing=message.observability_mode,
        request_body_mode=modes[0],
        response_body_mode=modes[1],
        metadata=_dicts(message.metadata_context.filter_metadata),
        attributes=_dicts(message.attributes),
    )


def _request_message(request: ProcessingRequest) -> pb.ProcessingRequest:
    message = pb.ProcessingRequest(observability_mode=request.observing)
    part: Any = getattr(message, request.kind) if request.kind else None
    if request.kind in _HEADERS:
        part.CopyFrom(pb.HttpHeaders(headers=_header_map(request.headers), end_of_stream=request.end_of_stream))
    elif request.kind in _BODIES:
        part.CopyFrom(pb.HttpBody(body=request.body, end_of_stream=request.end_of_stream))
    elif request.kind:
        part.CopyFrom(pb.HttpTrailers(trailers=_header_map(request.headers)))
    if request.request_body_mode is not None or request.response_body_mode is not None:
        modes = [_mode_number(mode) for mode in (request.request_body_mode, request.response_body_mode)]
        message.protocol_config.CopyFrom(
            pb.ProtocolConfiguration(request_body_mode=modes[0], response_body_mode=modes[1])
        )
    for name, value in request.metadata.items():
        message.metadata_context.filter_metadata[name].CopyFrom(_struct(value))
    for name, value in request.attributes.items():
        message.attributes[name].CopyFrom(_struct(value))
    return message


def _response_of(message: pb.ProcessingResponse) -> ProcessingResponse:
    kind = message.WhichOneof("response") or ""
    part: Any = getattr(message, kind) if kind else None
    immediate, trailers = kind == IMMEDIATE, "trailers" in kind
    common: Any = pb.CommonResponse() if part is None or immediate or trailers else part.response
    headers = part.headers if immediate else part.header_mutation if trailers else common.header_mutation
    body, streamed, end_of_stream = (part.body, False, False) if immediate else _mutation(common.body_mutation)
    return ProcessingResponse(
        kind=kind,
        set_headers=_set_headers(headers),
        remove_headers=tuple(headers.remove_headers),
        body=body,
        streamed=streamed,
        end_of_stream=end_of_stream,
        replaces=common.status == pb.CommonResponse.CONTINUE_AND_REPLACE,
        clear_route_cache=common.clear_route_cache,
        http_status=part.status.code if immediate else 0,
        dynamic_metadata=_dict(message.dynamic_metadata),
    )


def _mutation(mutation: pb.BodyMutation) -> tuple[bytes | None, bool, bool]:
    match mutation.WhichOneof("mutation"):
        case "body":
            return mutation.body, False, False
        case "clear_body":
            return b"", False, False
        case "streamed_response":
            return mutation.streamed_response.body, True, mutation.streamed_response.end_of_stream
    return None, False, False


def _response_message(answer: ProcessingResponse) -> pb.ProcessingResponse:
    message = pb.ProcessingResponse()
    if answer.dynamic_metadata:
        message.dynamic_metadata.CopyFrom(_struct(answer.dynamic_metadata))
    headers = pb.HeaderMutation(
        set_headers=[_set_header(each) for each in answer.set_headers], remove_headers=answer.remove_headers
    )
    if answer.kind == IMMEDIATE:
        status = pb.HttpStatus(code=answer.http_status)
        immediate = pb.ImmediateResponse(status=status, headers=headers, body=answer.body or b"")
        message.immediate_response.CopyFrom(immediate)
    elif answer.kind:
        part: Any = getattr(message, answer.kind)
        part.SetInParent()
        if "trailers" in answer.kind:
            part.header_mutation.CopyFrom(headers)
        else:
            _fill_common(part.response, answer, headers)
    return message


def _fill_common(common: pb.CommonResponse, answer: ProcessingResponse, headers: pb.HeaderMutation) -> None:
    if answer.replaces:
        common.status = pb.CommonResponse.CONTINUE_AND_REPLACE
    common.clear_route_cache = answer.clear_route_cache
    if answer.set_headers or answer.remove_headers:
        common.header_mutation.CopyFrom(headers)
    if answer.body is not None and answer.streamed:
        piece = pb.StreamedBodyResponse(body=answer.body, end_of_stream=answer.end_of_stream)
        common.body_mutation.streamed_response.CopyFrom(piece)
    elif answer.body is not None:
        common.body_mutation.body = answer.body


def _set_headers(mutation: pb.HeaderMutation) -> tuple[SetHeader, ...]:
    return tuple(
        SetHeader(
            each.header.key,
            value_of(each.header),
            each.append.value if each.HasField("append") else None,
            _name(pb.HeaderValueOption.HeaderAppendAction, each.append_action),
        )
        for each in mutation.set_headers
    )


def _set_header(header: SetHeader) -> pb.HeaderValueOption:
    option = pb.HeaderValueOption(
        header=pb.HeaderValue(key=header.name, raw_value=header.value),
        append_action=header.action,
    )
    if header.append is not None:
        option.append.value = header.append
    return option


def fields_of(headers: Iterable[pb.HeaderValue]) -> Fields:
    return tuple((each.key, value_of(each)) for each in headers)


def _headers_of(kind: str, part: Any) -> Fields:
    if kind in _HEADERS:
        return fields_of(part.headers.headers)
    return fields_of(part.trailers.headers) if "trailers" in kind else ()


def _header_map(fields: Fields) -> pb.HeaderMap:
    return pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=value) for key, value in fields])


def _dicts(structs: Mapping[str, Any]) -> dict[str, Json]:
    return {name: _dict(structs[name]) for name in sorted(structs)}


def _dict(struct: Struct) -> dict[str, Json]:
    """In a fixed order: protobuf keeps none."""
    ordered: dict[str, Json] = _ordered(json_of(struct))
    return ordered


def _ordered(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _struct(value: Any) -> Struct:
    struct = Struct()
    try:
        struct.update(value if isinstance(value, Mapping) else {})
    except (ValueError, RecursionError, TypeError):
        raise InputFileError("metadata that cannot be sent") from None
    return struct


def _name(enum: Any, number: int) -> str:
    return str(enum.Name(number)) if number in enum.values() else str(enum.Name(0))


def _mode_name(number: int) -> str:
    return _name(pb.ProtocolConfiguration.BodySendMode, number)


def _mode_number(name: str | None) -> Any:
    return pb.ProtocolConfiguration.BodySendMode.Value(name) if name else 0
