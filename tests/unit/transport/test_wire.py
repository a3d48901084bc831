"""Our wire-compatible subset against an independent codec that is generated from Envoy's own definitions."""

import dataclasses
from types import ModuleType
from typing import Any

import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.core.v3 import HeaderMap, HeaderValue, Metadata
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import ProcessingModeBodySendMode
from envoy_data_plane.envoy.service.ext_proc import v3 as ext_proc
from envoy_data_plane.envoy.service.ext_proc.v3 import (
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
    StreamedBodyResponse,
)
from envoy_data_plane.envoy.type import v3 as envoy_type
from envoy_data_plane.google.protobuf import Struct
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from semrouter_memory.exchange.events import (
    BodyMode,
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
from semrouter_memory.model import Compression, CompressionReason, Hit, Reason, RecallResult, Scope, Steered, Steering
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2
from tests.memories import memory as memory_of

_TYPES = {
    FieldDescriptor.TYPE_MESSAGE: ("message", "map"),
    FieldDescriptor.TYPE_ENUM: ("enum",),
    FieldDescriptor.TYPE_BOOL: ("bool",),
    FieldDescriptor.TYPE_BYTES: ("bytes",),
    FieldDescriptor.TYPE_STRING: ("string",),
    # An HTTP status, which Envoy enumerates: both are varints.
    FieldDescriptor.TYPE_INT32: ("enum",),
}


def envoys(name: str) -> dict[str, Any]:
    """The fields of Envoy's message of that name."""
    modules: tuple[ModuleType, ...] = (ext_proc, core, envoy_type)
    kind = next(getattr(module, name) for module in modules if hasattr(module, name))
    return {field.name: field.metadata["betterproto"] for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("message", ext_proc_pb2.DESCRIPTOR.message_types_by_name.values(), ids=lambda each: each.name)
def test_every_field_has_envoys_number_and_type(message: Descriptor) -> None:
    """Those that only recordings read, too."""
    theirs = envoys(message.name)
    for field in message.fields:
        assert field.number == theirs[field.name].number, field.name
        assert theirs[field.name].proto_type in _TYPES[field.type], field.name


def message(**fields: Any) -> wire.Message:
    return wire.parse(bytes(ProcessingRequest(**fields)))


def header_message(kind: str, *headers: HeaderValue, end_of_stream: bool = False, **fields: Any) -> wire.Message:
    http = HttpHeaders(headers=HeaderMap(headers=list(headers)), end_of_stream=end_of_stream)
    return message(**{kind: http}, **fields)


def read(reply: bytes) -> ProcessingResponse:
    return ProcessingResponse.parse(reply)


def test_request_headers() -> None:
    """Raw and plain values, the protocol and the metadata arrive; bytes that are no UTF-8 do no harm."""
    event = wire.event_from(
        header_message(
            "request_headers",
            HeaderValue(key=":path", raw_value=b"/v1/responses"),
            HeaderValue(key="X-Plain", value="plain"),
            HeaderValue(key="x-odd", raw_value=b"\xff"),
            end_of_stream=True,
            observability_mode=True,
            protocol_config=ProtocolConfiguration(
                request_body_mode=ProcessingModeBodySendMode.BUFFERED,
                response_body_mode=ProcessingModeBodySendMode.FULL_DUPLEX_STREAMED,
            ),
            metadata_context=Metadata(
                filter_metadata={"ns": Struct.from_dict({"payload": {"sub": "alice", "n": 1.0}})}
            ),
        )
    )
    assert isinstance(event, RequestHeaders)
    assert event.headers.get(":path") == "/v1/responses"
    assert event.headers.get("x-plain") == "plain"
    assert event.headers.get("x-odd") == "\udcff"
    assert event.end_of_stream
    assert event.protocol == Protocol(
        observing=True, request_body=BodyMode.BUFFERED, response_body=BodyMode.FULL_DUPLEX_STREAMED
    )
    assert event.metadata == {"ns": {"payload": {"sub": "alice", "n": 1.0}}}


def test_an_old_envoy_says_nothing_of_its_protocol() -> None:
    event = wire.event_from(header_message("request_headers"))
    assert isinstance(event, RequestHeaders)
    assert event.protocol == Protocol(observing=False, request_body=None, response_body=None)


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({"request_body": HttpBody(body=b"a", end_of_stream=True)}, RequestBody(b"a", end_of_stream=True)),
        ({"response_body": HttpBody(body=b"", end_of_stream=False)}, ResponseBody(b"", end_of_stream=False)),
        ({"request_trailers": HttpTrailers()}, RequestTrailers()),
        ({"response_trailers": HttpTrailers()}, ResponseTrailers()),
        ({}, UnknownEvent()),
    ],
)
def test_other_messages(fields: dict[str, Any], event: object) -> None:
    assert wire.event_from(message(**fields)) == event


