"""The spans of exchanges, of background work, and of the models that either asks.

Strategy: the span of a phase is open while the phase runs, so that a model called meanwhile becomes its child; the steps
become its children afterwards, from times that are measured anyway. Most wake-ups of a session find nothing to do, so the span of
background work is made, with its true beginning, when something is done. It begins a trace of its own and is linked to the
exchanges whose turns are read: they ended long ago.

Spans carry counts, ids, reasons, durations and names of models, never a text. Names follow the OpenTelemetry conventions for
generative AI where these have one. They are still in development and change with the package that holds them, so they stand here
and are not imported.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from cachetools import LRUCache
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from semrouter_memory.config import ExternalModel
from semrouter_memory.errors import name_of
from semrouter_memory.events import EpisodeFinished, Event, ExtractionFinished, TurnAppended
from semrouter_memory.model import Appended, AppendOutcome, ChatMessage, Reason, RecallRequest, RecallResult, Turn
from semrouter_memory.ports import ChatModel

MAX_IDS = 50
"""Named on one span."""
MAX_SESSIONS = 4096
"""Whose exchanges background work is linked to; the session that was used longest ago is dropped first."""
MAX_SPANS = 16
"""Of one session; the last ones."""

OPERATION, ERROR = "gen_ai.operation.name", "error.type"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
CONVERSATION, RESPONSE_ID = "gen_ai.conversation.id", "gen_ai.response.id"
RECORDS, PROVIDER = "gen_ai.memory.record.count", "gen_ai.provider.name"
MAX_TOKENS, TEMPERATURE = "gen_ai.request.max_tokens", "gen_ai.request.temperature"
SERVER, PORT = "server.address", "server.port"
OWN = "semrouter.memory."
"""Prefix of our own attributes."""
MAX_CHARS = 128
"""Of a value that a client or a server chose."""

Attributes = dict[str, AttributeValue]
_HTTPS_PORT, _HTTP_PORT = 443, 80
_OPERATIONS = {"embed": "embeddings", "search": "retrieval"}


_P = ParamSpec("_P")
_S = TypeVar("_S")


_current_work: ContextVar["Work | None"] = ContextVar("semrouter_memory_work", default=None)


def present(attributes: Mapping[str, str | float]) -> Attributes:
    """Without those that are not known, texts within their bound."""
    cut = {name: value[:MAX_CHARS] if isinstance(value, str) else value for name, value in attributes.items()}
    return {name: value for name, value in cut.items() if value != ""}


def mark_failed(span: Span, error: str) -> None:
    """Names the kind of error alone: a message may quote what it choked on."""
    span.set_attribute(ERROR, error)
    span.set_status(Status(StatusCode.ERROR))


def never_raising(function: Callable[Concatenate[_S, _P], None]) -> Callable[Concatenate[_S, _P], None]:
    def traced(first: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        # A span that fails must not cost a request.
        with suppress(Exception):
            function(first, *args, **kwargs)

    return traced


# -- exchanges ---------------------------------------------------------------------------------------------------------


class Spans:
    """Makes the spans of one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._origins = Origins()

    def stream(self, metadata: Mapping[str, str]) -> "ExchangeSpans":
        """Those of a stream that was opened with this gRPC metadata: the proxy's own span is named in it."""
        return ExchangeSpans(self._tracer, _context_in(metadata))

    def model(self, model: ChatModel, section: ExternalModel) -> ChatModel:
        """The model, each of its calls a span."""
        return TracedChatModel(model, section, self._tracer)

    @contextmanager
    def work(self, session_id: str) -> Iterator[None]:
        """Spans background work on a session, if something is done."""
        work = Work(self._tracer, self._origins, session_id)
        token = _current_work.set(work)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            _current_work.reset(token)
            work.end(error)

    def observe(self, event: Event) -> None:
        """The current context tells which exchange or which work an event belongs to."""
        match event:
            case TurnAppended(Appended(AppendOutcome.ACCEPTED, session_id)) if session_id:
                self._origins.add(session_id, trace.get_current_span().get_span_context())
            case ExtractionFinished():
                if (work := _current_work.get()) is not None:
                    work.extracted(event)
            case EpisodeFinished(extractor=extractor) if extractor:
                if (work := _current_work.get()) is not None:
                    work.episode_finished(event)
            case _:
                pass


class ExchangeSpans:
    """The spans of one stream (implements `StreamSpans` of `transport/processor.py`)."""

    def __init__(self, tracer: Tracer, context: Context) -> None:
        self._tracer = tracer
        self._context = context
        self._opened_ns = time.time_ns()

    @never_raising
    def headers(self, header: Callable[[str], str]) -> None:
        """A proxy that traces names its span in the metadata; otherwise the client's headers count."""
        if not trace.get_current_span(self._context).get_span_context().is_valid:
            fields = propagate.get_global_textmap().fields
            self._context = propagate.extract({name: value for name in fields if (value := header(name))}, Context())

    @contextmanager
    def recall(self, request: RecallRequest) -> Iterator[Callable[[RecallResult], None]]:
        clock = PerfCounterClock()
        attributes = present({REQUEST_MODEL: request.model})
        with self._span("memory recall", attributes) as span:
            yield lambda result: _recalled(self._tracer, span, result, clock)

    @contextmanager
    def retain(self, turn: Turn) -> Iterator[Callable[[Appended | None], None]]:
        attributes = present({RESPONSE_MODEL: turn.model, RESPONSE_ID: turn.response_id})
        with self._span("memory retain", attributes) as span:
            yield lambda appended: _accepted(span, turn, appended)

    @contextmanager
    def _span(self, name: str, attributes: Attributes) -> Iterator[Span]:
        try:
            span = self._tracer.start_span(name, self._context, SpanKind.SERVER, attributes)
        except Exception:  # noqa: BLE001 - a sampler or processor that fails must not cost a request or a turn
            span = trace.INVALID_SPAN
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield span

    @never_raising
    def bypassed(self, reason: Reason) -> None:
        attributes: Attributes = {f"{OWN}reason": reason.value}
        span = self._tracer.start_span(
            "memory bypass", self._context, SpanKind.SERVER, attributes, start_time=self._opened_ns
        )
        span.end()


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
        attributes: Attributes = {OPERATION: _OPERATIONS[run.name]} if run.name in _OPERATIONS else {}
        step = tracer.start_span(run.name, context, attributes=attributes, start_time=clock.ns(run.started))
        step.end(clock.ns(run.ended))


