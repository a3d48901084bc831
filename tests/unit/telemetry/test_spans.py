"""What spans say: times, ids, counts, reasons and kinds of errors; and how little it takes for there to be none."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from semrouter_memory.config import ExternalModel, LlmEndpoint
from semrouter_memory.errors import ModelUnavailableError
from semrouter_memory.events import EpisodeFinished, ExtractionFinished, TurnAppended
from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    ChatMessage,
    Compression,
    CompressionReason,
    Hit,
    Reason,
    RecallOptions,
    RecallRequest,
    RecallResult,
    Scope,
    SessionHints,
    StepRun,
    Turn,
)
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver
from semrouter_memory.telemetry.spans import MAX_CHARS, MAX_SESSIONS, MAX_SPANS, Spans
from tests.memories import memory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CANARY = "my-secret-canary"
TRACE, PARENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
TRACEPARENT = {"traceparent": f"00-{TRACE:032x}-{PARENT:016x}-01"}
REQUEST = RecallRequest(
    scope=Scope("alice"), query=CANARY, options=RecallOptions(limit=5, threshold=0.6), model="m" * 500
)
MEMORY = memory(Scope("alice"), "mem_1", content=CANARY, created_at=NOW)
TURN = Turn(
    scope=Scope("alice"),
    hints=SessionHints(conversation_id="conv_1"),
    user_texts=(CANARY,),
    assistant_text=CANARY,
    observed_at=NOW,
    response_id="resp_1",
    model="gpt",
)
ACCEPTED = Appended(AppendOutcome.ACCEPTED, "session_1", "turn_1")
RULES, LLM = (ExtractionFinished(extractor=extractor, turns=1) for extractor in ("quotes", "llm"))


class Exported:
    """Spans, and what they have exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider.get_tracer("test"))

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all]

    def the(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.all if span.name == name]
        return span


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture
def observer(exported: Exported) -> TelemetryObserver:
    return TelemetryObserver(Metrics(), exported.spans)


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def retained(exported: Exported, observer: TelemetryObserver, appended: Appended | None = ACCEPTED) -> ReadableSpan:
    """An exchange whose turn is accepted."""
    with exported.spans.stream({}).retain(TURN) as finished:
        if appended is not None:
            observer.observe(TurnAppended(appended))
        finished(appended)
    return exported.all[-1]


def test_recall_is_a_child_of_the_proxys_span_and_its_steps_have_their_times(exported: Exported) -> None:
    with exported.spans.stream(TRACEPARENT).recall(REQUEST) as finished:
        began = time.perf_counter()
        runs = (StepRun("embed", began, began + 0.001), StepRun("search", began + 0.001, began + 0.003))
        finished(RecallResult(reason=Reason.INJECTED, hits=(Hit(MEMORY, 1, 1),), tokens=7, runs=runs))
    recall, embed, search = (exported.the(name) for name in ("memory recall", "embed", "search"))
    assert recall.parent is not None
    assert (recall.context.trace_id, recall.parent.span_id) == (TRACE, PARENT)
    for step in (embed, search):
        assert step.parent is not None
        assert (step.context.trace_id, step.parent.span_id) == (TRACE, recall.context.span_id)
    assert (embed.end_time or 0) - (embed.start_time or 0) == pytest.approx(1e6, abs=10)
    assert (search.end_time or 0) - (embed.start_time or 0) == pytest.approx(3e6, abs=10)
    assert (recall.start_time or 0) <= (embed.start_time or 0) <= time.time_ns()
    assert attributes(recall) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.request.model": "m" * MAX_CHARS,
        "gen_ai.memory.record.count": 1,
        "semrouter.memory.reason": "injected",
        "semrouter.memory.ids": ("mem_1",),
        "semrouter.memory.tokens": 7,
    }


def test_compression_is_told_in_numbers(exported: Exported) -> None:
    compression = Compression(
        reason=CompressionReason.COMPRESSED, text=CANARY, dropped_turns=4, tokens_before=900, tokens_after=200
    )
    with exported.spans.stream({}).recall(REQUEST) as finished:
        finished(RecallResult(reason=Reason.GREETING, text=CANARY, compression=compression))
    said = attributes(exported.the("memory recall"))
    assert {name: said[f"semrouter.memory.compression.{name}"] for name in ("turns", "tokens_before")} == {
        "turns": 4,
        "tokens_before": 900,
    }
    assert "gen_ai.operation.name" not in said


