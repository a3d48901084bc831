"""What an exchange answers to an event. Which ext_proc message that becomes follows from the event's kind."""

from dataclasses import dataclass
from typing import TypeAlias

from semrouter_memory.model import Reason, RecallRequest, RecallResult, Steered


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
        memory_ids: of the memories that were put into the request, best first.
        scores: their relevance, in the same order.
        compressed_turns: how many turns of the conversation were replaced by a state.
        shortened_results: how many results of tools were replaced by a line.
        duration_ms: how long the request waited for recall.
        steered: what became of an order to the memory; None: the message gave none.
    """

    reason: Reason
    unreadable: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    tokens: int = 0
    compressed_turns: int = 0
    shortened_results: int = 0
    duration_ms: float = 0.0
    steered: Steered | None = None


def outcome_of(result: RecallResult, *, duration_ms: float, unreadable: tuple[str, ...] = ()) -> Outcome:
    used = result.hits if result.reason is Reason.INJECTED else ()
    return Outcome(
        reason=result.reason,
        unreadable=unreadable,
        memory_ids=tuple(hit.memory.id for hit in used),
        scores=tuple(hit.relevance for hit in used),
        tokens=result.tokens,
        compressed_turns=result.compression.dropped_turns if result.compression else 0,
        shortened_results=result.shortened.results if result.shortened else 0,
        duration_ms=duration_ms,
        steered=result.steered,
    )


Reply: TypeAlias = Silence | Continue | ReplaceBody | StreamBody
Step: TypeAlias = Reply | NeedRecall
