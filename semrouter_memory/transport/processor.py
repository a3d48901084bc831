"""The driver: one coroutine per ext_proc stream, between Envoy's messages and the exchange."""

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import grpc.aio

from semrouter_memory.events import ExchangeBypassed, ExchangeFailed, SettingsUnreadable, TurnDropped
from semrouter_memory.exchange.events import Event, RequestBody, RequestHeaders, RequestTrailers
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import route_settings
from semrouter_memory.exchange.replies import NeedRecall, Outcome, Reply, Step
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import Appended, Reason, RecallRequest, RecallResult, Turn
from semrouter_memory.ports import Clock, Observer
from semrouter_memory.priority import LARGE_BODIES, is_large
from semrouter_memory.transport import wire

Done = TypeVar("Done")

_ASIDE_SECONDS = 0.01
"""About what a request takes."""
_ASIDE_SECONDS_A_BYTE = 1e-7
_MOST_ASIDE_SECONDS = 0.5
"""Same of a large one."""


class StreamSpans(Protocol):
    """Records one ext_proc stream in a trace. Never raises, never sees content."""

    def headers(self, header: Callable[[str], str]) -> None:
        """The request's headers, by name: they may carry a trace where the proxy itself takes part in none."""

    def recall(self, request: RecallRequest) -> AbstractContextManager[Callable[[RecallResult], object]]:
        """Spans the recall done inside; call what it gives with the result."""

    def retain(self, turn: Turn) -> AbstractContextManager[Callable[[Appended | None], object]]:
        """Spans the acceptance done inside; call what it gives with what became of the turn."""

    def bypassed(self, reason: Reason) -> None: ...


