"""Protobuf to events and replies to protobuf: the only module that reads and writes ext_proc messages on the wire.

Reference: envoy.service.ext_proc.v3 (Envoy 1.40). Replies leave here as bytes, because most are the same few
acknowledgements and need not be built again for every message.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from google.protobuf.struct_pb2 import Struct, Value

from semrouter_memory.exchange.events import (
    BodyMode,
    Event,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseHeaders,
    ResponseTrailers,
    UnknownEvent,
)
from semrouter_memory.exchange.replies import Continue, Outcome, ReplaceBody, Reply, Silence, StreamBody
from semrouter_memory.model import Json, Reason
from semrouter_memory.transport.pb import ext_proc_pb2 as pb

METHOD = "Process"
SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
NAMESPACE = "semrouter.memory"
"""Of the dynamic metadata; Envoy takes it only where the filter names it in `receiving_namespaces`."""
MAX_IDS = 50
"""Ids named in the metadata; `memories_used` counts all of them."""
MAX_IDS_CHARS = 2048
"""Of them together: they may end in a header, and an imported memory brings an id of its own length."""

Message: TypeAlias = pb.ProcessingRequest

parse: Callable[[bytes], Message] = pb.ProcessingRequest.FromString

# Envoy's HTTP/2 frames are 16 KiB; larger pieces gain nothing and delay the first byte.
_PIECE_BYTES = 64 * 1024

_TRAILERS = frozenset({"request_trailers", "response_trailers"})


def event_from(message: Message) -> Event:
    """The event that a message announces."""
    match message.WhichOneof("request"):
        case "request_headers":
            return RequestHeaders(
                headers=_headers(message.request_headers),
                end_of_stream=message.request_headers.end_of_stream,
                protocol=_protocol(message),
                metadata=_metadata(message),
            )
        case "request_body":
            return RequestBody(message.request_body.body, message.request_body.end_of_stream)
        case "response_headers":
            return ResponseHeaders(
                headers=_headers(message.response_headers),
                end_of_stream=message.response_headers.end_of_stream,
                protocol=_protocol(message),
            )
        case "response_body":
            return ResponseBody(message.response_body.body, message.response_body.end_of_stream)
        case "request_trailers":
            return RequestTrailers()
        case "response_trailers":
            return ResponseTrailers()
    return UnknownEvent()


def replies_to(message: Message, reply: Reply, outcome: Outcome | Reason | None = None) -> list[bytes]:
    """The messages that answer `message`; the kind follows it, so a mismatched answer cannot be written.

    Args:
        outcome: what memory did for the request, or just why nothing; goes with the first of them, as dynamic metadata.
    """
    kind = message.WhichOneof("request")
    match reply:
        case Continue() if kind is not None:
            return [_ACKNOWLEDGEMENTS[kind] if outcome is None else _ACKNOWLEDGEMENTS[kind] + _described(outcome)]
        case ReplaceBody(body) if kind == "request_body":
            return [_replaced(body, outcome)]
        case StreamBody(body, end_of_stream) if kind is not None and not kind.endswith("headers"):
            first, *rest = _streamed(kind, body, end_of_stream=end_of_stream)
            return [first if outcome is None else first + _described(outcome), *rest]
        case Silence() | _:
            return []


def value_of(field: pb.HeaderValue) -> bytes:
    """A header's value: Envoy fills `raw_value`; other data planes still send `value`."""
    return field.raw_value or field.value.encode()


def json_of(struct: Struct) -> dict[str, Json]:
    """Not protobuf's own conversion to JSON: that one refuses NaN and infinity, and with them all the rest."""
    return {name: _json(value) for name, value in struct.fields.items()}


def _headers(message: pb.HttpHeaders) -> Headers:
    return Headers(
        [(field.key, value_of(field).decode("utf-8", "surrogateescape")) for field in message.headers.headers]
    )


def _protocol(message: Message) -> Protocol:
    if not message.HasField("protocol_config"):
        return Protocol(observing=message.observability_mode)
    config = message.protocol_config
    return Protocol(
        observing=message.observability_mode,
        request_body=_BODY_MODES.get(config.request_body_mode),
        response_body=_BODY_MODES.get(config.response_body_mode),
    )


def _metadata(message: Message) -> Mapping[str, Json]:
    if not message.HasField("metadata_context"):
        return {}
    return {name: json_of(value) for name, value in message.metadata_context.filter_metadata.items()}


def _json(value: Value) -> Json:
    match kind := value.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "struct_value":
            return json_of(value.struct_value)
        case "list_value":
            return [_json(each) for each in value.list_value.values]
    return getattr(value, kind)


def _described(outcome: Outcome | Reason) -> bytes:
    """An answer that is nothing but metadata: appended to another one's bytes, it becomes a part of that."""
    return _REFUSALS[outcome] if isinstance(outcome, Reason) else _metadata_of(outcome)


