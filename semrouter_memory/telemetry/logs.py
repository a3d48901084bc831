"""The log of the process: structured, to stderr, in UTC, without content; and the line of each event.

Our own lines name ids, counts, durations and reasons. Lines of libraries cannot be trusted to: they are cut to their first
line, and an exception is reduced to its type and where it was raised, because its message may quote what it choked on.
"""

import json
import logging
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TextIO

import orjson
import structlog

from semrouter_memory import events
from semrouter_memory.config import TelemetryConfig
from semrouter_memory.errors import name_of
from semrouter_memory.model import Compression, CompressionReason, MaintenanceReport, Reason, RecallResult

_QUIET = {
    "uvicorn": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore2": logging.WARNING,
    # Logs whole requests, prompts included, when asked for DEBUG.
    "openai": logging.WARNING,
    # Logs each failed call at ERROR, filter expressions included; the store reports its failures itself.
    "pymilvus": logging.CRITICAL,
    "asyncio": logging.WARNING,
    "grpc": logging.WARNING,
    # Logs each request twice, and names that a client made up.
    "mcp": logging.CRITICAL,
    # Names the collector's answer at every batch; the exporter's failure is said once.
    "opentelemetry": logging.CRITICAL,
}

_Event = MutableMapping[str, Any]


def configure(config: TelemetryConfig, *, stream: TextIO | None = None) -> None:
    """Route structlog and the standard library's logging into one stream (stderr), as JSON or for people."""
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_message,
    ]
    lines = _Lines(stream or sys.stderr)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _first_line, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(config)],
        )
    )
    # A line that cannot be written is given up: the standard library would print it raw, arguments, traceback and all.
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.log_level)
    for name, level in _QUIET.items():
        library = logging.getLogger(name)
        library.setLevel(max(level, root.level))
        library.handlers[:] = []
        library.propagate = True
    # Straight to the stream: through the standard library a line costs a request three times as much.
    structlog.configure(
        processors=[*shared, _renderer(config)],
        logger_factory=lambda *_: lines,
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Writes lines; one that cannot be written is given up."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


def _renderer(config: TelemetryConfig) -> structlog.typing.Processor:
    if config.log_format == "console":
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(serializer=_json)


def _json(event: _Event, **_: Any) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        # Text that is no Unicode.
        return json.dumps(event, default=repr)


def _first_line(_logger: Any, _method: str, event: _Event) -> _Event:
    """asyncio, for one, writes the repr of a task and its exception on the lines that follow."""
    event["event"] = str(event.get("event", "")).split("\n", 1)[0]
    return event


def _without_message(_logger: Any, _method: str, event: _Event) -> _Event:
    """Replaces exception information by the exception's type and the calls that led to it."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)
        calls = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        event["error"] = name_of(error)
        event["calls"] = calls
    return event


# -- events -------------------------------------------------------------------------------------------------------------

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


class EventLog:
    """Writes the service's log. `observe` subscribes to events."""

    def __init__(self) -> None:
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
            case events.StoreStateChanged(available=True):
                _log.info("Milvus available, memory enabled", detail=event.detail)
            case events.StoreStateChanged():
                _log.error("Milvus unavailable, memory disabled", detail=event.detail)
            case events.ModelStateChanged(available=True):
                _log.info("Model available again", endpoint=event.host, detail=event.detail)
            case events.ModelStateChanged():
                _log.error("Model unavailable, left alone for a while", endpoint=event.host, detail=event.detail)
            case events.PassagesTruncated():
                self._log_truncation()
            case events.MaintenanceFinished():
                _log_maintenance(event.report)

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