@pytest.mark.parametrize(
    ("reason", "failed"),
    [
        (Reason.TIMEOUT, True),
        (Reason.STORE_UNAVAILABLE, True),
        (Reason.EMBEDDING_FAILED, True),
        (Reason.INTERNAL, True),
        (Reason.BELOW_THRESHOLD, False),
        (Reason.GREETING, False),
    ],
)
def test_only_a_failure_is_an_error(exported: Exported, reason: Reason, *, failed: bool) -> None:
    with exported.spans.stream({}).recall(REQUEST) as finished:
        finished(RecallResult(reason=reason))
    span = exported.the("memory recall")
    assert (span.status.status_code is StatusCode.ERROR) is failed
    assert attributes(span).get("error.type") == (reason.value if failed else None)


def test_a_recall_that_is_cancelled_ends_its_span(exported: Exported) -> None:
    with pytest.raises(asyncio.CancelledError), exported.spans.stream({}).recall(REQUEST):
        raise asyncio.CancelledError(CANARY)
    assert CANARY not in exported.the("memory recall").to_json()


@pytest.mark.parametrize(
    ("metadata", "headers", "trace"),
    [
        (TRACEPARENT, {"traceparent": f"00-{1:032x}-{2:016x}-01"}, TRACE),
        ({}, TRACEPARENT, TRACE),
        ({"traceparent": "nonsense"}, TRACEPARENT, TRACE),
        ({}, {"traceparent": "nonsense"}, None),
    ],
    ids=["the proxy's first", "else the client's", "nonsense is none", "a new one"],
)
def test_whose_trace_it_is(
    exported: Exported, metadata: dict[str, str], headers: dict[str, str], trace: int | None
) -> None:
    stream = exported.spans.stream(metadata)
    stream.headers(lambda name: headers.get(name, ""))
    stream.bypassed(Reason.NO_IDENTITY)
    span = exported.the("memory bypass")
    assert (span.context.trace_id == TRACE) is (trace is not None)
    assert attributes(span) == {"semrouter.memory.reason": "no_identity"}


def test_an_accepted_turn_is_named_by_its_ids(exported: Exported, observer: TelemetryObserver) -> None:
    assert attributes(retained(exported, observer)) == {
        "gen_ai.conversation.id": "conv_1",
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.model": "gpt",
        "semrouter.memory.turn.outcome": "accepted",
        "semrouter.memory.turn.id": "turn_1",
        "semrouter.memory.session.id": "session_1",
    }
    assert attributes(retained(exported, observer, None))["semrouter.memory.turn.outcome"] == "not_yet"


def test_each_extractor_is_linked_once_to_the_exchanges_it_read(
    exported: Exported, observer: TelemetryObserver
) -> None:
    first, second = retained(exported, observer), retained(exported, observer)
    failed = ExtractionFinished(extractor="llm", turns=2, failure="parse_error")
    for report in (RULES, failed, LLM, LLM):
        with exported.spans.work("session_1"):
            observer.observe(report)
    works = [span for span in exported.all if span.name == "memory extract"]
    both = {first.context.span_id, second.context.span_id}
    assert [{link.context.span_id for link in work.links} for work in works] == [both, set(), both, set()]
    assert all(work.parent is None for work in works)


def test_work_on_another_session_is_not_linked(exported: Exported, observer: TelemetryObserver) -> None:
    retained(exported, observer)
    with exported.spans.work("session_2"):
        observer.observe(RULES)
    assert exported.the("memory extract").links == ()


def test_known_exchanges_are_bounded(exported: Exported, observer: TelemetryObserver) -> None:
    for _ in range(MAX_SPANS + 1):
        retained(exported, observer)
    with exported.spans.work("session_1"):
        observer.observe(RULES)
    assert len(exported.the("memory extract").links) == MAX_SPANS
    origins = exported.spans._origins
    for number in range(MAX_SESSIONS):
        origins.add(f"other_{number}", exported.all[0].context)
    assert len(origins._sessions) == MAX_SESSIONS
    assert origins.unread("session_1", "llm") == []


def test_work_that_does_nothing_is_no_span(exported: Exported) -> None:
    with exported.spans.work("session_1"):
        pass
    assert exported.names == []