def _metadata_of(outcome: Outcome | Reason) -> bytes:
    response = pb.ProcessingResponse()
    _describe(response, outcome)
    return response.SerializeToString()


def _describe(response: pb.ProcessingResponse, outcome: Outcome | Reason) -> None:
    fields = response.dynamic_metadata.fields[NAMESPACE].struct_value.fields
    if isinstance(outcome, Reason):
        fields["reason"].string_value = outcome
        fields["memories_used"].number_value = 0
        return
    result = outcome.result
    fields["reason"].string_value = result.reason
    if outcome.unreadable:
        if result.reason is not Reason.UNREADABLE_SETTING:
            fields["reason"].string_value = f"{result.reason}, {Reason.UNREADABLE_SETTING}"
        fields["unreadable_settings"].string_value = ",".join(outcome.unreadable)
    used = result.hits if result.reason is Reason.INJECTED else ()
    fields["memories_used"].number_value = len(used)
    # Envoy adds no header without a value, and logs a dash: both say "none" well.
    if used:
        fields["memory_ids"].string_value = _listed([hit.memory.id for hit in used[:MAX_IDS]])
        fields["memory_scores"].string_value = ",".join(f"{hit.relevance:.3f}" for hit in used[:MAX_IDS])
    fields["tokens"].number_value = result.tokens
    fields["compressed_turns"].number_value = result.compression.dropped_turns if result.compression else 0
    if result.shortened and result.shortened.results:
        fields["shortened_results"].number_value = result.shortened.results
    if result.steered is not None:
        fields["steering"].string_value = result.steered.outcome
        fields["memories_forgotten"].number_value = len(result.steered.forgotten)
    fields["duration_ms"].number_value = round(outcome.duration_ms, 3)


def _listed(memory_ids: Iterable[str]) -> str:
    """The first ids, as many as their bound allows, whole ones."""
    # What is no Unicode text cannot be sent: an imported memory brings its own id.
    text = ",".join(memory_ids).encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_IDS_CHARS else text[: MAX_IDS_CHARS + 1].rpartition(",")[0]


def _replaced(body: bytes, outcome: Outcome | Reason | None) -> bytes:
    # Envoy keeps the old content-length unless told otherwise, and answers 500 when it does not fit the body.
    length = pb.HeaderValueOption(
        header=pb.HeaderValue(key="content-length", raw_value=b"%d" % len(body)),
        # Envoy reads only the deprecated `append`, other data planes only `append_action`: both say overwrite.
        append_action=pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )
    length.append.value = False
    common = pb.CommonResponse(
        header_mutation=pb.HeaderMutation(set_headers=[length]), body_mutation=pb.BodyMutation(body=body)
    )
    response = pb.ProcessingResponse(request_body=pb.BodyResponse(response=common))
    if outcome is not None:
        _describe(response, outcome)
    return response.SerializeToString()


def _streamed(kind: str, body: bytes, *, end_of_stream: bool) -> list[bytes]:
    """The pieces of a body; before trailers they come first and the trailers' acknowledgement last."""
    target = kind.replace("trailers", "body")
    starts = range(0, len(body), _PIECE_BYTES) or range(1)
    pieces = [
        _piece(target, body[start : start + _PIECE_BYTES], end_of_stream=end_of_stream and start == starts[-1])
        for start in starts
    ]
    return [*pieces, _ACKNOWLEDGEMENTS[kind]] if kind in _TRAILERS else pieces


def _piece(kind: str, body: bytes, *, end_of_stream: bool) -> bytes:
    mutation = pb.BodyMutation(streamed_response=pb.StreamedBodyResponse(body=body, end_of_stream=end_of_stream))
    answer = pb.BodyResponse(response=pb.CommonResponse(body_mutation=mutation))
    if kind == "request_body":
        return pb.ProcessingResponse(request_body=answer).SerializeToString()
    return pb.ProcessingResponse(response_body=answer).SerializeToString()


_BODY_MODES = {mode.value: mode for mode in BodyMode}

_ACKNOWLEDGEMENTS = {
    "request_headers": pb.ProcessingResponse(request_headers=pb.HeadersResponse()).SerializeToString(),
    "request_body": pb.ProcessingResponse(request_body=pb.BodyResponse()).SerializeToString(),
    "request_trailers": pb.ProcessingResponse(request_trailers=pb.TrailersResponse()).SerializeToString(),
    "response_headers": pb.ProcessingResponse(response_headers=pb.HeadersResponse()).SerializeToString(),
    "response_body": pb.ProcessingResponse(response_body=pb.BodyResponse()).SerializeToString(),
    "response_trailers": pb.ProcessingResponse(response_trailers=pb.TrailersResponse()).SerializeToString(),
}

_REFUSALS = {reason: _metadata_of(reason) for reason in Reason}
