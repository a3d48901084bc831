"""Spans of background work, and of the models that are asked by it or by an exchange.

Strategy: most wakes of a session find nothing to do, so the span of a piece of work is made, with its true beginning, when
something is done. It begins a trace of its own, and is linked to the exchanges whose turns are read: they ended long ago.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Tracer, set_span_in_context

from semrouter_memory.config import ExternalModel
from semrouter_memory.errors import name_of
from semrouter_memory.events import EpisodeFinished, ExtractionFinished
from semrouter_memory.model import ChatMessage
from semrouter_memory.ports import ChatModel
from semrouter_memory.telemetry import attributes as names
from semrouter_memory.telemetry.attributes import OWN, Attributes, mark_failed, present
from semrouter_memory.telemetry.origins import Origins

_HTTPS_PORT, _HTTP_PORT = 443, 80


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
            attributes = present({f"{OWN}session.id": self._session_id, names.CONVERSATION: self._session_id})
            self._span = self._tracer.start_span(
                "memory extract", Context(), attributes=attributes, start_time=self._started_ns
            )
        return self._span

    def extracted(self, event: ExtractionFinished) -> None:
        self._step(f"extract {event.extractor}", _extraction(event), error=event.failure)
        if not event.failure:
            for origin in self._origins.unread(self._session_id, event.extractor):
                self.open().add_link(origin)

    def summed_up(self, event: EpisodeFinished) -> None:
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
                names.OPERATION: "chat",
                names.PROVIDER: section.llm_provider,
                names.REQUEST_MODEL: section.llm_model_name,
                names.MAX_TOKENS: section.max_tokens,
                names.TEMPERATURE: section.temperature,
                names.SERVER: server.hostname or "",
                names.PORT: server.port or (_HTTPS_PORT if server.scheme == "https" else _HTTP_PORT),
                f"{OWN}role": section.model_role,
            }
        )

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def retry_after(self) -> float | None:
        return self._model.retry_after

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        """Same as the model's own."""
        span = self._tracer.start_span(f"chat {self.name}", _asking(), SpanKind.CLIENT, self._attributes)
        try:
            return await self._model.complete(messages)
        except BaseException as error:
            mark_failed(span, name_of(error))
            raise
        finally:
            span.end()


_under_way: ContextVar[Work | None] = ContextVar("semrouter_memory_work", default=None)


@contextmanager
def working(work: Work) -> Iterator[None]:
    """Makes it the work that is under way, and ends it."""
    token = _under_way.set(work)
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        _under_way.reset(token)
        work.end(error)


def under_way() -> Work | None:
    return _under_way.get()


def _asking() -> Context | None:
    """Whose child a model's call is: the work's that is under way, else (None) the exchange's."""
    work = under_way()
    return set_span_in_context(work.open()) if work is not None else None


def _extraction(event: ExtractionFinished) -> Attributes:
    attributes: Attributes = {
        f"{OWN}extractor": event.extractor,
        f"{OWN}turns": event.turns,
        f"{OWN}candidates": event.candidates,
        f"{OWN}dead_lettered": event.dead_lettered,
        names.RECORDS: event.stored,
    }
    if event.stored:
        attributes[names.OPERATION] = "upsert_memory"
    for action, count in event.actions.items():
        attributes[f"{OWN}actions.{action}"] = count
    return attributes