def test_response_headers() -> None:
    event = wire.event_from(header_message("response_headers", HeaderValue(key=":status", raw_value=b"200")))
    assert isinstance(event, ResponseHeaders)
    assert event.headers.get(":status") == "200"


KINDS = {
    "request_headers": HttpHeaders(),
    "request_body": HttpBody(),
    "request_trailers": HttpTrailers(),
    "response_headers": HttpHeaders(),
    "response_body": HttpBody(),
    "response_trailers": HttpTrailers(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_has_the_kind_of_the_message(kind: str) -> None:
    (reply,) = wire.replies_to(message(**{kind: KINDS[kind]}), Continue())
    answer = read(reply)
    assert [name for name in KINDS if getattr(answer, name) is not None] == [kind]


@pytest.mark.filterwarnings("ignore:HeaderValueOption.append is deprecated:DeprecationWarning")
def test_a_replaced_body_carries_its_length() -> None:
    """Envoy answers 500 when content-length does not fit; both ways to say "overwrite" are used."""
    (reply,) = wire.replies_to(message(request_body=HttpBody(body=b"old")), ReplaceBody("größer".encode()))
    body = read(reply).request_body
    assert body is not None
    common = body.response
    assert common is not None
    assert common.body_mutation is not None
    assert common.header_mutation is not None
    assert common.body_mutation.body == "größer".encode()
    (option,) = common.header_mutation.set_headers
    assert option.header is not None
    assert (option.header.key, option.header.raw_value) == ("content-length", b"8")
    assert option.append is False
    assert option.append_action.name == "OVERWRITE_IF_EXISTS_OR_ADD"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "request_body"])
def test_a_body_can_only_answer_a_body(kind: str) -> None:
    assert wire.replies_to(message(**{kind: KINDS[kind]}), ReplaceBody(b"x")) == []


@pytest.mark.parametrize(("size", "pieces"), [(0, 1), (1, 1), (65536, 1), (65537, 2), (200_000, 4)])
def test_a_streamed_body_is_sent_in_pieces(size: int, pieces: int) -> None:
    data = bytes(index % 251 for index in range(size))
    replies = wire.replies_to(message(response_body=HttpBody()), StreamBody(data, end_of_stream=True))
    streamed = [streamed_piece(reply) for reply in replies]
    assert b"".join(piece.body for piece in streamed) == data
    assert [piece.end_of_stream for piece in streamed] == [False] * (pieces - 1) + [True]


def streamed_piece(reply: bytes) -> StreamedBodyResponse:
    body = read(reply).response_body
    assert body is not None
    assert body.response is not None
    assert body.response.body_mutation is not None
    piece = body.response.body_mutation.streamed_response
    assert piece is not None
    return piece


def test_a_streamed_body_before_trailers_comes_first() -> None:
    replies = wire.replies_to(message(request_trailers=HttpTrailers()), StreamBody(b"x", end_of_stream=False))
    first, last = (read(reply) for reply in replies)
    assert first.request_body is not None
    assert last.request_trailers is not None


def test_silence_is_no_message() -> None:
    assert wire.replies_to(message(request_body=HttpBody()), Silence()) == []
    assert wire.replies_to(message(), Continue()) == []


def used(memory_id: str, relevance: float) -> Hit:
    return Hit(memory_of(Scope("alice"), memory_id), similarity=0.5, relevance=relevance)


