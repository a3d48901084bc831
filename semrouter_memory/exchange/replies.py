"""What an exchange answers to an event. Which ext_proc message that becomes follows from the event's kind."""

from dataclasses import dataclass
from typing import TypeAlias

from semrouter_memory.model import RecallRequest, RecallResult


@dataclass(frozen=True, slots=True)
class Silence:
    """No message: Envoy only shows copies, or the body is still being collected."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with what you have."""


@dataclass(frozen=True, slots=True)
class ReplaceBody:
    """Go on with this body; `content-length` follows it."""

    body: bytes


@dataclass(frozen=True, slots=True)
class StreamBody:
    """The next piece of a body in FULL_DUPLEX_STREAMED mode, where Envoy forwards only what we send."""

    body: bytes
    end_of_stream: bool


@dataclass(frozen=True, slots=True)
class NeedRecall:
    """The only suspension point: the driver awaits recall and passes the result to `Exchange.recalled`."""

    request: RecallRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What memory did for a request: dynamic metadata of the reply, for Envoy's logs and response headers.

    Attributes:
        unreadable: names of the settings that cannot be read; what they govern was off.
        duration_ms: how long the request waited for recall.
    """

    result: RecallResult
    unreadable: tuple[str, ...] = ()
    duration_ms: float = 0.0


Reply: TypeAlias = Silence | Continue | ReplaceBody | StreamBody
Step: TypeAlias = Reply | NeedRecall
