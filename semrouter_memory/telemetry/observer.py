"""Passes events to their subscribers: the metrics, the log (a line for each event), and the tracer where one runs.

Of an error only its type is logged, because its message may quote content.
"""

import logging
from dataclasses import asdict

import structlog

from semrouter_memory import events
from semrouter_memory.errors import name_of
from semrouter_memory.model import Compression, CompressionReason, MaintenanceReport, Reason, RecallResult
from semrouter_memory.ports import Observer
from semrouter_memory.telemetry.metrics import Metrics

_log = structlog.get_logger("semrouter_memory")

_WARNINGS = {
    Reason.TIMEOUT: "Memory search timeout, skipping",
    Reason.REWRITE_TIMEOUT: "Rewrite timeout, the plain query found nothing to inject",
    Reason.EMBEDDING_FAILED: "Embedding failed, skipping memory",
    Reason.INTERNAL: "Recall failed, skipping memory",
}
_LOST_CHAINS = frozenset({CompressionReason.CHAIN_LOST, CompressionReason.NOT_MARKED})
"""The server knows less of such a conversation than the client expects."""
_DEBUG = {
    Reason.BELOW_THRESHOLD: "No memories above threshold",
    Reason.ALREADY_VISIBLE: "Request shows the memories already",
    Reason.OVER_BUDGET: "Memories longer than the token budget",
    Reason.NO_MEMORIES: "User has no memories",
    # The outage itself was logged once, as an error.
    Reason.STORE_UNAVAILABLE: "Store unavailable, skipping memory",
}


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


class EventLog:
    """Writes the service's log. `observe` subscribes to events."""

    def __init__(self) -> None:
        self._store_state: events.StoreStateChanged | None = None
        self._truncation_logged = False

    def observe(self, event: events.Event) -> None:
        match event:
            case events.RecallFinished():
                _log_recall(event.result)
            case events.ExchangeBypassed():
                _log.debug("Memory bypassed", reason=event.reason.value)
            case events.ExchangeFailed():
                _log.warning("Exchange failed, request passes without memory", exc_info=event.error)
            case events.SettingsUnreadable():
                _log.warning(
                    "Settings cannot be read, what they govern is off for the request", settings=list(event.names)
                )
            case _ if isinstance(event, events.TurnEvent):
                _log_turn_event(event)
            case _:
                self._log_service_event(event)

    def _log_service_event(self, event: events.ServiceEvent) -> None:
        match event:
            case events.WorkFailed():
                _log.error("Background work failed", exc_info=event.error)
            case events.StoreFailed():
                _log.warning("Store call failed", operation=event.operation, error=name_of(event.error))
            case events.StoreStateChanged():
                self._log_store_state(event)
            case events.ModelStateChanged(available=True):
                _log.info("Model available again", endpoint=event.host, detail=event.detail)
            case events.ModelStateChanged():
                _log.error("Model unavailable, left alone for a while", endpoint=event.host, detail=event.detail)
            case events.PassagesTruncated():
                self._log_truncation()
            case events.MaintenanceFinished():
                _log_maintenance(event.report)
            case events.WorkQueued() | events.OwnerIndexesMeasured():
                pass

    def _log_store_state(self, event: events.StoreStateChanged) -> None:
        # The same state with another detail is news: a server may return with an unusable collection.
        if event == self._store_state:
            return
        self._store_state = event
        if event.available:
            _log.info("Milvus available, memory enabled", detail=event.detail)
        else:
            _log.error("Milvus unavailable, memory disabled", detail=event.detail)

    def _log_truncation(self) -> None:
        if not self._truncation_logged:
            self._truncation_logged = True
            _log.warning(
                "Text longer than the embedding model reads: its vector is that of the beginning; further ones are counted",
                metric="passages_truncated",
            )


def _log_recall(result: RecallResult) -> None:
    if result.compression is not None:
        _log_compression(result.compression)
    reason = result.reason
    if result.without_history and reason.is_outcome:
        _log.debug("No history, query-only search")
    measured = {"reason": reason.value, "duration_ms": round(sum(result.steps_ms.values()), 2)}
    if reason is Reason.INJECTED:
        _log.info(f"Memory: Retrieved {len(result.hits)} memories", tokens=result.tokens, **measured)
    elif reason in _WARNINGS:
        _log.warning(_WARNINGS[reason], **measured)
    else:
        _log.debug(_DEBUG.get(reason, "Memory not searched"), **measured)


def _log_compression(compression: Compression) -> None:
    level = logging.WARNING if compression.reason in _LOST_CHAINS else logging.DEBUG
    _log.log(
        level,
        "Conversation compression",
        reason=compression.reason.value,
        turns=compression.dropped_turns,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_after,
    )


def _log_turn_event(event: events.TurnEvent) -> None:
    match event:
        case events.TurnAppended(appended):
            _log.debug(
                "Turn appended", outcome=appended.outcome.value, session=appended.session_id, turn=appended.turn_id
            )
        case events.SecretsRedacted():
            _log.debug("Secrets redacted", kinds=list(event.kinds))
        case events.TurnDropped():
            _log.warning("Turn dropped", reason=event.reason, **({"detail": event.detail} if event.detail else {}))
        case events.ExtractionFinished():
            _log_extraction(event)
        case events.CandidatesRefused():
            count = sum(event.reasons.values())
            _log.info(f"Memory: Refused {count} facts", extractor=event.extractor, reasons=dict(event.reasons))
        case events.SessionDue():
            _log.debug("Session due", trigger=event.trigger)
        case events.EpisodeFinished(written=True):
            _log.info("Memory: Stored an episode", extractor=event.extractor, turns=event.turns)
        case events.EpisodeFinished():
            _log.debug("No episode", outcome=event.outcome, turns=event.turns)


def _log_extraction(event: events.ExtractionFinished) -> None:
    read = {"extractor": event.extractor, "turns": event.turns}
    if event.failure:
        text = "Extraction parse failed" if "parse" in event.failure else "Extraction failed"
        status = {} if event.status is None else {"status": event.status}
        cause = {"cause": event.cause} if event.cause else {}
        _log.warning(text, failure=event.failure, dead_lettered=event.dead_lettered, **read, **status, **cause)
    elif event.stored:
        _log.info(f"Memory: Stored {event.stored} facts", actions=dict(event.actions), **read)
    else:
        _log.debug("Nothing to store", actions=dict(event.actions), **read)


def _log_maintenance(report: MaintenanceReport) -> None:
    done = asdict(report)
    ids = done.pop("would_delete_ids")
    _log.info("Memory maintenance", **done | {"seconds": round(report.seconds, 2)})
    if ids:
        _log.debug("Memory maintenance would delete", ids=ids)