OUTCOME = Outcome(
    result=RecallResult(
        reason=Reason.INJECTED,
        hits=(used("mem_1", 0.98765), used("mem_2", 0.6)),
        tokens=40,
        compression=Compression(reason=CompressionReason.COMPRESSED, dropped_turns=3),
    ),
    duration_ms=1.23456,
)


def told(reply: bytes) -> dict[str, Any] | None:
    """The dynamic metadata of an answer, as Envoy reads it."""
    answer = read(reply)
    if answer.dynamic_metadata is None:
        return None
    namespaces: dict[str, Any] = answer.dynamic_metadata.to_dict()
    assert list(namespaces) == [wire.NAMESPACE]
    result: dict[str, Any] = namespaces[wire.NAMESPACE]
    return result


@pytest.mark.filterwarnings("ignore:HeaderValueOption.append is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("request_body", ReplaceBody(b"new")),
        ("request_body", Continue()),
        ("request_body", StreamBody(b"x" * 200_000, end_of_stream=True)),
        ("request_trailers", StreamBody(b"x", end_of_stream=False)),
    ],
)
def test_an_outcome_goes_with_the_first_answer(kind: str, reply: Reply) -> None:
    """And changes nothing else of any."""
    asked = message(**{kind: KINDS[kind]})
    first, *rest = wire.replies_to(asked, reply, OUTCOME)
    assert told(first) == {
        "reason": "injected",
        "memories_used": 2,
        "memory_ids": "mem_1,mem_2",
        "memory_scores": "0.988,0.600",
        "tokens": 40,
        "compressed_turns": 3,
        "duration_ms": 1.235,
    }
    plain, *others = wire.replies_to(asked, reply)
    answer = read(first)
    answer.dynamic_metadata = None
    assert answer == read(plain)
    assert rest == others


@pytest.mark.parametrize(
    ("steered", "told_of_it"),
    [
        (Steered(Steering.FORGOTTEN, ("m1", "m2")), {"steering": "forgotten", "memories_forgotten": 2}),
        (Steered(Steering.NOT_FOUND), {"steering": "not_found", "memories_forgotten": 0}),
    ],
)
def test_what_became_of_an_order_is_told(steered: Steered, told_of_it: dict[str, Any]) -> None:
    outcome = Outcome(result=RecallResult(reason=Reason.BELOW_THRESHOLD, steered=steered))
    (reply,) = wire.replies_to(message(request_body=KINDS["request_body"]), Continue(), outcome)
    metadata = told(reply)
    assert metadata is not None
    assert metadata.items() >= told_of_it.items()
    assert set(metadata) - {"reason", "memories_used", "tokens", "compressed_turns", "duration_ms"} == set(told_of_it)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_says_why(kind: str, reason: Reason) -> None:
    (reply,) = wire.replies_to(message(**{kind: KINDS[kind]}), Continue(), reason)
    assert told(reply) == {"reason": reason.value, "memories_used": 0}


def test_an_answer_without_news_says_nothing() -> None:
    (reply,) = wire.replies_to(message(request_body=HttpBody()), Continue())
    assert told(reply) is None


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ((), None),
        (("a",) * 50, ",".join("a" * 50)),
        (("a",) * 51, ",".join("a" * 50)),
        (("a" * 1023, "b" * 1024), f"{'a' * 1023},{'b' * 1024}"),
        (("a" * 1024, "b" * 1024), "a" * 1024),
        (("a" * 128,) * 50, ",".join(("a" * 128,) * 15)),
    ],
    ids=["none", "as many as may be", "too many", "as long as may be", "too long", "long ones"],
)
def test_ids_are_named_whole_and_within_bounds(ids: tuple[str, ...], named: str | None) -> None:
    """How many there were is told all the same."""
    hits = tuple(used(each, 0.9) for each in ids)
    outcome = Outcome(result=RecallResult(reason=Reason.INJECTED, hits=hits))
    (reply,) = wire.replies_to(message(request_body=HttpBody()), Continue(), outcome)
    metadata = told(reply)
    assert metadata is not None
    assert (metadata.get("memory_ids"), metadata["memories_used"]) == (named, len(ids))
