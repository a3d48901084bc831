"""The records of a recording, as values; both file formats represent these. Pure.

Records are in the order of their events. Times only give the pauses between them.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, StrictBool, StrictInt
from pydantic import Field as Bounded

from semrouter_memory.model import Json

VERSION = 1

REQUEST_ID = "x-request-id"

KINDS = (
    "request_headers",
    "request_body",
    "request_trailers",
    "response_headers",
    "response_body",
    "response_trailers",
)
IMMEDIATE = "immediate_response"

MAX_RECORD_BYTES = 128 * 1024 * 1024
"""A buffered body may have 72 MiB (`server.max_message_bytes`), and base64 makes a third more of it."""


def text_or_base64(data: bytes) -> str | dict[str, str]:
    """Bytes as JSON has them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _data(value: object) -> bytes:
    """The bytes that `text_or_base64` wrote."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict) or set(value) != {"base64"}:
        raise ValueError('must be text, or {"base64": ...}')
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("is not base64") from None


def _one_of(*names: str) -> AfterValidator:
    def checked(value: str) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(filter(None, names))}")
        return value

    return AfterValidator(checked)


# What the annotations say is checked where a record is read from JSON.
Data: TypeAlias = Annotated[bytes, BeforeValidator(_data)]
Fields: TypeAlias = tuple[tuple[str, Data], ...]
"""Header fields as they are on the wire."""
_Mode: TypeAlias = Annotated[
    str, _one_of("NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC")
]
_Action: TypeAlias = Annotated[
    str, _one_of("APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS")
]


class EndedBy(Enum):
    UNKNOWN = "unknown"
    ENVOY = "envoy"
    MEMORY = "memory"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Header:
    """Begins a recording.

    Attributes:
        started_at: RFC 3339; "" when it does not matter.
    """

    version: StrictInt = VERSION
    made_by: str = ""
    started_at: str = ""
    pseudonymised: StrictBool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """Envoy opened a stream.

    Attributes:
        exchange: the same for the streams of one HTTP exchange.
        metadata: the stream's gRPC metadata.
        answers_known: False for what was converted from a source without answers.
    """

    exchange: str
    metadata: tuple[tuple[str, str], ...] = ()
    answers_known: StrictBool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingRequest:
    """A message from Envoy (ext_proc `ProcessingRequest`).

    Attributes:
        kind: one of `KINDS`; "" for a message of a kind that is not known here.
        request_body_mode: name of the `BodySendMode`, None when Envoy did not say.
        response_body_mode: same.
        metadata: dynamic metadata by namespace.
    """

    kind: Annotated[str, _one_of("", *KINDS)]
    headers: Fields = ()
    body: Data = b""
    end_of_stream: StrictBool = False
    observing: StrictBool = False
    request_body_mode: _Mode | None = None
    response_body_mode: _Mode | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    attributes: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetHeader:
    """A header that an answer sets.

    Attributes:
        append: the deprecated flag, None when it is not given.
        action: name of the `HeaderAppendAction`.
    """

    name: str
    value: Data
    append: StrictBool | None = None
    action: _Action = "APPEND_IF_EXISTS_OR_ADD"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingResponse:
    """A message from the service (ext_proc `ProcessingResponse`).

    Attributes:
        kind: one of `KINDS`, `IMMEDIATE`, or "".
        body: what the body is replaced with; None: it stays.
        streamed: the body is a piece (`streamed_response`).
        end_of_stream: of a piece.
        replaces: `CONTINUE_AND_REPLACE`.
        http_status: of an immediate response.
    """

    kind: Annotated[str, _one_of("", *KINDS, IMMEDIATE)]
    set_headers: tuple[SetHeader, ...] = ()
    remove_headers: tuple[str, ...] = ()
    body: Data | None = None
    streamed: StrictBool = False
    end_of_stream: StrictBool = False
    replaces: StrictBool = False
    clear_route_cache: StrictBool = False
    http_status: Annotated[StrictInt, Bounded(ge=0, lt=1000)] = 0
    dynamic_metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """A stream is over, or not recorded any further; `note` says why, for people."""

    by: EndedBy = EndedBy.UNKNOWN
    note: str = ""


Event: TypeAlias = Header | Begin | ProcessingRequest | ProcessingResponse | End


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened.

    Attributes:
        stream: tells a recording's streams apart; 0 for what concerns all of it.
        time_us: since the recording began.
    """

    stream: int
    time_us: int
    event: Event


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


def header_value(fields: Fields, name: str) -> str:
    """The first value of a header, "" when there is none."""
    return next((value.decode("utf-8", "replace") for key, value in fields if key.lower() == name), "")
