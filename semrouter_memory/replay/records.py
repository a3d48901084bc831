"""The records of a recording, as protobuf and as JSON lines, and what is read of them.

Strategy: a record is a message of `proto/recording.proto`, and what it holds of an exchange is Envoy's own message. Nothing is
translated, so what was recorded is what is played. A field that `proto/ext_proc.proto` does not have is dropped when a
message is read: its credentials could not be removed.

Records are in the order of their events. Times only give the pauses between them.

A JSON line, which people can read and compare, is one record as protobuf's own mapping to JSON has it. Two things differ. Bytes
that are UTF-8 are text, under `text` in place of `body` and `value` in place of `raw_value`; other bytes are base64. And a line
without `time_us` happened when the one before it did.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any, Literal, TypeAlias

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.message import DecodeError
from google.protobuf.proto import serialize_length_prefixed
from google.protobuf.struct_pb2 import Struct, Value

from semrouter_memory import __version__
from semrouter_memory.errors import InputFileError
from semrouter_memory.model import Json
from semrouter_memory.replay.pb.recording_pb2 import Header, Record
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
_MADE_BY = f"semrouter-memory {__version__}"

Format = Literal["jsonl", "protobuf"]
SUFFIX: dict[Format, str] = {"jsonl": ".jsonl", "protobuf": ".binpb"}
"""Of recordings, by which they are found in a directory."""

REQUEST_ID = "x-request-id"
IMMEDIATE = "immediate_response"

MAX_RECORD_BYTES = 128 * 1024 * 1024
"""A buffered body may have 72 MiB (`server.max_message_bytes`), and base64 makes a third more of it."""


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One HTTP exchange with all its streams, in the order in which things happened.

    Attributes:
        location: of its first record: the file, and the line or offset there.
        nbytes: its size in the file.
        started_at: the start of its recording, from the header; "" when the header has none.
        whole: every stream has its end.
    """

    location: str
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


def request_id_in(data: bytes) -> str:
    """The `x-request-id` in a stream's first message, "" without one. Raises: InputFileError."""
    message: ProcessingRequest = parsed(ProcessingRequest, data)
    return header_value(message.request_headers.headers.headers, REQUEST_ID)


# -- to bytes ----------------------------------------------------------------------------------------------------------


def written(records: Sequence[Record], form: Format, *, timed: bool = True) -> bytes:
    if form == "jsonl":
        return b"".join(line_of(record, timed=timed) + b"\n" for record in records)
    output = BytesIO()
    for record in records:
        serialize_length_prefixed(record, output)
    return output.getvalue()


def header(started_at: str, *, pseudonymised: bool) -> Record:
    header = Header(version=VERSION, made_by=_MADE_BY, started_at=started_at, pseudonymised=pseudonymised)
    return Record(header=header)


def rfc3339(time: datetime) -> str:
    """A time as headers have it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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


# -- as JSON lines -----------------------------------------------------------------------------------------------------


NOT_JSON = "this is not JSON"
_AS_TEXT = {"body": "text", "raw_value": "value"}
"""Members with bytes -> the member that stands in their place where these are text."""
_AS_BYTES = {text: name for name, text in _AS_TEXT.items()}
_FREE = frozenset({"attributes", "dynamic_metadata", "filter_metadata"})
"""Members whose content is of any form."""
_UNKNOWN = 'has no field named "'
_MAX_COMPLAINT_CHARS = 200


def line_of(record: Record, *, timed: bool = True) -> bytes:
    """The record as a line, without its line feed.

    Args:
        timed: write times; otherwise only the order tells.

    Raises:
        InputFileError: its metadata has a number that JSON does not know.
    """
    try:
        value = MessageToDict(record, preserving_proto_field_name=True)
    except SerializeToJsonError:
        raise InputFileError("metadata with a number that JSON does not know") from None
    # The mapping makes texts of 64-bit numbers.
    numbers = {"stream": record.stream, "time_us": record.time_us if timed else 0}
    left = _mapped({name: each for name, each in value.items() if name not in numbers}, _readable)
    return orjson.dumps({**{name: number for name, number in numbers.items() if number}, **left})


def _mapped(value: Json, given: Callable[[str, Json], dict[str, Json] | None]) -> Json:
    """The value with other members.

    Args:
        given: what stands in place of a member; None: the member, itself mapped.
    """
    if isinstance(value, list):
        return [_mapped(each, given) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Json] = {}
    for name, each in value.items():
        new = given(name, each)
        found |= {name: _mapped(each, given)} if new is None else new
    return found


def _readable(name: str, value: Json) -> dict[str, Json] | None:
    if name in _FREE:
        # Protobuf's maps have no order.
        return {name: orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))}
    if name not in _AS_TEXT:
        return None
    try:
        return {_AS_TEXT[name]: base64.b64decode(value).decode()}
    except UnicodeDecodeError:
        return {name: value}


def read_line(line: bytes, *, before_us: int) -> tuple[Record, str]:
    """The record in a line, and the first of its keys that is not known, "" for none. Null counts as absent.

    Args:
        before_us: the time of the line before it.

    Raises:
        InputFileError: it is none; the message says why, not where.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise InputFileError(NOT_JSON) from None
    if not isinstance(value, dict):
        raise InputFileError("a record is a JSON object")
    value = _mapped(value, _for_protobuf)
    unknown, record = "", Record()
    try:
        ParseDict(value, record)
    except ParseError as error:
        unknown = str(error).partition(_UNKNOWN)[2].partition('"')[0]
        record.Clear()
        if not unknown or not _is_parsed(value, record):
            # Protobuf's own words, without the list of the fields that there are.
            raise InputFileError(str(error).partition("\n")[0][:_MAX_COMPLAINT_CHARS].rstrip(".")) from None
    kinds = [each.name for each in Record.DESCRIPTOR.oneofs_by_name["record"].fields]
    if record.WhichOneof("record") is None:
        raise InputFileError(f"a record has one of {', '.join(f'`{kind}`' for kind in kinds)}")
    if value.get("time_us", value.get("timeUs")) is None:
        record.time_us = before_us
    return record, unknown


def _is_parsed(value: dict[str, Any], record: Record) -> bool:
    """Whether it is a record but for keys that are not known; the kind of a message is none of them."""
    try:
        ParseDict(value, record, ignore_unknown_fields=True)
    except ParseError:
        return False
    is_message = record.WhichOneof("record") in ("request", "response")
    return not is_message or bool(kind_of(record))


def _for_protobuf(name: str, value: Json) -> dict[str, Json] | None:
    if name in _FREE:
        return {name: value}
    if name not in _AS_TEXT and name not in _AS_BYTES:
        return None
    if value is None:
        return {}
    if not isinstance(value, str):
        raise InputFileError(f"{name}: must be text")
    if name in _AS_BYTES:
        return {_AS_BYTES[name]: base64.b64encode(value.encode()).decode()}
    try:
        # Protobuf's reader skips characters that are not base64.
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InputFileError(f"{name}: is not base64") from None
    return {name: value}