def _found(result: RecallResult) -> Attributes:
    used = result.hits if result.reason is Reason.INJECTED else ()
    attributes: Attributes = {
        f"{OWN}reason": result.reason.value,
        f"{OWN}ids": [hit.memory.id for hit in used[:MAX_IDS]],
        f"{OWN}tokens": result.tokens,
        RECORDS: len(used),
    }
    if result.reason.is_outcome or result.reason.is_failure:
        attributes[OPERATION] = "search_memory"
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
        CONVERSATION: turn.hints.conversation_id or appended.session_id,
    }
    span.set_attributes(present(attributes))


# -- background work, and models ---------------------------------------------------------------------------------------


class Origins:
    """Spans of exchanges by session, as far as this process accepted their turns itself, with the extractors that read them."""

    def __init__(self) -> None:
        self._sessions: LRUCache[str, deque[tuple[SpanContext, set[str]]]] = LRUCache(MAX_SESSIONS)

    def add(self, session_id: str, span: SpanContext) -> None:
        if span.is_valid:
            self._sessions.setdefault(session_id, deque(maxlen=MAX_SPANS)).append((span, set()))

    def unread(self, session_id: str, extractor: str) -> list[SpanContext]:
        """Those of the session that this extractor was not given yet: quotes and model read a turn at different times."""
        found = [each for each in self._sessions.get(session_id, ()) if extractor not in each[1]]
        for _, read_by in found:
            read_by.add(extractor)
        return [span for span, _ in found]


class Work:
    """A piece of background work on one session."""

    def __init__(self, tracer: Tracer, origins: Origins, session_id: str) -> None:
        self._tracer = tracer
        self._origins = origins
        self._session_id = session_id
        self._span: Span | None = None
        self._started_ns = self._mark_ns = time.time_ns()

    def open(self) -> Span:
        """Its span; from now on there is one."""
        if self._span is None:
            attributes = present({f"{OWN}session.id": self._session_id, CONVERSATION: self._session_id})
            self._span = self._tracer.start_span(
                "memory extract", Context(), attributes=attributes, start_time=self._started_ns
            )
        return self._span

    def extracted(self, event: ExtractionFinished) -> None:
        self._step(f"extract {event.extractor}", _extraction(event), error=event.failure)
        if not event.failure:
            for origin in self._origins.unread(self._session_id, event.extractor):
                self.open().add_link(origin)

    def episode_finished(self, event: EpisodeFinished) -> None:
        attributes: Attributes = {
            f"{OWN}extractor": event.extractor,
            f"{OWN}turns": event.turns,
            f"{OWN}written": event.written,
        }
        self._step("episode", attributes)

    def end(self, error: BaseException | None) -> None:
        if self._span is None:
            return
        if error is not None:
            mark_failed(self._span, name_of(error))
        self._span.end()

    def _step(self, name: str, attributes: Attributes, *, error: str = "") -> None:
        """What was done since the last step."""
        context = set_span_in_context(self.open())
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=self._mark_ns)
        self._mark_ns = time.time_ns()
        if error:
            mark_failed(span, error)
        span.end(self._mark_ns)


class TracedChatModel:
    """A chat model whose calls are client spans (implements the `ChatModel` port)."""

    def __init__(self, model: ChatModel, section: ExternalModel, tracer: Tracer) -> None:
        self._model = model
        self._tracer = tracer
        server = urlsplit(section.llm_endpoint.url)
        self._attributes = present(
            {
                OPERATION: "chat",
                PROVIDER: section.llm_provider,
                REQUEST_MODEL: section.llm_model_name,
                MAX_TOKENS: section.max_tokens,
                TEMPERATURE: section.temperature,
                SERVER: server.hostname or "",
                PORT: server.port or (_HTTPS_PORT if server.scheme == "https" else _HTTP_PORT),
                f"{OWN}role": section.model_role,
            }
        )

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def retry_after(self) -> float | None:
        return self._model.retry_after

    def late(self) -> None:
        self._model.late()

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        span = self._tracer.start_span(f"chat {self.name}", _parent_of_call(), SpanKind.CLIENT, self._attributes)
        try:
            return await self._model.complete(messages)
        except BaseException as error:
            mark_failed(span, name_of(error))
            raise
        finally:
            span.end()


def _parent_of_call() -> Context | None:
    """Whose child a model's call is: the current work's, else (None) the exchange's."""
    work = _current_work.get()
    return set_span_in_context(work.open()) if work is not None else None


def _extraction(event: ExtractionFinished) -> Attributes:
    attributes: Attributes = {
        f"{OWN}extractor": event.extractor,
        f"{OWN}turns": event.turns,
        f"{OWN}candidates": event.candidates,
        f"{OWN}dead_lettered": event.dead_lettered,
        RECORDS: event.stored,
    }
    if event.stored:
        attributes[OPERATION] = "upsert_memory"
    for action, count in event.actions.items():
        attributes[f"{OWN}actions.{action}"] = count
    return attributes
