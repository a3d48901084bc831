"""Turns what happened into metrics and log lines. Nothing here may fail: it is called on the request path."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec

import structlog

from semrouter_memory.model import (
    Appended,
    Compression,
    CompressionReason,
    ExtractionReport,
    Reason,
    RecallResult,
    UpkeepReport,
)
from semrouter_memory.telemetry.metrics import Metrics

_P = ParamSpec("_P")

_log = structlog.get_logger("semrouter_memory")

_WARNINGS = {
    Reason.TIMEOUT: "Memory search timeout, skipping",
    Reason.REWRITE_TIMEOUT: "Rewrite timeout, the plain query found nothing to inject",
    Reason.EMBEDDING_FAILED: "Embedding failed, skipping memory",
    Reason.INTERNAL: "Recall failed, skipping memory",
}
_LOST_CHAINS = frozenset({CompressionReason.CHAIN_LOST, CompressionReason.NOT_MARKED})
"""The server knows less of such a conversation than the client thinks."""
_SEARCHED = frozenset({Reason.INJECTED, Reason.BELOW_THRESHOLD, Reason.NO_MEMORIES, Reason.REWRITE_TIMEOUT})
_DEBUG = {
    Reason.BELOW_THRESHOLD: "No memories above threshold",
    Reason.NO_MEMORIES: "User has no memories",
    # The outage itself was logged once, as an error.
    Reason.STORE_UNAVAILABLE: "Store unavailable, skipping memory",
}


def _never_raising(
    method: Callable[Concatenate["TelemetryObserver", _P], None],
) -> Callable[Concatenate["TelemetryObserver", _P], None]:
    def observed(self: "TelemetryObserver", /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - telemetry that fails must cost nobody their request
            self.metrics.observer_errors.labels(type(error).__name__).inc()

    return observed


class TelemetryObserver:
    """The `Observer` of the running service.

    Log lines carry reasons, counts and durations. Of an error only its type is logged: its message may quote content.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._store_state: tuple[bool, str] | None = None
        self._truncation_said = False

    @_never_raising
    def exchange_bypassed(self, reason: Reason) -> None:
        self.metrics.bypassed.labels(reason.value).inc()
        _log.debug("Memory bypassed", reason=reason.value)

    @_never_raising
    def exchange_failed(self, error: BaseException) -> None:
        self.metrics.failed.labels(type(error).__name__).inc()
        _log.warning("Exchange failed, request passes without memory", exc_info=error)

    @_never_raising
    def settings_unreadable(self, names: Sequence[str]) -> None:
        for name in names:
            self.metrics.unreadable_settings.labels(name).inc()
        _log.warning("Settings cannot be read, what they govern is off for the request", settings=list(names))

    @_never_raising
    def recall_finished(self, result: RecallResult) -> None:
        self.metrics.recalls.labels(result.reason.value).inc()
        total_ms = self._count_steps(result)
        if result.reason is Reason.INJECTED:
            self.metrics.injected_memories.inc(len(result.hits))
            self.metrics.injected_tokens.inc(result.tokens)
        if result.compression is not None:
            self._count_compression(result.compression)
        _log_recall(result, total_ms)

    def _count_compression(self, compression: Compression) -> None:
        self.metrics.compressions.labels(compression.reason.value).inc()
        self.metrics.compressed_turns.inc(compression.dropped_turns)
        saved = compression.tokens_before - compression.tokens_after
        if compression.dropped_turns and saved > 0:
            self.metrics.compressed_tokens.inc(saved)
        level = logging.WARNING if compression.reason in _LOST_CHAINS else logging.DEBUG
        _log.log(
            level,
            "Conversation compression",
            reason=compression.reason.value,
            turns=compression.dropped_turns,
            tokens_before=compression.tokens_before,
            tokens_after=compression.tokens_after,
        )

    @_never_raising
    def turn_appended(self, appended: Appended) -> None:
        self.metrics.turns.labels(appended.outcome.value).inc()
        _log.debug("Turn appended", outcome=appended.outcome.value, session=appended.session_id, turn=appended.turn_id)

    @_never_raising
    def secrets_redacted(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.metrics.redactions.labels(kind).inc()
        _log.debug("Secrets redacted", kinds=list(kinds))

    @_never_raising
    def turn_dropped(self, reason: str, detail: str = "") -> None:
        self.metrics.turns_dropped.labels(reason).inc()
        _log.warning("Turn dropped", reason=reason, **({"detail": detail} if detail else {}))

    @_never_raising
    def extraction_finished(self, report: ExtractionReport) -> None:
        self._count_extraction(report)
        if report.failure:
            parse = "parse" in report.failure
            _log.warning(
                "Extraction parse failed" if parse else "Extraction failed",
                extractor=report.extractor,
                failure=report.failure,
                turns=report.turns,
                dead_lettered=report.dead_lettered,
                **_model_failure(report),
            )
        elif report.stored:
            _log.info(
                f"Memory: Stored {report.stored} facts",
                extractor=report.extractor,
                turns=report.turns,
                actions=dict(report.actions),
            )
        else:
            _log.debug("Nothing to store", extractor=report.extractor, turns=report.turns, actions=dict(report.actions))

    @_never_raising
    def candidates_refused(self, extractor: str, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            self.metrics.refused_candidates.labels(extractor, reason).inc(count)
        _log.info(f"Memory: Refused {sum(reasons.values())} facts", extractor=extractor, reasons=dict(reasons))

    @_never_raising
    def upkeep_finished(self, report: UpkeepReport) -> None:
        self.metrics.upkeep_runs.labels("incomplete" if report.failures else "complete").inc()
        for reason, types in report.deleted.items():
            for kind, count in types.items():
                self.metrics.upkeep_deleted.labels(reason, kind).inc(count)
        self.metrics.upkeep_merged.inc(report.merged)
        _log.info(
            "Memory upkeep",
            memories=report.memories,
            owners=report.owners,
            deleted=dict(report.deleted),
            would_delete=dict(report.would_delete),
            held=report.held,
            summaries=report.summaries,
            merged=report.merged,
            ended=report.ended,
            failures=report.failures,
            seconds=round(report.seconds, 2),
        )
        if report.would_delete_ids:
            _log.debug("Memory upkeep would delete", ids=dict(report.would_delete_ids))

    @_never_raising
    def work_failed(self, error: BaseException) -> None:
        self.metrics.work_failures.labels(type(error).__name__).inc()
        _log.error("Background work failed", exc_info=error)

    @_never_raising
    def store_failed(self, operation: str, error: BaseException) -> None:
        self.metrics.store_errors.labels(operation).inc()
        _log.warning("Store call failed", operation=operation, error=type(error).__name__)

    @_never_raising
    def store_state_changed(self, *, available: bool, detail: str) -> None:
        self.metrics.store_available.set(available)
        # The same state with another detail is news: a server that came back with a foreign collection stays away.
        if (available, detail) == self._store_state:
            return
        self._store_state = (available, detail)
        if available:
            _log.info("Milvus available, memory enabled", detail=detail)
        else:
            _log.error("Milvus unavailable, memory disabled", detail=detail)

    @_never_raising
    def work_queued(self, *, depth: int, oldest_seconds: float) -> None:
        self.metrics.queue_depth.set(depth)
        self.metrics.queue_age_seconds.set(oldest_seconds)

    @_never_raising
    def passages_truncated(self, count: int) -> None:
        self.metrics.passages_truncated.inc(count)
        if not self._truncation_said:
            self._truncation_said = True
            _log.warning(
                "Text longer than the embedding model reads: its end is found by words only; further ones are counted",
                metric="passages_truncated",
            )

    def owner_indexes_measured(self, *, nbytes: int, owners: int) -> None:
        self.metrics.owner_index_bytes.set(nbytes)
        self.metrics.owner_indexes.set(owners)

    @_never_raising
    def session_due(self, trigger: str) -> None:
        self.metrics.triggers.labels(trigger).inc()
        _log.debug("Session due", trigger=trigger)

    @_never_raising
    def episode_finished(self, extractor: str, *, turns: int, written: bool) -> None:
        outcome = "written" if written else "dropped" if extractor else "nothing"
        self.metrics.episodes.labels(extractor or "none", outcome).inc()
        if written:
            _log.info("Memory: Stored an episode", extractor=extractor, turns=turns)
        else:
            _log.debug("No episode", outcome=outcome, turns=turns)

    @_never_raising
    def model_state_changed(self, host: str, *, available: bool, detail: str) -> None:
        self.metrics.model_available.labels(host).set(available)
        if available:
            _log.info("Model available again", endpoint=host, detail=detail)
        else:
            _log.error("Model unavailable, left alone for a while", endpoint=host, detail=detail)

    def _count_steps(self, result: RecallResult) -> float:
        """Observe each step; returns the milliseconds of all together."""
        for step, milliseconds in result.steps_ms.items():
            self.metrics.recall_step_seconds.labels(step).observe(milliseconds / 1000)
        total_ms = sum(result.steps_ms.values())
        if result.steps_ms:
            self.metrics.recall_seconds.observe(total_ms / 1000)
        return total_ms

    def _count_extraction(self, report: ExtractionReport) -> None:
        outcome = "failed" if report.failure else "stored" if report.stored else "empty"
        self.metrics.extractions.labels(report.extractor, outcome).inc()
        self.metrics.extracted_turns.labels(report.extractor).inc(report.turns)
        self.metrics.candidates.labels(report.extractor).inc(report.candidates)
        for action, count in report.actions.items():
            self.metrics.actions.labels(action).inc(count)
        if report.failure:
            self.metrics.extraction_failures.labels(report.extractor, report.failure).inc()
        self.metrics.dead_letters.inc(report.dead_lettered)


def _model_failure(report: ExtractionReport) -> dict[str, int | str]:
    """Status and cause, as far as they are known."""
    status: dict[str, int | str] = {} if report.status is None else {"status": report.status}
    return status | ({"cause": report.cause} if report.cause else {})


def _log_recall(result: RecallResult, total_ms: float) -> None:
    reason = result.reason
    if result.without_history and reason in _SEARCHED:
        _log.debug("No history, query-only search")
    measured = {"reason": reason.value, "duration_ms": round(total_ms, 2)}
    if reason is Reason.INJECTED:
        _log.info(f"Memory: Retrieved {len(result.hits)} memories", tokens=result.tokens, **measured)
    elif reason in _WARNINGS:
        _log.warning(_WARNINGS[reason], **measured)
    else:
        _log.debug(_DEBUG.get(reason, "Memory not searched"), **measured)