def test_the_steps_of_work_are_its_children_and_it_began_when_it_began(
    exported: Exported, observer: TelemetryObserver
) -> None:
    began = time.time_ns()
    report = ExtractionFinished(extractor="quotes", turns=2, candidates=3, actions={"add": 2, "skip": 1})
    with exported.spans.work("session_1"):
        observer.observe(report)
        observer.observe(EpisodeFinished(extractor="episode_runs", turns=2, written=True))
    work, rules, episode = (exported.the(name) for name in ("memory extract", "extract quotes", "episode"))
    assert began <= (work.start_time or 0) == (rules.start_time or 0) <= (rules.end_time or 0)
    assert rules.end_time == episode.start_time
    assert {step.parent.span_id for step in (rules, episode) if step.parent} == {work.context.span_id}
    assert attributes(rules) == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.memory.record.count": 2,
        "semrouter.memory.extractor": "quotes",
        "semrouter.memory.turns": 2,
        "semrouter.memory.candidates": 3,
        "semrouter.memory.dead_lettered": 0,
        "semrouter.memory.actions.add": 2,
        "semrouter.memory.actions.skip": 1,
    }


def test_work_that_ends_in_a_bug_is_a_failed_span(exported: Exported, observer: TelemetryObserver) -> None:
    def work_with_a_bug() -> None:
        with exported.spans.work("session_1"):
            observer.observe(RULES)
            raise ValueError(CANARY)

    with pytest.raises(ValueError, match=CANARY):
        work_with_a_bug()
    work = exported.the("memory extract")
    assert (attributes(work)["error.type"], work.status.description) == ("ValueError", None)
    assert work.events == ()


class Model:
    name = "small"
    retry_after = None

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        if self._error is not None:
            raise self._error
        return CANARY


SECTION = ExternalModel(
    model_role="memory_rewrite",
    llm_endpoint=LlmEndpoint(base_url="https://llm.example.com/v1"),
    llm_model_name="small",
)
PROMPT = (ChatMessage("user", CANARY),)


async def test_a_model_asked_during_a_recall_is_its_child(exported: Exported) -> None:
    model = exported.spans.model(Model(), SECTION)
    with exported.spans.stream({}).recall(REQUEST) as finished:
        assert await asyncio.create_task(model.complete(PROMPT)) == CANARY
        finished(RecallResult(reason=Reason.BELOW_THRESHOLD))
    call, recall = exported.the("chat small"), exported.the("memory recall")
    assert call.parent is not None
    assert call.parent.span_id == recall.context.span_id
    assert attributes(call) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "small",
        "gen_ai.request.max_tokens": 2000,
        "gen_ai.request.temperature": 0.1,
        "server.address": "llm.example.com",
        "server.port": 443,
        "semrouter.memory.role": "memory_rewrite",
    }


async def test_a_model_asked_by_background_work_is_its_child(exported: Exported) -> None:
    with exported.spans.work("session_1"):
        await exported.spans.model(Model(), SECTION).complete(PROMPT)
    call, work = exported.the("chat small"), exported.the("memory extract")
    assert call.parent is not None
    assert call.parent.span_id == work.context.span_id


@pytest.mark.parametrize("error", [ModelUnavailableError(CANARY), asyncio.CancelledError(CANARY)])
async def test_a_model_that_fails_is_named_by_the_kind_of_error(exported: Exported, error: BaseException) -> None:
    with pytest.raises(type(error)):
        await exported.spans.model(Model(error), SECTION).complete(PROMPT)
    call = exported.the("chat small")
    assert attributes(call)["error.type"] == type(error).__name__
    assert call.status.status_code is StatusCode.ERROR


async def test_nothing_that_was_written_is_in_any_span(exported: Exported, observer: TelemetryObserver) -> None:
    stream = exported.spans.stream({})
    with stream.recall(REQUEST) as finished:
        await exported.spans.model(Model(), SECTION).complete(PROMPT)
        finished(RecallResult(reason=Reason.INJECTED, text=CANARY, hits=(Hit(MEMORY, 1, 1),)))
    retained(exported, observer)
    with exported.spans.work("session_1"):
        observer.observe(RULES)
    assert len(exported.all) == 5
    for span in exported.all:
        assert CANARY not in span.to_json()
        assert "alice" not in span.to_json()


def test_a_span_that_fails_costs_nobody_anything(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr("semrouter_memory.telemetry.spans._found", broken)
    with exported.spans.stream({}).recall(REQUEST) as finished:
        finished(RecallResult(reason=Reason.INJECTED))
    assert exported.names == ["memory recall"]
