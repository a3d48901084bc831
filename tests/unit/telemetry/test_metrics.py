"""Events become metrics and log lines."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from structlog.testing import capture_logs

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.events import (
    CandidatesRefused,
    EpisodeFinished,
    Event,
    ExchangeBypassed,
    ExchangeFailed,
    ExtractionFinished,
    MaintenanceFinished,
    ModelStateChanged,
    PassagesTruncated,
    RecallFinished,
    SecretsRedacted,
    SessionDue,
    SettingsUnreadable,
    StoreFailed,
    StoreStateChanged,
    TurnAppended,
    TurnDropped,
    WorkFailed,
)
from semrouter_memory.model import (
    Appended,
    AppendOutcome,
    Hit,
    MaintenanceReport,
    Memory,
    MemoryType,
    Reason,
    RecallResult,
    ReconcileAction,
    Scope,
)
from semrouter_memory.ports import Observer
from semrouter_memory.retain.redact import SecretKind
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CANARY = "my-secret-canary"
MEMORY = Memory(
    id="m1",
    scope=Scope("alice"),
    type=MemoryType.SEMANTIC,
    content=CANARY,
    source="conversation",
    observed_at=NOW,
    created_at=NOW,
    updated_at=NOW,
)
REPORT = ExtractionFinished(extractor="quotes", turns=3)
ALL_EVENTS: tuple[Event, ...] = (
    RecallFinished(RecallResult(reason=Reason.INJECTED, hits=(Hit(MEMORY, 1, 1),))),
    ExchangeBypassed(Reason.NOT_JSON),
    ExchangeFailed(ValueError(CANARY)),
    SettingsUnreadable(["x-memory-limit"]),
    TurnAppended(Appended(AppendOutcome.ACCEPTED, "ses_1", "turn_1")),
    SecretsRedacted([SecretKind.PASSWORD]),
    TurnDropped("encoded_answer", "zstd"),
    REPORT,
    CandidatesRefused("llm", {"name_not_said": 2}),
    SessionDue("drift"),
    EpisodeFinished(extractor="episode_runs", turns=3, written=True),
    WorkFailed(ValueError(CANARY)),
    StoreFailed("search", StoreUnavailableError(CANARY)),
    StoreStateChanged(available=False, detail="refused"),
    ModelStateChanged(host="qwen:8000", available=False, detail="answered 503"),
    PassagesTruncated(1),
    MaintenanceFinished(MaintenanceReport(deleted={"expired": {"semantic": 1}})),
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def observer(metrics: Metrics) -> Observer:
    return TelemetryObserver(metrics)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"semrouter_memory_{name}", labels)


@pytest.mark.parametrize(
    ("result", "level", "event"),
    [
        (RecallResult(reason=Reason.INJECTED, hits=(Hit(MEMORY, 1, 1),) * 3), "info", "Memory: Retrieved 3 memories"),
        (RecallResult(reason=Reason.TIMEOUT), "warning", "Memory search timeout, skipping"),
        (RecallResult(reason=Reason.EMBEDDING_FAILED), "warning", "Embedding failed, skipping memory"),
        (RecallResult(reason=Reason.INTERNAL), "warning", "Recall failed, skipping memory"),
        (RecallResult(reason=Reason.STORE_UNAVAILABLE), "debug", "Store unavailable, skipping memory"),
        (RecallResult(reason=Reason.BELOW_THRESHOLD), "debug", "No memories above threshold"),
        (RecallResult(reason=Reason.ALREADY_VISIBLE), "debug", "Request shows the memories already"),
        (RecallResult(reason=Reason.OVER_BUDGET), "debug", "Memories longer than the token budget"),
        (RecallResult(reason=Reason.GREETING), "debug", "Memory not searched"),
    ],
)
def test_how_a_recall_is_logged(observer: Observer, result: RecallResult, level: str, event: str) -> None:
    with capture_logs() as lines:
        observer.observe(RecallFinished(result))
    assert [(line["log_level"], line["event"], line["reason"]) for line in lines] == [(level, event, result.reason)]
    assert CANARY not in str(lines)


@pytest.mark.parametrize(
    ("reason", "logged"), [(Reason.BELOW_THRESHOLD, True), (Reason.INJECTED, True), (Reason.GREETING, False)]
)
def test_a_search_without_history_is_mentioned(observer: Observer, reason: Reason, *, logged: bool) -> None:
    with capture_logs() as lines:
        observer.observe(RecallFinished(RecallResult(reason=reason, without_history=True)))
    assert ("No history, query-only search" in [line["event"] for line in lines]) is logged


def test_how_a_recall_is_counted(observer: Observer, metrics: Metrics) -> None:
    hits = (Hit(MEMORY, 1, 1),) * 2
    result = RecallResult(reason=Reason.INJECTED, hits=hits, tokens=40, steps_ms={"embed": 1.5, "search": 2.5})
    observer.observe(RecallFinished(result))
    observer.observe(RecallFinished(RecallResult(reason=Reason.GREETING)))
    assert value(metrics, "recalls_total", reason="injected") == 1
    assert value(metrics, "recalls_total", reason="greeting") == 1
    assert value(metrics, "injected_memories_total") == 2
    assert value(metrics, "injected_tokens_total") == 40
    assert value(metrics, "recall_step_seconds_sum", step="search") == 0.0025
    assert value(metrics, "recall_seconds_sum") == 0.004
    assert value(metrics, "recall_seconds_count") == 1, "a request without a search would spoil the distribution"


def test_bypassed_and_failed_exchanges(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(ExchangeBypassed(Reason.NOT_JSON))
        observer.observe(ExchangeFailed(ValueError(CANARY)))
    assert [(line["log_level"], line.get("reason")) for line in lines] == [("debug", "not_json"), ("warning", None)]
    assert value(metrics, "exchanges_bypassed_total", reason="not_json") == 1
    assert value(metrics, "exchanges_failed_total", error="ValueError") == 1


def test_a_route_setting_without_effect_is_a_warning(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(SettingsUnreadable(("x-memory-limit", "memory_config.enabled")))
    assert (lines[0]["log_level"], lines[0]["settings"]) == ("warning", ["x-memory-limit", "memory_config.enabled"])
    assert value(metrics, "unreadable_settings_total", setting="x-memory-limit") == 1


def test_what_the_gate_refuses_is_counted_and_told_without_content(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(CandidatesRefused("llm", {"name_not_said": 2, "number_not_said": 1}))
    assert lines == [
        {
            "log_level": "info",
            "event": "Memory: Refused 3 facts",
            "extractor": "llm",
            "reasons": {"name_not_said": 2, "number_not_said": 1},
        }
    ]
    assert value(metrics, "refused_candidates_total", extractor="llm", reason="name_not_said") == 2


@pytest.mark.parametrize("outcome", list(AppendOutcome))
def test_turns_are_counted_by_outcome(observer: Observer, metrics: Metrics, outcome: AppendOutcome) -> None:
    observer.observe(TurnAppended(Appended(outcome, "ses_1", "turn_1")))
    assert value(metrics, "turns_total", outcome=outcome.value) == 1


def test_texts_that_are_cut_are_counted_and_said_once(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(PassagesTruncated(2))
        observer.observe(PassagesTruncated(1))
    assert [line["log_level"] for line in lines] == ["warning"]
    assert value(metrics, "passages_truncated_total") == 3


def test_dropped_turns_are_a_warning(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(TurnDropped("log_failed"))
    assert (lines[0]["log_level"], lines[0]["reason"]) == ("warning", "log_failed")
    assert value(metrics, "turns_dropped_total", reason="log_failed") == 1


def test_redacted_secrets_are_counted_by_kind(observer: Observer, metrics: Metrics) -> None:
    observer.observe(SecretsRedacted([SecretKind.PASSWORD, SecretKind.PASSWORD, SecretKind.API_KEY]))
    assert value(metrics, "redactions_total", kind="password") == 2
    assert value(metrics, "redactions_total", kind="api_key") == 1


@pytest.mark.parametrize(
    ("report", "logged", "outcome"),
    [
        (
            replace(REPORT, actions={ReconcileAction.ADD: 2, ReconcileAction.UPDATE: 1, ReconcileAction.SKIP: 4}),
            ("info", "Memory: Stored 3 facts"),
            "stored",
        ),
        (replace(REPORT, actions={ReconcileAction.SKIP: 4}), ("debug", "Nothing to store"), "empty"),
        (replace(REPORT, failure="timeout", dead_lettered=3), ("warning", "Extraction failed"), "failed"),
        (replace(REPORT, failure="parse"), ("warning", "Extraction parse failed"), "failed"),
    ],
)
def test_how_an_extraction_is_reported(
    observer: Observer, metrics: Metrics, report: ExtractionFinished, logged: tuple[str, str], outcome: str
) -> None:
    with capture_logs() as lines:
        observer.observe(report)
    assert [(line["log_level"], line["event"]) for line in lines] == [logged]
    assert value(metrics, "extractions_total", extractor="quotes", outcome=outcome) == 1
    assert value(metrics, "extracted_turns_total", extractor="quotes") == 3
    assert value(metrics, "dead_letters_total") == report.dead_lettered
    for action, count in report.actions.items():
        assert value(metrics, "reconcile_actions_total", action=str(action)) == count
    failures = value(metrics, "extraction_failures_total", extractor="quotes", failure=report.failure)
    assert failures == (1 if report.failure else None)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            replace(REPORT, failure="model_failed", status=500, cause="Internal Server Error"),
            (500, "Internal Server Error"),
        ),
        (replace(REPORT, failure="model_failed", cause="timeout"), (None, "timeout")),
        (replace(REPORT, failure="write_refused"), (None, None)),
    ],
)
def test_the_warning_of_a_failed_model_names_status_and_cause(
    observer: Observer, report: ExtractionFinished, said: tuple[int | None, str | None]
) -> None:
    with capture_logs() as lines:
        observer.observe(report)
    (line,) = lines
    assert (line.get("status"), line.get("cause")) == said


def test_an_outage_is_logged_when_it_begins_and_when_it_ends(observer: Observer, metrics: Metrics) -> None:
    """At start too: the first state is a change."""
    with capture_logs() as lines:
        for available in (False, True, False):
            observer.observe(StoreStateChanged(available=available, detail="refused"))
            assert value(metrics, "store_available") == available
    events = [(line["log_level"], line["event"]) for line in lines]
    down, up = ("error", "Milvus unavailable, memory disabled"), ("info", "Milvus available, memory enabled")
    assert events == [down, up, down]


def test_failed_store_calls_are_counted_by_operation(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(StoreFailed("search", StoreUnavailableError(CANARY)))
    assert value(metrics, "store_errors_total", operation="search") == 1
    assert lines[0]["error"] == "StoreUnavailableError"
    assert CANARY not in str(lines)


def test_a_bug_in_background_work_is_an_error(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(WorkFailed(ValueError(CANARY)))
    assert (lines[0]["log_level"], lines[0]["event"]) == ("error", "Background work failed")
    assert value(metrics, "work_failures_total", error="ValueError") == 1


@pytest.mark.parametrize(
    ("extractor", "written", "outcome", "logged"),
    [
        ("episode_runs", True, "written", ("info", "Memory: Stored an episode")),
        ("episode_llm", False, "dropped", ("debug", "No episode")),
        ("", False, "nothing", ("debug", "No episode")),
    ],
)
def test_how_a_sessions_end_is_reported(
    observer: Observer, metrics: Metrics, extractor: str, outcome: str, logged: tuple[str, str], *, written: bool
) -> None:
    with capture_logs() as lines:
        observer.observe(EpisodeFinished(extractor=extractor, turns=3, written=written))
    assert [(line["log_level"], line["event"]) for line in lines] == [logged]
    assert value(metrics, "episodes_total", extractor=extractor or "none", outcome=outcome) == 1


def test_why_a_session_was_due_is_counted(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(SessionDue("drift"))
    assert [(line["log_level"], line["trigger"]) for line in lines] == [("debug", "drift")]
    assert value(metrics, "triggers_total", trigger="drift") == 1


def test_a_model_that_goes_away_is_an_error_and_its_return_is_said(observer: Observer, metrics: Metrics) -> None:
    with capture_logs() as lines:
        observer.observe(ModelStateChanged(host="qwen:8000", available=False, detail="qwen3 answered 503"))
        assert value(metrics, "model_available", endpoint="qwen:8000") == 0
        observer.observe(ModelStateChanged(host="qwen:8000", available=True, detail="answered"))
        assert value(metrics, "model_available", endpoint="qwen:8000") == 1
    assert [(line["log_level"], line["endpoint"]) for line in lines] == [("error", "qwen:8000"), ("info", "qwen:8000")]


def test_an_event_that_cannot_be_recorded_is_counted_and_costs_nobody_anything(
    observer: Observer, metrics: Metrics
) -> None:
    broken: Any = None
    observer.observe(RecallFinished(broken))
    observer.observe(TurnAppended(broken))
    assert value(metrics, "observer_errors_total", error="AttributeError") == 4, "the metrics and the log, twice"


@pytest.mark.parametrize("event", ALL_EVENTS, ids=lambda event: type(event).__name__)
def test_a_subscriber_that_fails_keeps_no_event_from_the_others(metrics: Metrics, event: Event) -> None:
    class Broken:
        def observe(self, event: Event) -> None:
            raise ValueError(CANARY)

    class Last:
        def observe(self, event: Event) -> None:
            heard.append(event)

    heard: list[Event] = []
    TelemetryObserver(metrics, Broken(), Last()).observe(event)
    assert heard == [event]
    assert value(metrics, "observer_errors_total", error="ValueError") == 1
    assert value(metrics, "observer_errors_total", error="AttributeError") is None, "the metrics or the log failed"


def test_every_event_has_an_example() -> None:
    assert {type(event) for event in ALL_EVENTS} == set(get_args(Event))


def test_no_metric_has_a_label_that_a_user_can_choose(observer: Observer, metrics: Metrics) -> None:
    observer.observe(
        RecallFinished(RecallResult(reason=Reason.INJECTED, hits=(Hit(MEMORY, 1, 1),), steps_ms={"embed": 1}))
    )
    observer.observe(TurnAppended(Appended(AppendOutcome.ACCEPTED, "ses_1", "turn_1")))
    observer.observe(REPORT)
    labels = {name for family in metrics.registry.collect() for sample in family.samples for name in sample.labels}
    assert labels <= {"reason", "step", "le", "error", "outcome", "extractor", "action", "operation", "version"}


def test_the_exposition_is_what_prometheus_reads(metrics: Metrics) -> None:
    body, content_type = metrics.exposition()
    assert b'semrouter_memory_build_info{version="' in body
    assert content_type.startswith("text/plain; version=")
