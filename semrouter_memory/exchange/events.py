"""What Envoy tells us of an exchange, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from semrouter_memory.model import Json


class BodyMode(Enum):
    """How Envoy sends a body (ext_proc `BodySendMode`)."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4
    GRPC = 5


@dataclass(frozen=True, slots=True)
class Protocol:
    """How the filter that opened the stream is configured.

    Attributes:
        observing: `observability_mode`: we are sent copies and must not answer.
        request_body: None when Envoy does not say (before `protocol_config` existed).
        response_body: same.
    """

    observing: bool = False
    request_body: BodyMode | None = None
    response_body: BodyMode | None = None


class Headers:
    """Header fields with lower-case names; a name may occur more than once.

    Args:
        fields: (name, value) pairs in their order on the wire. Bytes that are no UTF-8 arrive as surrogates.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name.lower(), []).append(value)

    def get(self, name: str) -> str:
        """The first value, "" when there is none."""
        values = self._fields.get(name)
        return values[0] if values else ""

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(self._fields.get(name, ()))


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """Opens the exchange.

    Attributes:
        metadata: dynamic metadata by namespace, as far as Envoy forwards it (verified JWT payloads).
    """

    headers: Headers
    end_of_stream: bool = False
    protocol: Protocol = Protocol()
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestBody:
    data: bytes
    end_of_stream: bool


@dataclass(frozen=True, slots=True)
class RequestTrailers:
    pass


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """The first event where Envoy itself answers what no filter before ours lets pass."""

    headers: Headers
    end_of_stream: bool = False
    protocol: Protocol = Protocol()


@dataclass(frozen=True, slots=True)
class ResponseBody:
    data: bytes
    end_of_stream: bool


@dataclass(frozen=True, slots=True)
class ResponseTrailers:
    pass


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A message of a kind that this version does not know; it cannot be answered."""


Event: TypeAlias = (
    RequestHeaders | RequestBody | RequestTrailers | ResponseHeaders | ResponseBody | ResponseTrailers | UnknownEvent
)
