"""The spans of exchanges, in the traces of those who call.

Strategy: the span of a phase is open while the phase runs, so that a model asked meanwhile becomes its child; the steps
become its children afterwards, from times that are taken anyway.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer

from semrouter_memory.config import ExternalModel
from semrouter_memory.events import EpisodeFinished, Event, ExtractionFinished, TurnAppended
from semrouter_memory.model import Appended, AppendOutcome, Reason, RecallRequest, RecallResult, Turn
from semrouter_memory.ports import ChatModel
from semrouter_memory.telemetry import attributes as names
from semrouter_memory.telemetry.attributes import OWN, Attributes, mark_failed, never_raising, present
from semrouter_memory.telemetry.origins import Origins
from semrouter_memory.telemetry.work import TracedChatModel, Work, under_way, working

MAX_IDS = 50
"""Named on one span."""

_NOT_SEARCHED = frozenset(
    {
        Reason.DISABLED,
        Reason.UNREADABLE_SETTING,
        Reason.GREETING,
        Reason.NO_QUERY,
        Reason.NO_PLACE,
        Reason.FACT,
        Reason.TOOL,
    }
)
_OPERATIONS = {"embed": "embeddings", "search": "retrieval"}


class Spans:
    """Makes the spans of one process (implements the `Tracing` port)."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._origins = Origins()

    def stream(self, metadata: Mapping[str, str]) -> "ExchangeSpans":
        return ExchangeSpans(self._tracer, _context_in(metadata))

    def model(self, model: ChatModel, section: ExternalModel) -> TracedChatModel:
        """The model, each of its calls a span."""
        return TracedChatModel(model, section, self._tracer)

    def work(self, session_id: str) -> AbstractContextManager[None]:
        """Spans background work on a session, if it turns out to be any."""
        return working(Work(self._tracer, self._origins, session_id))

    def observe(self, event: Event) -> None:
        """Spans are told of turns by the exchange, and of steps by the work, that runs in the current context."""
        match event:
            case TurnAppended(Appended(AppendOutcome.ACCEPTED, session_id)) if session_id:
                self._origins.add(session_id, trace.get_current_span().get_span_context())
            case ExtractionFinished():
                if (work := under_way()) is not None:
                    work.extracted(event)
            case EpisodeFinished(extractor=extractor) if extractor:
                if (work := under_way()) is not None:
                    work.summed_up(event)
            case _:
                pass


class ExchangeSpans:
    """The spans of one stream (implements the `StreamSpans` port)."""

    def __init__(self, tracer: Tracer, context: Context) -> None:
        self._tracer = tracer
        self._context = context
        self._opened_ns = time.time_ns()

    @never_raising
    def headers(self, header: Callable[[str], str]) -> None:
        """A proxy that traces names its span in the metadata; else the client's own headers have the last word."""
        if not trace.get_current_span(self._context).get_span_context().is_valid:
            fields = propagate.get_global_textmap().fields
            self._context = propagate.extract({name: value for name in fields if (value := header(name))}, Context())

    @contextmanager
    def recall(self, request: RecallRequest) -> Iterator[Callable[[RecallResult], None]]:
        clock = PerfCounterClock()
        attributes = present({names.REQUEST_MODEL: request.model})
        span = _started(self._tracer, "memory recall", self._context, attributes)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield lambda result: _recalled(self._tracer, span, result, clock)

    @contextmanager
    def retain(self, turn: Turn) -> Iterator[Callable[[Appended | None], None]]:
        attributes = present({names.RESPONSE_MODEL: turn.model, names.RESPONSE_ID: turn.response_id})
        span = _started(self._tracer, "memory retain", self._context, attributes)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield lambda appended: _accepted(span, turn, appended)

    @never_raising
    def bypassed(self, reason: Reason) -> None:
        attributes: Attributes = {f"{OWN}reason": reason.value}
        span = self._tracer.start_span(
            "memory bypass", self._context, SpanKind.SERVER, attributes, start_time=self._opened_ns
        )
        span.end()


def _started(tracer: Tracer, name: str, context: Context, attributes: Attributes) -> Span:
    try:
        return tracer.start_span(name, context, SpanKind.SERVER, attributes)
    except Exception:  # noqa: BLE001 - a sampler or processor that fails must not cost a request or a turn
        return trace.INVALID_SPAN


def _context_in(metadata: Mapping[str, str]) -> Context:
    try:
        return propagate.extract(metadata, Context())
    except Exception:  # noqa: BLE001 - same, for a propagator
        return Context()


class PerfCounterClock:
    """Tells times of `time.perf_counter` as times of day."""

    def __init__(self) -> None:
        self._origin_ns, self._origin = time.time_ns(), time.perf_counter()

    def ns(self, at: float) -> int:
        return self._origin_ns + round((at - self._origin) * 1e9)


@never_raising
def _recalled(tracer: Tracer, span: Span, result: RecallResult, clock: PerfCounterClock) -> None:
    if not span.is_recording():
        return
    span.set_attributes(_found(result))
    if result.reason.is_failure:
        mark_failed(span, result.reason.value)
    context = trace.set_span_in_context(span)
    for run in result.runs:
        attributes: Attributes = {names.OPERATION: _OPERATIONS[run.name]} if run.name in _OPERATIONS else {}
        step = tracer.start_span(run.name, context, attributes=attributes, start_time=clock.ns(run.started))
        step.end(clock.ns(run.ended))


def _found(result: RecallResult) -> Attributes:
    used = result.hits if result.reason is Reason.INJECTED else ()
    attributes: Attributes = {
        f"{OWN}reason": result.reason.value,
        f"{OWN}ids": [hit.memory.id for hit in used[:MAX_IDS]],
        f"{OWN}tokens": result.tokens,
        names.RECORDS: len(used),
    }
    if result.reason not in _NOT_SEARCHED:
        attributes[names.OPERATION] = "search_memory"
    if (compression := result.compression) is not None:
        attributes[f"{OWN}compression.reason"] = compression.reason.value
        attributes[f"{OWN}compression.turns"] = compression.dropped_turns
        attributes[f"{OWN}compression.tokens_before"] = compression.tokens_before
        attributes[f"{OWN}compression.tokens_after"] = compression.tokens_after
    return attributes


@never_raising
def _accepted(span: Span, turn: Turn, appended: Appended | None) -> None:
    """None: a long turn, which is cleaned first; or one that could not be written, which is logged and counted."""
    if appended is None:
        span.set_attribute(f"{OWN}turn.outcome", "not_yet")
        return
    attributes = {
        f"{OWN}turn.outcome": appended.outcome.value,
        f"{OWN}turn.id": appended.turn_id,
        f"{OWN}session.id": appended.session_id,
        names.CONVERSATION: turn.hints.conversation_id or appended.session_id,
    }
    span.set_attributes(present(attributes))
