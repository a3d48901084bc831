"""The Prometheus metrics, how events change them, and the observer that passes events to them, the log and the tracer.

No label takes a value that a user can choose.
"""

from collections.abc import Mapping
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from semrouter_memory import __version__, events
from semrouter_memory.errors import name_of
from semrouter_memory.model import Compression, Reason, RecallResult
from semrouter_memory.ports import Observer
from semrouter_memory.telemetry.logs import EventLog

_PREFIX = "semrouter_memory"

_SECONDS = (
    0.0005,
    0.001,
    0.002,
    0.003,
    0.004,
    0.006,
    0.008,
    0.012,
    0.02,
    0.035,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
)
"""Dense where recall is meant to be: 2 to 6 ms, deadline at 50, with a rewriting model at 450."""


class Metrics:
    """Every metric of the process, in a registry of its own. `observe` subscribes to events."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._define_request_phase()
        self._define_background()
        self._define_service()

    def _define_request_phase(self) -> None:
        self.recalls = self._counter("recalls", "Requests that recall decided about, by outcome.", "reason")
        self.recall_seconds = self._histogram("recall_seconds", "Duration of recall as a whole.")
        self.recall_step_seconds = self._histogram("recall_step_seconds", "Duration of a step of recall.", "step")
        # Each request counts half a dozen steps, and to look a label up takes longer than to count.
        self._recalls_of, self._seconds_of = cache(self.recalls.labels), cache(self.recall_step_seconds.labels)
        self.injected_memories = self._counter("injected_memories", "Memories put into requests.")
        self.injected_tokens = self._counter("injected_tokens", "Size of the injected text in embedding tokens.")
        self.bypassed = self._counter("exchanges_bypassed", "Exchanges that passed without memory.", "reason")
        self.failed = self._counter("exchanges_failed", "Exchanges that passed because we failed.", "error")
        self.unreadable_settings = self._counter("unreadable_settings", "Settings that cannot be read.", "setting")
        self.compressions = self._counter("compressions", "Long conversations decided about, by outcome.", "reason")
        self.compressed_turns = self._counter("compressed_turns", "Turns that a state stood for.")
        self.shortened_results = self._counter("shortened_tool_results", "Results of tools that a line stood for.")
        self.compressed_tokens = self._counter("compressed_tokens", "Tokens that were not sent, estimated.")

    def _define_background(self) -> None:
        self.turns = self._counter("turns", "Finished exchanges offered to the turn log.", "outcome")
        self.turns_dropped = self._counter("turns_dropped", "Finished exchanges not accepted.", "reason")
        self.redactions = self._counter("redactions", "Secrets taken out of turns before they were logged.", "kind")
        self.queue_depth = self._gauge(
            "queue_depth", "Sessions that wait for extraction, those that wait to be tried again included."
        )
        self.owner_index_bytes = self._gauge("owner_index_bytes", "Memory that cached owner indexes take.")
        self.owner_indexes = self._gauge("owner_indexes", "Users whose memories are indexed in the process.")
        self.queue_age_seconds = self._gauge("queue_oldest_seconds", "How long the oldest of them waits.")
        self.extractions = self._counter("extractions", "Extractions of a session.", "extractor", "outcome")
        self.extraction_failures = self._counter("extraction_failures", "Failed extractions.", "extractor", "failure")
        self.extracted_turns = self._counter("extracted_turns", "Turns that were read for facts.", "extractor")
        self.candidates = self._counter("extraction_candidates", "Facts that extractors proposed.", "extractor")
        self.refused_candidates = self._counter(
            "refused_candidates", "Facts refused by the grounding check.", "extractor", "reason"
        )
        self.actions = self._counter("reconcile_actions", "What became of proposed facts.", "action")
        self.dead_letters = self._counter("dead_letters", "Turns given up after too many failures.")
        self.triggers = self._counter("triggers", "Why sessions were due.", "trigger")
        self.episodes = self._counter("episodes", "Sessions summed up at their end.", "extractor", "outcome")
        self.model_available = self._gauge("model_available", "0 while a model's circuit is open.", "endpoint")
        self.work_failures = self._counter("work_failures", "Background work that ended in a bug.", "error")
        self.passages_truncated = self._counter("passages_truncated", "Texts longer than the embedding model reads.")
        self.maintenance_runs = self._counter("maintenance_runs", "Maintenance runs, by outcome.", "outcome")
        self.maintenance_deleted = self._counter(
            "maintenance_deleted", "Memories that maintenance deleted.", "reason", "type"
        )
        self.maintenance_merged = self._counter("maintenance_merged", "Memories merged into summaries.")

    def _define_service(self) -> None:
        self.store_errors = self._counter("store_errors", "Failed calls of the store.", "operation")
        self.store_available = self._gauge("store_available", "1 while the store answers.")
        self.observer_errors = self._counter("observer_errors", "Events that could not be recorded.", "error")
        self._gauge("build_info", "Always 1; the version is the label.", "version").labels(__version__).set(1)

    def observe(self, event: events.Event) -> None:
        match event:
            case events.RecallFinished():
                self._count_recall(event.result)
            case events.ExchangeBypassed():
                self.bypassed.labels(event.reason.value).inc()
            case events.ExchangeFailed():
                self.failed.labels(name_of(event.error)).inc()
            case events.SettingsUnreadable():
                for name in event.names:
                    self.unreadable_settings.labels(name).inc()
            case _ if isinstance(event, events.TurnEvent):
                self._count_turn_event(event)
            case _:
                self._count_service_event(event)

    def _count_recall(self, result: RecallResult) -> None:
        self._recalls_of(result.reason.value).inc()
        for step, milliseconds in result.steps_ms.items():
            self._seconds_of(step).observe(milliseconds / 1000)
        if result.steps_ms:
            self.recall_seconds.observe(sum(result.steps_ms.values()) / 1000)
        if result.reason is Reason.INJECTED:
            self.injected_memories.inc(len(result.hits))
            self.injected_tokens.inc(result.tokens)
        if result.compression is not None:
            self._count_compression(result.compression)
        if result.shortened is not None:
            self.shortened_results.inc(result.shortened.results)
            self.compressed_tokens.inc(result.shortened.tokens)

    def _count_compression(self, compression: Compression) -> None:
        self.compressions.labels(compression.reason.value).inc()
        self.compressed_turns.inc(compression.dropped_turns)
        saved = compression.tokens_before - compression.tokens_after
        if compression.dropped_turns and saved > 0:
            self.compressed_tokens.inc(saved)

    def _count_turn_event(self, event: events.TurnEvent) -> None:
        match event:
            case events.TurnAppended():
                self.turns.labels(event.appended.outcome.value).inc()
            case events.SecretsRedacted():
                for kind in event.kinds:
                    self.redactions.labels(kind).inc()
            case events.TurnDropped():
                self.turns_dropped.labels(event.reason).inc()
            case events.ExtractionFinished():
                self._count_extraction(event)
            case events.CandidatesRefused():
                for reason, count in event.reasons.items():
                    self.refused_candidates.labels(event.extractor, reason).inc(count)
            case events.SessionDue():
                self.triggers.labels(event.trigger).inc()
            case events.EpisodeFinished():
                self.episodes.labels(event.extractor or "none", event.outcome).inc()

    def _count_extraction(self, event: events.ExtractionFinished) -> None:
        outcome = "failed" if event.failure else "stored" if event.stored else "empty"
        self.extractions.labels(event.extractor, outcome).inc()
        self.extracted_turns.labels(event.extractor).inc(event.turns)
        self.candidates.labels(event.extractor).inc(event.candidates)
        for action, count in event.actions.items():
            self.actions.labels(action).inc(count)
        if event.failure:
            self.extraction_failures.labels(event.extractor, event.failure).inc()
        self.dead_letters.inc(event.dead_lettered)

    def _count_service_event(self, event: events.ServiceEvent) -> None:
        match event:
            case events.WorkFailed():
                self.work_failures.labels(name_of(event.error)).inc()
            case events.StoreFailed():
                self.store_errors.labels(event.operation).inc()
            case events.StoreStateChanged():
                self.store_available.set(event.available)
            case events.ModelStateChanged():
                self.model_available.labels(event.host).set(event.available)
            case events.PassagesTruncated():
                self.passages_truncated.inc(event.count)
            case events.MaintenanceFinished():
                report = event.report
                self.maintenance_runs.labels("incomplete" if report.failures else "complete").inc()
                self._count_deleted(report.deleted)
                self.maintenance_merged.inc(report.merged)

    def _count_deleted(self, deleted: Mapping[str, Mapping[str, int]]) -> None:
        for reason, types in deleted.items():
            for kind, count in types.items():
                self.maintenance_deleted.labels(reason, kind).inc(count)

    def exposition(self) -> tuple[bytes, str]:
        """The metrics as text, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"{_PREFIX}_{name}", text, labels, registry=self.registry, buckets=_SECONDS)


class TelemetryObserver:
    """The `Observer` of the running service. A subscriber that fails costs neither the others nor the request anything.

    Args:
        others: subscribers besides the metrics and the log.
    """

    def __init__(self, metrics: Metrics, *others: Observer) -> None:
        self._errors = metrics.observer_errors
        subscribers: tuple[Observer, ...] = (metrics, EventLog(), *others)
        self._subscribers = [subscriber.observe for subscriber in subscribers]

    def observe(self, event: events.Event) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 - telemetry is called on the request path
                self._errors.labels(type(error).__name__).inc()