class RecordedStream(Protocol):
    """Records one stream, to be replayed. Quick, never raises, writes later."""

    def request(self, message: bytes) -> None:
        """Envoy sent this `ProcessingRequest`."""

    def response(self, message: bytes) -> None:
        """This `ProcessingResponse` is sent."""

    def ended(self, *, by_us: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Serves `ExternalProcessor/Process` for all three kinds of filter.

    Attributes:
        recall: never raises.
        accept: commits a turn; quick, never raises.
        shared_secret: what a stream must carry in `secret_header`; None: every client is trusted.
        secret_header: may accompany a route's settings, and is none of them.
        spans_of: continues the trace of a stream with this gRPC metadata, which names the proxy's own span; None: no traces.
        record_of: the record of a stream with this metadata, None for one that is not recorded; None: no recording.
    """

    settings: ExchangeSettings
    recall: Callable[[RecallRequest], Awaitable[RecallResult]]
    accept: Callable[[Turn], Appended | None]
    observer: Observer
    clock: Clock
    shared_secret: str | None = None
    secret_header: str = "x-memory-secret"  # noqa: S105 - the name of a header
    spans_of: Callable[[Mapping[str, str]], StreamSpans] | None = None
    record_of: Callable[[Mapping[str, str]], RecordedStream | None] | None = None

    async def process(
        self, stream: AsyncIterator[wire.Message], context: "grpc.aio.ServicerContext[wire.Message, bytes]"
    ) -> AsyncIterator[bytes]:
        """Answer one stream. Ending it early, for whatever reason, makes Envoy go on without us."""
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        if not self._trusted(metadata):
            self.observer.observe(ExchangeBypassed(Reason.UNAUTHENTICATED_PROXY))
            return
        exchange = Exchange(self.settings, route_settings(metadata, (self.secret_header,)), self.clock.now())
        spans: StreamSpans | None = None
        record: RecordedStream | None = None
        settled = False
        message = wire.Message()
        event: Event | None = None
        try:
            spans = self.spans_of(metadata) if self.spans_of else None
            record = self.record_of(metadata) if self.record_of else None
            async for message in _noting(stream, record):
                event = None
                await _step_aside(message, exchange)
                event = wire.event_from(message)
                if spans is not None and isinstance(event, RequestHeaders):
                    spans.headers(event.headers.get)
                step = await _received(exchange, event)
                outcome = None if settled else _refused(exchange)
                if isinstance(step, NeedRecall):
                    step, outcome = await self._recalled(exchange, step.request, spans)
                settled = settled or outcome is not None
                if exchange.answered:
                    # Before the last reply: the stream may be torn down during that write.
                    self._hand_over(exchange, spans)
                for reply in _noted(wire.replies_to(message, step, outcome), record):
                    yield reply
                if exchange.finished:
                    break
        except Exception as error:  # noqa: BLE001 - the one place that fails open: no bug of ours may cost a request
            self.observer.observe(ExchangeFailed(error))
            outcome = None if settled else Reason.INTERNAL
            for reply in _noted(wire.replies_to(message, exchange.abandon(event), outcome), record):
                yield reply
        finally:
            self._hand_over(exchange, spans)
            self._report(exchange, spans)
            _end(record, by_us=exchange.finished)

    async def _recalled(
        self, exchange: Exchange, request: RecallRequest, spans: StreamSpans | None
    ) -> tuple[Reply, Outcome]:
        started = time.perf_counter()
        if spans is None:
            result = await self.recall(request)
        else:
            with spans.recall(request) as finished:
                result = await self.recall(request)
                finished(result)
        duration_ms = (time.perf_counter() - started) * 1000
        outcome = Outcome(result=result, unreadable=exchange.unreadable, duration_ms=duration_ms)
        return await _done(exchange.body_bytes, partial(exchange.recalled, result)), outcome

    def _hand_over(self, exchange: Exchange, spans: StreamSpans | None) -> None:
        turn = exchange.take_turn()
        if turn is None:
            return
        if spans is None:
            self.accept(turn)
            return
        with spans.retain(turn) as finished:
            finished(self.accept(turn))

    def _report(self, exchange: Exchange, spans: StreamSpans | None) -> None:
        """Once for a request: a stream that only observes reads the same request as the filter that recalls."""
        if exchange.lost_answer is not None:
            reason, detail = exchange.lost_answer
            self.observer.observe(TurnDropped(reason.value, detail))
        if exchange.observing:
            return
        if exchange.unreadable:
            self.observer.observe(SettingsUnreadable(exchange.unreadable))
        if exchange.refusal is None:
            return
        self.observer.observe(ExchangeBypassed(exchange.refusal))
        if spans is not None:
            spans.bypassed(exchange.refusal)

    def _trusted(self, metadata: dict[str, str]) -> bool:
        if self.shared_secret is None:
            return True
        return hmac.compare_digest(metadata.get(self.secret_header, "").encode(), self.shared_secret.encode())


def _refused(exchange: Exchange) -> Outcome | Reason | None:
    """What the reply that settles the request tells; what becomes of the answer is another matter."""
    if exchange.refusal is None or not exchange.unreadable:
        return exchange.refusal
    return Outcome(result=RecallResult(reason=exchange.refusal), unreadable=exchange.unreadable)


async def _received(exchange: Exchange, event: Event) -> Step:
    if not isinstance(event, RequestBody | RequestTrailers):
        return exchange.receive(event)
    coming, is_last = (len(event.data), event.end_of_stream) if isinstance(event, RequestBody) else (0, True)
    size = exchange.body_bytes + coming
    if is_last and exchange.observing and is_large(size):
        await asyncio.sleep(min(size * _ASIDE_SECONDS_A_BYTE, _MOST_ASIDE_SECONDS))
    return await _done(size, partial(exchange.receive, event))


async def _done(size: int, work: Callable[[], Done]) -> Done:
    """What is done with a body of that size."""
    return await LARGE_BODIES.run(work) if is_large(size) else work()


async def _step_aside(message: wire.Message, exchange: Exchange) -> None:
    """Envoy opens both filters' streams at once. The client waits for recall, and not for the copies."""
    if message.observability_mode and not exchange.observing:
        await asyncio.sleep(_ASIDE_SECONDS)


def _noting(stream: AsyncIterator[wire.Message], record: RecordedStream | None) -> AsyncIterator[wire.Message]:
    """The stream with each message recorded as it is read; the same stream without a recorder."""

    async def noted(record: RecordedStream) -> AsyncIterator[wire.Message]:
        async for message in stream:
            record.request(message.SerializeToString())
            yield message

    return stream if record is None else noted(record)


def _noted(replies: Iterable[bytes], record: RecordedStream | None) -> Iterator[bytes]:
    for reply in replies:
        if record is not None:
            record.response(reply)
        yield reply


def _end(record: RecordedStream | None, *, by_us: bool) -> None:
    if record is not None:
        record.ended(by_us=by_us)
