"""The records of a recording, as protobuf has them, and what is read of them.

Strategy: a record is a message of `proto/recording.proto`, and what it holds of an exchange is Envoy's own message. Nothing is
translated, so what was recorded is what is played. A field that `proto/ext_proc.proto` does not have is dropped when a
message is read: its credentials could not be removed.

Records are in the order of their events. Times only give the pauses between them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value

from semrouter_memory.errors import InputFileError
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.transport.pb.ext_proc_pb2 import (
    HeaderMutation,
    HeaderValue,
    ProcessingRequest,
    ProcessingResponse,
)
from semrouter_memory.transport.wire import value_of

Fields: TypeAlias = Sequence[HeaderValue]
"""Header fields as they are in a message."""

VERSION = 1

REQUEST_ID = "x-request-id"
IMMEDIATE = "immediate_response"

MAX_RECORD_BYTES = 128 * 1024 * 1024
"""A buffered body may have 72 MiB (`server.max_message_bytes`), and base64 makes a third more of it."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    file: str
    at: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.at}" if self.at else self.file


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One HTTP exchange with all its streams, in the order in which things happened.

    Attributes:
        location: of its first record.
        nbytes: its size in the file.
        started_at: the start of its recording, from the header; "" when the header has none.
        whole: every stream has its end.
    """

    location: SourceLocation
    records: tuple[Record, ...]
    nbytes: int = 0
    started_at: str = ""
    whole: bool = True


# -- from bytes --------------------------------------------------------------------------------------------------------


def decoded(data: bytes) -> Record:
    """The record of a message.

    Raises:
        InputFileError: it is none; the message says why, not where.
    """
    record: Record = parsed(Record, data, "this is not a record")
    if record.WhichOneof("record") is None:
        raise InputFileError("this record is of no kind that is known")
    return record


def parsed(kind: Any, data: bytes, complaint: str = "this is not a message of that kind") -> Any:
    """A message of that kind, without the fields that are not known. Raises: InputFileError."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise InputFileError(complaint) from None
    message.DiscardUnknownFields()
    return message


def request_id(data: bytes) -> str:
    """The `x-request-id` in a stream's first message, "" without one. Raises: InputFileError."""
    message: ProcessingRequest = parsed(ProcessingRequest, data)
    return header_value(message.request_headers.headers.headers, REQUEST_ID)


# -- what a record holds -----------------------------------------------------------------------------------------------


def changed(record: Record, *, stream: int | None = None, time_us: int | None = None) -> Record:
    """A copy of the record, of another stream or time where these are given."""
    copy = Record()
    copy.CopyFrom(record)
    copy.stream = record.stream if stream is None else stream
    copy.time_us = record.time_us if time_us is None else time_us
    return copy


def kind_of(message: Record | ProcessingRequest | ProcessingResponse) -> str:
    """`request_headers`, `response_body` and so on; "" for what is no message, or of a kind that is not known."""
    if isinstance(message, Record):
        held = message.WhichOneof("record")
        return kind_of(getattr(message, held)) if held in ("request", "response") else ""
    return message.WhichOneof("request" if isinstance(message, ProcessingRequest) else "response") or ""


def fields_in(record: Record) -> Any:
    """The metadata of a stream, or the headers or trailers in a message from Envoy: a repeated field that may be changed."""
    if record.HasField("begin"):
        return record.begin.metadata
    kind = kind_of(record.request)
    if kind.endswith("_headers"):
        return getattr(record.request, kind).headers.headers
    return getattr(record.request, kind).trailers.headers if kind.endswith("_trailers") else ()


def header_value(fields: Iterable[HeaderValue], name: str) -> str:
    """The first value of a header, "" when there is none."""
    return next((value_of(field).decode("utf-8", "replace") for field in fields if field.key.lower() == name), "")


def set_value(field: HeaderValue, data: bytes) -> None:
    field.value, field.raw_value = "", data


def mutation_of(response: ProcessingResponse) -> HeaderMutation:
    """The headers that an answer sets and removes."""
    kind = kind_of(response)
    if not kind:
        return HeaderMutation()
    part: Any = getattr(response, kind)
    if kind == IMMEDIATE:
        mutation: HeaderMutation = part.headers
    else:
        mutation = part.header_mutation if kind.endswith("_trailers") else part.response.header_mutation
    return mutation


def body_part(message: ProcessingRequest | ProcessingResponse) -> Any:
    """The part of a message whose field `body` is the body; None where it has none, or leaves the body as it is."""
    kind = kind_of(message)
    if isinstance(message, ProcessingRequest):
        return getattr(message, kind) if kind.endswith("_body") else None
    if kind == IMMEDIATE:
        return message.immediate_response
    if not kind or kind.endswith("_trailers"):
        return None
    mutation = getattr(message, kind).response.body_mutation
    match mutation.WhichOneof("mutation"):
        case "streamed_response":
            return mutation.streamed_response
        case "body" | "clear_body":
            return mutation
    return None


def leaves(struct: Struct) -> Iterator[tuple[str, Value]]:
    """The values in metadata that hold no others, by their names; an item of a list has the list's."""
    for name, value in struct.fields.items():
        yield from _leaves(name, value)


def _leaves(name: str, value: Value) -> Iterator[tuple[str, Value]]:
    match value.WhichOneof("kind"):
        case "struct_value":
            yield from leaves(value.struct_value)
        case "list_value":
            for each in value.list_value.values:
                yield from _leaves(name, each)
        case _:
            yield name, value
