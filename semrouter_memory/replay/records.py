"""What a recording consists of, as values; the two file formats are views of these. Pure.

The order of a recording's records is the order in which things happened. Times only say how long that took.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from semrouter_memory.model import Json

Fields: TypeAlias = tuple[tuple[str, bytes], ...]
"""Header fields as they are on the wire."""

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


class EndedBy(Enum):
    """Who ended a stream."""

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

    version: int = VERSION
    made_by: str = ""
    started_at: str = ""
    pseudonymised: bool = False


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
    answers_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingRequest:
    """What Envoy showed (ext_proc `ProcessingRequest`).

    Attributes:
        kind: one of `KINDS`; "" for a message of a kind that is not known here.
        request_body_mode: name of the `BodySendMode`, None when Envoy did not say.
        response_body_mode: same.
        metadata: dynamic metadata by namespace.
    """

    kind: str
    headers: Fields = ()
    body: bytes = b""
    end_of_stream: bool = False
    observing: bool = False
    request_body_mode: str | None = None
    response_body_mode: str | None = None
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
    value: bytes
    append: bool | None = None
    action: str = "APPEND_IF_EXISTS_OR_ADD"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingResponse:
    """What the service answered (ext_proc `ProcessingResponse`).

    Attributes:
        kind: one of `KINDS`, `IMMEDIATE`, or "".
        body: what the body is replaced with; None: it stays.
        streamed: the body is a piece (`streamed_response`).
        end_of_stream: of a piece.
        replaces: `CONTINUE_AND_REPLACE`.
        http_status: of an immediate response.
    """

    kind: str
    set_headers: tuple[SetHeader, ...] = ()
    remove_headers: tuple[str, ...] = ()
    body: bytes | None = None
    streamed: bool = False
    end_of_stream: bool = False
    replaces: bool = False
    clear_route_cache: bool = False
    http_status: int = 0
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
    """Where something stands in a file, for messages."""

    file: str
    at: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.at}" if self.at else self.file


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One HTTP exchange with all its streams, in the order in which things happened.

    Attributes:
        location: where it begins.
        nbytes: what it took in its file.
        started_at: when its recording began, as its header says; "" when it does not.
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
